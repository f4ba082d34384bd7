// A day of sarama: its producer and consumer group for records, its ClusterAdmin for administration.
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"

	"ringgate.invalid/day"
)

// settings are those of a user: sarama's own and a name.
func settings(name string) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = name
	return config
}

type client struct {
	client sarama.Client
	admin  sarama.ClusterAdmin
}

func main() {
	sarama.Logger = log.New(os.Stderr, "sarama: ", log.Ltime|log.Lmicroseconds)
	plain, err := sarama.NewClient([]string{day.Bootstrap}, settings(day.Prefix))
	if err == nil {
		var admin sarama.ClusterAdmin
		if admin, err = sarama.NewClusterAdminFromClient(plain); err == nil {
			day.Live(client{plain, admin})
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func (client) Normal(record day.Record) day.Record { return record }
func (client) Codecs() []string                    { return []string{"gzip", "snappy", "lz4", "zstd"} }
func (client) Idempotence() bool                   { return true }
func (client) StaticMembers() bool                 { return true }
func (client) Cooperative() bool                   { return true }

// A heartbeat that cannot be sent is tried again three times without a pause, so that a session can end while the gateway
// is away: members then begin another one, where they committed last.
func (client) Rereads() bool { return true }

func (c client) Cluster() (day.Cluster, error) {
	brokers, controller, err := c.admin.DescribeCluster()
	found := day.Cluster{Controller: controller}
	for _, broker := range brokers {
		found.Nodes = append(found.Nodes, broker.ID())
	}
	return found, err
}

func (c client) CreateTopic(topic string, partitions int) error {
	return c.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false)
}

func (c client) PartitionsOf(topic string) (int, error) {
	described, err := c.admin.DescribeTopics([]string{topic})
	if err != nil {
		return 0, err
	}
	if described[0].Err != sarama.ErrNoError {
		return 0, described[0].Err
	}
	return len(described[0].Partitions), nil
}

func (c client) Topics() ([]string, error) {
	listed, err := c.admin.ListTopics()
	var topics []string
	for topic := range listed {
		topics = append(topics, topic)
	}
	return topics, err
}

func (c client) Offset(topic string, partition int32, at day.When) (int64, error) {
	return c.client.GetOffset(topic, partition, int64(at))
}

func (c client) Committed(group, topic string) (map[int32]day.Committed, error) {
	found, err := c.admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return nil, err
	}
	if found.Err != sarama.ErrNoError {
		return nil, found.Err
	}
	committed := map[int32]day.Committed{}
	for partition, block := range found.Blocks[topic] {
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		committed[partition] = day.Committed{Offset: block.Offset, Metadata: block.Metadata}
	}
	return committed, nil
}

func (client) NonEmptyGroup() error { return sarama.ErrNonEmptyGroup }

// The gateway is away for a moment when it is killed; sarama's own three retries in 300 ms can be over by then.
const retries = 50

type producer struct {
	sarama.SyncProducer
	stamps []int64
}

func (client) Producer(options day.ProducerOptions) (day.Producer, error) {
	config := settings(day.Prefix)
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Retry.Max = retries
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[options.Codec]
	if options.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	inner, err := sarama.NewSyncProducer([]string{day.Bootstrap}, config)
	return &producer{inner, options.Timestamps}, err
}

func (p *producer) Send(topic string, records []day.Record) ([]day.Placed, error) {
	made := make([]*sarama.ProducerMessage, len(records))
	for n, record := range records {
		made[n] = &sarama.ProducerMessage{Topic: topic}
		if record.Key != nil {
			made[n].Key = sarama.ByteEncoder(record.Key)
		}
		if record.Value != nil {
			made[n].Value = sarama.ByteEncoder(record.Value)
		}
		for _, header := range record.Headers {
			made[n].Headers = append(made[n].Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
		}
		if p.stamps != nil {
			made[n].Timestamp = time.UnixMilli(p.stamps[n])
		}
	}
	if err := p.SendMessages(made); err != nil {
		if each, is := err.(sarama.ProducerErrors); is && len(each) > 0 {
			return nil, fmt.Errorf("%d records failed, the first one with %w", len(each), each[0].Err)
		}
		return nil, err
	}
	placed := make([]day.Placed, len(made))
	for n, message := range made {
		placed[n] = day.Placed{Partition: message.Partition, Offset: message.Offset}
	}
	return placed, nil
}
