package day

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// chores are the many small calls of one step: one that fails does not keep the others from being tried.
type chores struct{ done, failed, missing []string }

// do does one; `work` answers ErrMissing when the client has no call for it, and ends like a step when it fails.
func (c *chores) do(name string, work func() error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case failure:
			c.fail(name, reason.reason)
		default:
			panic(reason)
		}
	}()
	switch err := work(); {
	case err == nil:
		c.done = append(c.done, name)
	case errors.Is(err, ErrMissing):
		c.missing = append(c.missing, name)
	default:
		c.fail(name, err.Error())
	}
}

func (c *chores) fail(name, reason string) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, reason)
	c.failed = append(c.failed, fmt.Sprintf("%s (%s)", name, reason))
}

func (c *chores) detail() string {
	check(len(c.failed) == 0, "%s", strings.Join(c.failed, "; "))
	detail := strings.Join(c.done, ", ")
	if len(c.missing) > 0 {
		detail += "; not in the client: " + strings.Join(c.missing, ", ")
	}
	return detail
}

func (s *steps) administer() string {
	client, todo, group, used := s.client, &chores{}, Prefix+"-kill", Prefix+"-live"
	live := s.member(MemberOptions{Group: used, Topic: topic}, s.sent.read(client.Normal))
	hasAll(live)
	var controller int32
	todo.do("describe cluster", func() error {
		cluster, err := client.Cluster()
		controller = cluster.Controller
		return err
	})
	todo.do("list groups", func() error {
		found, err := client.Groups()
		for name, state := range map[string]string{used: "Stable", group: "Empty"} {
			if told, listed := found[name]; err == nil {
				check(listed, "group %s is not listed in %v", name, found)
				check(told == "" || told == state, "group %s is %s", name, told)
			}
		}
		return err
	})
	todo.do("describe groups", func() error {
		found, err := client.Group(used)
		if err != nil {
			return err
		}
		equal("state", found.State, "Stable")
		equal("members", len(found.Members), 1)
		equal("client id", found.Members[0].ClientID, Prefix)
		assigned := slices.Sorted(slices.Values(found.Members[0].Assigned[topic]))
		equal("assigned", assigned, []int32{0, 1, 2})
		return nil
	})
	s.settings(todo, controller)
	todo.do("create partitions", func() error {
		if err := client.CreatePartitions(sharedTopic, 6); err != nil {
			return err
		}
		eventually("six partitions in the metadata", func() bool {
			found, err := client.PartitionsOf(sharedTopic)
			return err == nil && found == 6
		})
		return nil
	})
	todo.do("delete records", func() error {
		if err := client.DeleteRecords(topic, 0, 10); err != nil {
			return err
		}
		earliest, err := client.Offset(topic, 0, Earliest)
		equal("earliest", earliest, int64(10))
		return err
	})
	s.groupOffsets(todo, group)
	todo.do("refuse to delete a group in use", func() error {
		err := client.DeleteGroup(used)
		if errors.Is(err, ErrMissing) {
			return err
		}
		check(errors.Is(err, client.NonEmptyGroup()), "the answer is %v", err)
		return nil
	})
	succeeds("close", live.Close())
	todo.do("delete group", func() error {
		if err := client.DeleteGroup(group); err != nil {
			return err
		}
		found, err := client.Groups()
		_, listed := found[group]
		check(!listed, "the deleted group is listed")
		return err
	})
	todo.do("delete topic", func() error {
		if err := client.DeleteTopic(timesTopic); err != nil {
			return err
		}
		eventually("a deleted topic is gone", func() bool {
			found, err := client.Topics()
			return err == nil && !slices.Contains(found, timesTopic)
		})
		return nil
	})
	return todo.detail()
}

func (s *steps) settings(todo *chores, node int32) {
	client := s.client
	retention := func() string {
		found, err := client.TopicSettings(topic)
		succeeds("describe topic configs", err)
		return found["retention.ms"].Value
	}
	todo.do("describe topic configs", func() error {
		found, err := client.TopicSettings(topic)
		if err != nil {
			return err
		}
		for _, name := range []string{"retention.ms", "cleanup.policy", "max.message.bytes"} {
			check(found[name].Value != "", "no %s in %v", name, found)
		}
		check(found["retention.ms"].Default, "retention.ms is no default before it was set")
		return nil
	})
	todo.do("describe node configs", func() error {
		found, err := client.NodeSettings(node)
		check(err != nil || len(found) > 0, "the node has no settings")
		return err
	})
	todo.do("incremental alter configs", func() error {
		if err := client.IncrementalAlter(topic, "retention.ms", "3600000"); err != nil {
			return err
		}
		equal("retention.ms", retention(), "3600000")
		return nil
	})
	todo.do("alter configs", func() error {
		if err := client.Alter(topic, "retention.ms", "7200000"); err != nil {
			return err
		}
		equal("retention.ms", retention(), "7200000")
		return nil
	})
}

func (s *steps) groupOffsets(todo *chores, group string) {
	client := s.client
	offsets := func() map[int32]int64 {
		found, err := client.Committed(group, killTopic)
		succeeds("list group offsets", err)
		offsets := map[int32]int64{}
		for partition, committed := range found {
			offsets[partition] = committed.Offset
		}
		return offsets
	}
	todo.do("list group offsets", func() error {
		equal("partitions with an offset", len(offsets()), Partitions)
		return nil
	})
	todo.do("alter group offsets", func() error {
		expected := offsets()
		expected[1] = 7
		if err := client.AlterGroupOffset(group, killTopic, 1, 7); err != nil {
			return err
		}
		equal("offsets of the group", offsets(), expected)
		return nil
	})
	todo.do("delete group offsets", func() error {
		expected := offsets()
		delete(expected, 1)
		if err := client.DeleteGroupOffset(group, killTopic, 1); err != nil {
			return err
		}
		equal("offsets of the group", offsets(), expected)
		return nil
	})
}
