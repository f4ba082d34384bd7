package day

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
)

var (
	topic       = Prefix + "-records"
	sharedTopic = Prefix + "-shared"
	killTopic   = Prefix + "-kill"
	timesTopic  = Prefix + "-times"
)

// steps is a day of one client: what its steps hand on to later ones.
type steps struct {
	*day
	client Client
	// What lies on `topic`.
	sent *account
}

// Live lives the day and ends the process.
func Live(client Client) {
	s := &steps{&day{answers: bufio.NewReader(os.Stdin)}, client, newAccount()}
	s.step("connect", s.connect)
	s.step("create-topic", s.createTopic)
	s.step("produce", s.produce)
	s.step("idempotent", s.idempotent)
	s.step("consume", s.consume)
	s.step("rebalance", s.rebalance)
	s.step("static-member", s.staticMember)
	s.step("incremental-assign", s.incrementalAssign)
	s.step("commit", s.commit)
	s.step("kill-9", s.kill9)
	s.step("offsets", s.offsets)
	s.step("admin", s.administer)
	if s.failed {
		os.Exit(1)
	}
	os.Exit(0)
}

func (s *steps) connect() string {
	cluster, err := s.client.Cluster()
	succeeds("cluster", err)
	equal("nodes", len(cluster.Nodes), nodes)
	check(slices.Contains(cluster.Nodes, cluster.Controller), "the controller %d is no node of %v", cluster.Controller, cluster.Nodes)
	return fmt.Sprintf("%d nodes, controller %d", len(cluster.Nodes), cluster.Controller)
}

func (s *steps) create(topic string, partitions int) {
	succeeds("create "+topic, s.client.CreateTopic(topic, partitions))
	eventually("partitions of "+topic, func() bool {
		found, err := s.client.PartitionsOf(topic)
		return err == nil && found == partitions
	})
}

func (s *steps) createTopic() string {
	s.create(topic, Partitions)
	return fmt.Sprintf("%d partitions", Partitions)
}

func (s *steps) producer(options ProducerOptions) Producer {
	producer, err := s.client.Producer(options)
	succeeds("producer", err)
	return producer
}

func send(producer Producer, topic string, to *account, made []Record) {
	placed, err := producer.Send(topic, made)
	succeeds("send", err)
	to.acknowledge(made, placed)
}

func (s *steps) produce() string {
	producer := s.producer(ProducerOptions{})
	send(producer, topic, s.sent, records("plain", 300))
	succeeds("close", producer.Close())
	equal("partitions with records", len(s.sent.ends()), Partitions)
	for _, codec := range s.client.Codecs() {
		producer := s.producer(ProducerOptions{Codec: codec})
		send(producer, topic, s.sent, records(codec, 50))
		succeeds("close", producer.Close())
	}
	return "300 records; codecs " + strings.Join(s.client.Codecs(), ", ")
}

func (s *steps) idempotent() string {
	if !s.client.Idempotence() {
		skip("the client has no idempotent producer")
	}
	producer := s.producer(ProducerOptions{Idempotent: true})
	send(producer, topic, s.sent, records("idempotent", 100))
	succeeds("close", producer.Close())
	return "100 records"
}

// member joins `group` on `topic` and adds what it reads to `into`.
func (s *steps) member(options MemberOptions, into *reading) Member {
	if options.Name == "" {
		options.Name = Prefix
	}
	member, err := s.client.Member(options, func(got Delivered) { into.add(options.Name, got) })
	succeeds("member", err)
	return member
}

func (s *steps) consume() string {
	reading := s.sent.read(s.client.Normal)
	member := s.member(MemberOptions{Group: Prefix + "-group", Topic: topic}, reading)
	reading.complete("everything read")
	succeeds("commit", member.Commit(reading.next(), ""))
	succeeds("close", member.Close())
	return fmt.Sprintf("%d records, each once, in order, unchanged", len(s.sent.sent))
}

// shared waits until two members have all partitions between them.
func shared(first, second Member) {
	eventually("two members share the partitions", func() bool {
		one, other := first.Assigned(), second.Assigned()
		all := slices.Concat(one, other)
		slices.Sort(all)
		return len(one) > 0 && len(other) > 0 && slices.Equal(all, []int32{0, 1, 2})
	})
}

