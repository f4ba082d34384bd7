package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringgate.invalid/day"
)

type producer struct {
	client *kgo.Client
	stamps []int64
}

func (franz) Producer(options day.ProducerOptions) (day.Producer, error) {
	var more []kgo.Opt
	if !options.Idempotent {
		more = append(more, kgo.DisableIdempotentWrite())
	}
	codec := map[string]kgo.CompressionCodec{
		"": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[options.Codec]
	client, err := connect(append(more, kgo.ProducerBatchCompression(codec))...)
	return &producer{client, options.Timestamps}, err
}

func (p *producer) Send(topic string, records []day.Record) ([]day.Placed, error) {
	ctx, done := deadline()
	defer done()
	made := make([]*kgo.Record, len(records))
	for n, record := range records {
		made[n] = &kgo.Record{Topic: topic, Key: record.Key, Value: record.Value}
		for _, header := range record.Headers {
			made[n].Headers = append(made[n].Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		if p.stamps != nil {
			made[n].Timestamp = time.UnixMilli(p.stamps[n])
		}
	}
	if err := p.client.ProduceSync(ctx, made...).FirstErr(); err != nil {
		return nil, err
	}
	placed := make([]day.Placed, len(made))
	for n, record := range made {
		placed[n] = day.Placed{Partition: record.Partition, Offset: record.Offset}
	}
	return placed, nil
}

func (p *producer) Close() error {
	p.client.Close()
	return nil
}

// member polls in a goroutine of its own.
type member struct {
	client *kgo.Client
	topic  string
	ended  chan struct{}

	guard    sync.Mutex
	assigned []int32
}

func (franz) Member(options day.MemberOptions, read func(day.Delivered)) (day.Member, error) {
	m := &member{topic: options.Topic, ended: make(chan struct{})}
	more := []kgo.Opt{
		kgo.ClientID(options.Name), kgo.ConsumerGroup(options.Group), kgo.ConsumeTopics(options.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(10 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) { m.gain(given[m.topic]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
			m.lose(taken[m.topic])
			if options.Revoked != nil && len(taken[m.topic]) > 0 {
				options.Revoked(taken[m.topic])
			}
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) { m.lose(taken[m.topic]) }),
	}
	if options.Instance != "" {
		more = append(more, kgo.InstanceID(options.Instance))
	}
	switch options.Strategy {
	case "range":
		more = append(more, kgo.Balancers(kgo.RangeBalancer()))
	case "cooperative-sticky":
		more = append(more, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	client, err := connect(more...)
	if err != nil {
		return nil, err
	}
	m.client = client
	go m.poll(read)
	return m, nil
}

func (m *member) poll(read func(day.Delivered)) {
	defer close(m.ended)
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			fmt.Fprintf(os.Stderr, "the consumer at %s %d: %v\n", topic, partition, err)
		})
		fetches.EachRecord(func(got *kgo.Record) {
			record := day.Record{Key: got.Key, Value: got.Value}
			for _, header := range got.Headers {
				record.Headers = append(record.Headers, day.Header{Name: header.Key, Value: header.Value})
			}
			read(day.Delivered{Partition: got.Partition, Offset: got.Offset, Record: record})
		})
	}
}

func (m *member) gain(given []int32) {
	m.guard.Lock()
	defer m.guard.Unlock()
	m.assigned = append(m.assigned, given...)
	slices.Sort(m.assigned)
}

func (m *member) lose(taken []int32) {
	m.guard.Lock()
	defer m.guard.Unlock()
	m.assigned = slices.DeleteFunc(m.assigned, func(partition int32) bool { return slices.Contains(taken, partition) })
}

func (m *member) Assigned() []int32 {
	m.guard.Lock()
	defer m.guard.Unlock()
	return slices.Clone(m.assigned)
}

func (m *member) CommitsMetadata() bool { return true }

func (m *member) Commit(offsets map[int32]int64, metadata string) error {
	ctx, done := deadline()
	defer done()
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for _, topic := range request.Topics {
			for n := range topic.Partitions {
				topic.Partitions[n].Metadata = &metadata
			}
		}
		return nil
	})
	asked := map[int32]kgo.EpochOffset{}
	for partition, offset := range offsets {
		asked[partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	var failed error
	m.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{m.topic: asked},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err != nil {
				return
			}
			for _, topic := range answer.Topics {
				for _, partition := range topic.Partitions {
					if partition.ErrorCode != 0 {
						failed = fmt.Errorf("partition %d: error %d", partition.Partition, partition.ErrorCode)
					}
				}
			}
		})
	return failed
}

func (m *member) Close() error {
	m.client.Close()
	<-m.ended
	return nil
}
