package main

import (
	"errors"
	"strconv"

	"github.com/IBM/sarama"

	"ringgate.invalid/day"
)

// Groups have no states in sarama's list.
func (c client) Groups() (map[string]string, error) {
	listed, err := c.admin.ListConsumerGroups()
	groups := map[string]string{}
	for name := range listed {
		groups[name] = ""
	}
	return groups, err
}

func (c client) Group(group string) (day.Group, error) {
	described, err := c.admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return day.Group{}, err
	}
	if described[0].Err != sarama.ErrNoError {
		return day.Group{}, described[0].Err
	}
	found := day.Group{State: described[0].State}
	for _, member := range described[0].Members {
		assignment, err := member.GetMemberAssignment()
		if err != nil {
			return found, err
		}
		found.Members = append(found.Members, day.GroupMember{ClientID: member.ClientId, Assigned: assignment.Topics})
	}
	return found, nil
}

func (c client) described(kind sarama.ConfigResourceType, name string) (map[string]day.Setting, error) {
	asked := []*sarama.ConfigResource{{Type: kind, Name: name}}
	answers, err := c.admin.DescribeConfigs(asked, sarama.DescribeConfigsOptions{})
	found := map[string]day.Setting{}
	for _, answer := range answers {
		if answer.ErrorCode != sarama.ErrNoError {
			err = errors.Join(err, answer.ErrorCode)
		}
		for _, entry := range answer.Configs {
			found[entry.Name] = day.Setting{Value: entry.Value, Default: entry.Default}
		}
	}
	return found, err
}

func (c client) TopicSettings(topic string) (map[string]day.Setting, error) {
	return c.described(sarama.TopicResource, topic)
}

func (c client) NodeSettings(node int32) (map[string]day.Setting, error) {
	return c.described(sarama.BrokerResource, strconv.Itoa(int(node)))
}

func (c client) IncrementalAlter(topic, name, value string) error {
	entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	return c.admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{name: entry}, false)
}

func (c client) Alter(topic, name, value string) error {
	return c.admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{name: &value}, false)
}

func (c client) CreatePartitions(topic string, total int) error {
	return c.admin.CreatePartitions(topic, int32(total), nil, false)
}

func (c client) DeleteRecords(topic string, partition int32, before int64) error {
	return c.admin.DeleteRecords(topic, map[int32]int64{partition: before})
}

func (c client) AlterGroupOffset(group, topic string, partition int32, offset int64) error {
	asked := map[string]map[int32]sarama.OffsetAndMetadata{topic: {partition: {Offset: offset, LeaderEpoch: -1}}}
	answer, err := c.admin.AlterConsumerGroupOffsets(group, asked, nil)
	if err != nil {
		return err
	}
	if code := answer.Errors[topic][partition]; code != sarama.ErrNoError {
		return code
	}
	return nil
}

func (c client) DeleteGroupOffset(group, topic string, partition int32) error {
	return c.admin.DeleteConsumerGroupOffset(group, topic, partition)
}

func (c client) DeleteGroup(group string) error { return c.admin.DeleteConsumerGroup(group) }

func (c client) DeleteTopic(topic string) error { return c.admin.DeleteTopic(topic) }
