package main

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"

	"ringgate.invalid/day"
)

func (f franz) Groups() (map[string]string, error) {
	ctx, done := deadline()
	defer done()
	found, err := f.admin.ListGroups(ctx)
	groups := map[string]string{}
	for name, group := range found {
		groups[name] = group.State
	}
	return groups, err
}

func (f franz) Group(group string) (day.Group, error) {
	ctx, done := deadline()
	defer done()
	described, err := f.admin.DescribeGroups(ctx, group)
	if err == nil {
		err = described.Error()
	}
	found := day.Group{State: described[group].State}
	for _, member := range described[group].Members {
		assigned := map[string][]int32{}
		if consumer, is := member.Assigned.AsConsumer(); is {
			for _, topic := range consumer.Topics {
				assigned[topic.Topic] = topic.Partitions
			}
		}
		found.Members = append(found.Members, day.GroupMember{ClientID: member.ClientID, Assigned: assigned})
	}
	return found, err
}

func settings(described kadm.ResourceConfigs, name string, err error) (map[string]day.Setting, error) {
	if err != nil {
		return nil, err
	}
	resource, err := described.On(name, nil)
	found := map[string]day.Setting{}
	for _, config := range resource.Configs {
		found[config.Key] = day.Setting{Value: config.MaybeValue(), Default: config.Source.String() == "DEFAULT_CONFIG"}
	}
	return found, errors.Join(err, resource.Err)
}

func (f franz) TopicSettings(topic string) (map[string]day.Setting, error) {
	ctx, done := deadline()
	defer done()
	described, err := f.admin.DescribeTopicConfigs(ctx, topic)
	return settings(described, topic, err)
}

func (f franz) NodeSettings(node int32) (map[string]day.Setting, error) {
	ctx, done := deadline()
	defer done()
	described, err := f.admin.DescribeBrokerConfigs(ctx, node)
	if err != nil || len(described) == 0 {
		return nil, err
	}
	return settings(described, described[0].Name, nil)
}

func altered(answer kadm.AlterConfigsResponses, err error) error {
	for _, resource := range answer {
		err = errors.Join(err, resource.Err)
	}
	return err
}

func (f franz) IncrementalAlter(topic, name, value string) error {
	ctx, done := deadline()
	defer done()
	return altered(f.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic))
}

func (f franz) Alter(topic, name, value string) error {
	ctx, done := deadline()
	defer done()
	return altered(f.admin.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: name, Value: &value}}, topic))
}

func (f franz) CreatePartitions(topic string, total int) error {
	ctx, done := deadline()
	defer done()
	answer, err := f.admin.UpdatePartitions(ctx, total, topic)
	return errors.Join(err, answer.Error())
}

func (f franz) DeleteRecords(topic string, partition int32, before int64) error {
	ctx, done := deadline()
	defer done()
	var offsets kadm.Offsets
	offsets.AddOffset(topic, partition, before, -1)
	answer, err := f.admin.DeleteRecords(ctx, offsets)
	return errors.Join(err, answer.Error())
}

func (f franz) AlterGroupOffset(group, topic string, partition int32, offset int64) error {
	ctx, done := deadline()
	defer done()
	var offsets kadm.Offsets
	offsets.AddOffset(topic, partition, offset, -1)
	return f.admin.CommitAllOffsets(ctx, group, offsets)
}

func (f franz) DeleteGroupOffset(group, topic string, partition int32) error {
	ctx, done := deadline()
	defer done()
	var set kadm.TopicsSet
	set.Add(topic, partition)
	answer, err := f.admin.DeleteOffsets(ctx, group, set)
	return errors.Join(err, answer.Error())
}

func (f franz) DeleteGroup(group string) error {
	ctx, done := deadline()
	defer done()
	_, err := f.admin.DeleteGroup(ctx, group)
	return err
}

func (f franz) DeleteTopic(topic string) error {
	ctx, done := deadline()
	defer done()
	_, err := f.admin.DeleteTopic(ctx, topic)
	return err
}
