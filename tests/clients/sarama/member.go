package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"ringgate.invalid/day"
)

// member joins again and again, as sarama asks of its users, in a goroutine of its own.
type member struct {
	client  client
	options day.MemberOptions
	group   sarama.ConsumerGroup
	read    func(day.Delivered)
	ended   chan struct{}

	guard    sync.Mutex
	session  sarama.ConsumerGroupSession
	assigned []int32
}

func (c client) Member(options day.MemberOptions, read func(day.Delivered)) (day.Member, error) {
	config := settings(options.Name)
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.InstanceId = options.Instance
	switch options.Strategy {
	case "range":
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	case "cooperative-sticky":
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyCooperativeSticky()}
	}
	group, err := sarama.NewConsumerGroup([]string{day.Bootstrap}, options.Group, config)
	if err != nil {
		return nil, err
	}
	m := &member{client: c, options: options, group: group, read: read, ended: make(chan struct{})}
	go m.consume()
	return m, nil
}

func (m *member) consume() {
	defer close(m.ended)
	for {
		err := m.group.Consume(context.Background(), []string{m.options.Topic}, m)
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "the consumer:", err)
		}
	}
}

// Setup is called at the begin of a session.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.guard.Lock()
	defer m.guard.Unlock()
	m.session = session
	return nil
}

// Cleanup is called at the end of a session.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim reads a partition for as long as it is this member's.
func (m *member) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	partition := claim.Partition()
	m.guard.Lock()
	m.assigned = append(m.assigned, partition)
	slices.Sort(m.assigned)
	m.guard.Unlock()
	for got := range claim.Messages() {
		record := day.Record{Key: got.Key, Value: got.Value}
		for _, header := range got.Headers {
			record.Headers = append(record.Headers, day.Header{Name: string(header.Key), Value: header.Value})
		}
		m.read(day.Delivered{Partition: partition, Offset: got.Offset, Record: record})
	}
	m.guard.Lock()
	m.assigned = slices.DeleteFunc(m.assigned, func(each int32) bool { return each == partition })
	m.guard.Unlock()
	if m.options.Revoked != nil {
		m.options.Revoked([]int32{partition})
	}
	return nil
}

func (m *member) Assigned() []int32 {
	m.guard.Lock()
	defer m.guard.Unlock()
	return slices.Clone(m.assigned)
}

func (m *member) CommitsMetadata() bool { return true }

// Commit looks at what is there afterwards, since the session's own Commit tells nobody how it went.
func (m *member) Commit(offsets map[int32]int64, metadata string) error {
	m.guard.Lock()
	session := m.session
	m.guard.Unlock()
	for partition, offset := range offsets {
		session.MarkOffset(m.options.Topic, partition, offset, metadata)
	}
	session.Commit()
	committed, err := m.client.Committed(m.options.Group, m.options.Topic)
	if err != nil {
		return err
	}
	for partition, offset := range offsets {
		if found := committed[partition].Offset; found != offset {
			return fmt.Errorf("partition %d: %d was committed, %d is there", partition, offset, found)
		}
	}
	return nil
}

func (m *member) Close() error {
	err := m.group.Close()
	<-m.ended
	return err
}