func hasAll(member Member) {
	eventually("one member has all partitions", func() bool { return len(member.Assigned()) == Partitions })
}

func (s *steps) rebalance() string {
	s.create(sharedTopic, Partitions)
	group, sent := Prefix+"-shared", newAccount()
	reading := sent.read(s.client.Normal)
	producer := s.producer(ProducerOptions{})
	first := s.member(MemberOptions{Group: group, Topic: sharedTopic, Name: Prefix + "-first"}, reading)
	hasAll(first)
	send(producer, sharedTopic, sent, records("alone", 60))
	reading.complete("alone")
	succeeds("commit", first.Commit(reading.next(), ""))

	second := s.member(MemberOptions{Group: group, Topic: sharedTopic, Name: Prefix + "-second"}, reading)
	shared(first, second)
	split := fmt.Sprintf("%d and %d partitions", len(first.Assigned()), len(second.Assigned()))
	send(producer, sharedTopic, sent, records("together", 60))
	reading.complete("together")
	for _, member := range []Member{first, second} {
		offsets := map[int32]int64{}
		for _, partition := range member.Assigned() {
			offsets[partition] = reading.next()[partition]
		}
		succeeds("commit", member.Commit(offsets, ""))
	}
	succeeds("close", second.Close())
	hasAll(first)
	send(producer, sharedTopic, sent, records("alone again", 60))
	reading.complete("alone again")
	succeeds("commit", first.Commit(reading.next(), ""))
	succeeds("close", first.Close())
	succeeds("close", producer.Close())
	return split + ", and all back"
}

// staticMember lets a member with an instance id go away for a moment: same partitions, no rebalance for the other.
func (s *steps) staticMember() string {
	if !s.client.StaticMembers() {
		skip("the client's members have no instance id")
	}
	reading := newAccount().read(s.client.Normal)
	revoked := make(chan []int32, 100)
	options := func(instance string) MemberOptions {
		return MemberOptions{Group: Prefix + "-static", Topic: sharedTopic, Name: Prefix + "-" + instance, Instance: instance, Strategy: "range"}
	}
	watched := options("steady")
	watched.Revoked = func(partitions []int32) { revoked <- partitions }
	steady, away := s.member(watched, reading), s.member(options("away"), reading)
	shared(steady, away)
	had, kept := away.Assigned(), steady.Assigned()
	for len(revoked) > 0 {
		<-revoked
	}
	succeeds("close", away.Close())
	away = s.member(options("away"), reading)
	eventually("the static member is back", func() bool { return len(away.Assigned()) > 0 })
	equal("partitions of the member that was away", away.Assigned(), had)
	equal("partitions of the other", steady.Assigned(), kept)
	equal("times that partitions of the other were revoked", len(revoked), 0)
	for _, member := range []Member{steady, away} {
		succeeds("close", member.Close())
	}
	return "back with the same partitions, no rebalance"
}

// incrementalAssign shows that the first member keeps the partitions that it need not give away.
func (s *steps) incrementalAssign() string {
	if !s.client.Cooperative() {
		skip("the client has no cooperative assignor")
	}
	reading := newAccount().read(s.client.Normal)
	revoked := make(chan []int32, 100)
	options := func(name string) MemberOptions {
		return MemberOptions{Group: Prefix + "-cooperative", Topic: sharedTopic, Name: Prefix + name, Strategy: "cooperative-sticky"}
	}
	watched := options("-first")
	watched.Revoked = func(partitions []int32) { revoked <- partitions }
	first := s.member(watched, reading)
	hasAll(first)
	second := s.member(options("-second"), reading)
	shared(first, second)
	var given []int32
	for len(revoked) > 0 {
		given = append(given, <-revoked...)
	}
	slices.Sort(given)
	equal("partitions that were revoked", given, second.Assigned())
	succeeds("close", second.Close())
	hasAll(first)
	succeeds("close", first.Close())
	return fmt.Sprintf("cooperative-sticky, %d of 3 revoked", len(given))
}

