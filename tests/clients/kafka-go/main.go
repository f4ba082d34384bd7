// A day of kafka-go: its Writer and Reader for records, its Client for administration.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"ringgate.invalid/day"
)

// A call that is not answered in a minute never will be.
func deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

type client struct{ *kafka.Client }

func main() {
	transport := &kafka.Transport{ClientID: day.Prefix, MetadataTTL: time.Second}
	day.Live(client{&kafka.Client{Addr: kafka.TCP(day.Bootstrap), Transport: transport}})
}

func (client) Codecs() []string    { return []string{"gzip", "snappy", "lz4", "zstd"} }
func (client) Idempotence() bool   { return false }
func (client) StaticMembers() bool { return false }
func (client) Rereads() bool       { return true }
func (client) Cooperative() bool   { return false }

// Normal has null where it was sent empty: a Reader gives nil for both.
func (client) Normal(record day.Record) day.Record {
	found := day.Record{Key: nullIfEmpty(record.Key), Value: nullIfEmpty(record.Value)}
	for _, header := range record.Headers {
		found.Headers = append(found.Headers, day.Header{Name: header.Name, Value: nullIfEmpty(header.Value)})
	}
	return found
}

func nullIfEmpty(bytes []byte) []byte {
	if len(bytes) == 0 {
		return nil
	}
	return bytes
}

func (c client) metadata(topics ...string) (*kafka.MetadataResponse, error) {
	ctx, done := deadline()
	defer done()
	return c.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
}

func (c client) Cluster() (day.Cluster, error) {
	answer, err := c.metadata()
	if err != nil {
		return day.Cluster{}, err
	}
	found := day.Cluster{ID: answer.ClusterID, Controller: int32(answer.Controller.ID)}
	for _, broker := range answer.Brokers {
		found.Nodes = append(found.Nodes, int32(broker.ID))
	}
	return found, nil
}

func (c client) CreateTopic(topic string, partitions int) error {
	ctx, done := deadline()
	defer done()
	config := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
	answer, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (c client) PartitionsOf(topic string) (int, error) {
	answer, err := c.metadata(topic)
	if err != nil {
		return 0, err
	}
	return len(answer.Topics[0].Partitions), answer.Topics[0].Error
}

func (c client) Topics() ([]string, error) {
	answer, err := c.metadata()
	if err != nil {
		return nil, err
	}
	var topics []string
	for _, topic := range answer.Topics {
		topics = append(topics, topic.Name)
	}
	return topics, nil
}

func (c client) Offset(topic string, partition int32, at day.When) (int64, error) {
	ctx, done := deadline()
	defer done()
	asked := kafka.OffsetRequest{Partition: int(partition), Timestamp: int64(at)}
	answer, err := c.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {asked}}})
	if err != nil {
		return 0, err
	}
	found := answer.Topics[topic][0]
	switch at {
	case day.Earliest:
		return found.FirstOffset, found.Error
	case day.Latest:
		return found.LastOffset, found.Error
	}
	for offset := range found.Offsets {
		return offset, found.Error
	}
	return -1, found.Error
}

func (c client) Committed(group, topic string) (map[int32]day.Committed, error) {
	ctx, done := deadline()
	defer done()
	answer, err := c.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group})
	if err != nil {
		return nil, err
	}
	committed := map[int32]day.Committed{}
	for _, partition := range answer.Topics[topic] {
		if partition.Error != nil {
			return nil, fmt.Errorf("partition %d: %w", partition.Partition, partition.Error)
		}
		committed[int32(partition.Partition)] = day.Committed{Offset: partition.CommittedOffset, Metadata: partition.Metadata}
	}
	return committed, answer.Error
}

func (client) NonEmptyGroup() error { return kafka.NonEmptyGroup }
