package main

import (
	"fmt"
	"strconv"

	"github.com/segmentio/kafka-go"

	"ringgate.invalid/day"
)

// Groups have no states in kafka-go's list.
func (c client) Groups() (map[string]string, error) {
	ctx, done := deadline()
	defer done()
	answer, err := c.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	groups := map[string]string{}
	for _, group := range answer.Groups {
		groups[group.GroupID] = ""
	}
	return groups, answer.Error
}

func (c client) Group(group string) (day.Group, error) {
	ctx, done := deadline()
	defer done()
	answer, err := c.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return day.Group{}, err
	}
	described := answer.Groups[0]
	found := day.Group{State: described.GroupState}
	for _, member := range described.Members {
		assigned := map[string][]int32{}
		for _, topic := range member.MemberAssignments.Topics {
			for _, partition := range topic.Partitions {
				assigned[topic.Topic] = append(assigned[topic.Topic], int32(partition))
			}
		}
		found.Members = append(found.Members, day.GroupMember{ClientID: member.ClientID, Assigned: assigned})
	}
	return found, described.Error
}

func (c client) described(kind kafka.ResourceType, name string) (map[string]day.Setting, error) {
	ctx, done := deadline()
	defer done()
	asked := kafka.DescribeConfigRequestResource{ResourceType: kind, ResourceName: name}
	answer, err := c.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{asked}})
	if err != nil {
		return nil, err
	}
	if len(answer.Resources) != 1 {
		return nil, fmt.Errorf("%d resources for one", len(answer.Resources))
	}
	found := map[string]day.Setting{}
	for _, entry := range answer.Resources[0].ConfigEntries {
		// A default has source 5 since version 1 of DescribeConfigs, and a flag before.
		found[entry.ConfigName] = day.Setting{Value: entry.ConfigValue, Default: entry.IsDefault || entry.ConfigSource == 5}
	}
	return found, answer.Resources[0].Error
}

func (c client) TopicSettings(topic string) (map[string]day.Setting, error) {
	return c.described(kafka.ResourceTypeTopic, topic)
}

func (c client) NodeSettings(node int32) (map[string]day.Setting, error) {
	return c.described(kafka.ResourceTypeBroker, strconv.Itoa(int(node)))
}

func (c client) IncrementalAlter(topic, name, value string) error {
	ctx, done := deadline()
	defer done()
	change := kafka.IncrementalAlterConfigsRequestConfig{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}
	answer, err := c.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, Configs: []kafka.IncrementalAlterConfigsRequestConfig{change}},
	}})
	if err != nil {
		return err
	}
	return answer.Resources[0].Error
}

func (c client) Alter(topic, name, value string) error {
	ctx, done := deadline()
	defer done()
	answer, err := c.AlterConfigs(ctx, &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, Configs: []kafka.AlterConfigRequestConfig{{Name: name, Value: value}}},
	}})
	if err != nil {
		return err
	}
	for _, err := range answer.Errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c client) CreatePartitions(topic string, total int) error {
	ctx, done := deadline()
	defer done()
	asked := kafka.TopicPartitionsConfig{Name: topic, Count: int32(total)}
	answer, err := c.Client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{asked}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (client) DeleteRecords(string, int32, int64) error { return day.ErrMissing }

func (c client) AlterGroupOffset(group, topic string, partition int32, offset int64) error {
	ctx, done := deadline()
	defer done()
	answer, err := c.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: int(partition), Offset: offset}}},
	})
	if err != nil {
		return err
	}
	return answer.Topics[topic][0].Error
}

func (c client) DeleteGroupOffset(group, topic string, partition int32) error {
	ctx, done := deadline()
	defer done()
	answer, err := c.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{GroupID: group, Topics: map[string][]int{topic: {int(partition)}}})
	if err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	return answer.Topics[topic][0].Error
}

func (c client) DeleteGroup(group string) error {
	ctx, done := deadline()
	defer done()
	answer, err := c.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return answer.Errors[group]
}

func (c client) DeleteTopic(topic string) error {
	ctx, done := deadline()
	defer done()
	answer, err := c.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}