func (s *steps) commit() string {
	group, offsets := Prefix+"-commit", map[int32]int64{}
	for partition, end := range s.sent.ends() {
		offsets[partition] = end / int64(partition+2)
	}
	reading := s.sent.read(s.client.Normal)
	member := s.member(MemberOptions{Group: group, Topic: topic}, reading)
	hasAll(member)
	metadata := ""
	if member.CommitsMetadata() {
		metadata = "a note"
	}
	succeeds("commit", member.Commit(offsets, metadata))
	succeeds("close", member.Close())
	found, err := s.client.Committed(group, topic)
	succeeds("committed", err)
	expected := map[int32]Committed{}
	for partition, offset := range offsets {
		expected[partition] = Committed{offset, metadata}
	}
	equal("committed", found, expected)

	reading = s.sent.read(s.client.Normal)
	member = s.member(MemberOptions{Group: group, Topic: topic}, reading)
	eventually("a record of each partition", func() bool { return len(reading.firsts()) == Partitions })
	equal("first offsets of the new member", reading.firsts(), offsets)
	succeeds("close", member.Close())
	if metadata == "" {
		return "members of the client commit no metadata"
	}
	return "offsets with metadata"
}

func (s *steps) kill9() string {
	s.create(killTopic, Partitions)
	group, sent, idempotent := Prefix+"-kill", newAccount(), s.client.Idempotence()
	reading := sent.read(s.client.Normal)
	producer := s.producer(ProducerOptions{Idempotent: idempotent})
	member := s.member(MemberOptions{Group: group, Topic: killTopic}, reading)
	send(producer, killTopic, sent, records("before", 150))
	reading.complete("reading before the kill")
	kept := reading.next()
	succeeds("commit", member.Commit(kept, ""))
	reading.allowAgain(s.client.Rereads())

	during := records("during", 150)
	if !idempotent {
		sent.copies = during
	}
	type answer struct {
		placed []Placed
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		placed, err := producer.Send(killTopic, during)
		answers <- answer{placed, err}
	}()
	s.kill()
	through := <-answers
	succeeds("send through the kill", through.err)
	sent.acknowledge(during, through.placed)
	send(producer, killTopic, sent, records("after", 150))
	reading.complete("reading on after the kill")

	// A connection that was idle is found dead by the first call on it, which some clients tell their callers. Groups are
	// asked of every node, and some clients have connections of their own to coordinators.
	var committed map[int32]Committed
	eventually("every node answers after the kill", func() bool {
		var groups, offsets error
		_, groups = s.client.Groups()
		committed, offsets = s.client.Committed(group, killTopic)
		return groups == nil && offsets == nil
	})
	for partition, offset := range kept {
		equal(fmt.Sprintf("commit of partition %d", partition), committed[partition].Offset, offset)
	}
	succeeds("commit", member.Commit(reading.next(), ""))
	succeeds("close", member.Close())
	succeeds("close", producer.Close())

	again := s.sent.read(s.client.Normal)
	member = s.member(MemberOptions{Group: Prefix + "-again", Topic: topic}, again)
	again.complete("reading what was acknowledged before")
	succeeds("close", member.Close())
	detail := fmt.Sprintf("%d records through the kill, none lost", len(sent.sent))
	if !s.client.Rereads() {
		detail += ", each read once"
	}
	if !idempotent {
		detail += fmt.Sprintf("; %d more copies, as the producer is not idempotent", reading.copied)
	}
	return detail
}

func (s *steps) offsets() string {
	const began = 1_700_000_000_000
	s.create(timesTopic, 1)
	var stamps []int64
	for n := range int64(10) {
		stamps = append(stamps, began+n*1000)
	}
	producer := s.producer(ProducerOptions{Timestamps: stamps})
	_, err := producer.Send(timesTopic, records("times", 10))
	succeeds("send", err)
	succeeds("close", producer.Close())
	for _, look := range []struct {
		what     string
		at       When
		expected int64
	}{
		{"earliest", Earliest, 0},
		{"latest", Latest, 10},
		{"at a timestamp", began + 5000, 5},
		{"between two timestamps", began + 5001, 6},
		{"before the first timestamp", began - 1, 0},
	} {
		found, err := s.client.Offset(timesTopic, 0, look.at)
		succeeds(look.what, err)
		equal(look.what, found, look.expected)
	}
	return "earliest, latest, by timestamp"
}
