// A day of franz-go: kgo for records and groups, kadm for administration.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"ringgate.invalid/day"
)

// A call that is not answered in a minute never will be.
func deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

func connect(more ...kgo.Opt) (*kgo.Client, error) {
	options := []kgo.Opt{kgo.SeedBrokers(day.Bootstrap), kgo.ClientID(day.Prefix), kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil))}
	return kgo.NewClient(append(options, more...)...)
}

type franz struct{ admin *kadm.Client }

func main() {
	client, err := connect()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	day.Live(franz{kadm.NewClient(client)})
}

func (franz) Normal(record day.Record) day.Record { return record }
func (franz) Codecs() []string                    { return []string{"gzip", "snappy", "lz4", "zstd"} }
func (franz) Idempotence() bool                   { return true }
func (franz) StaticMembers() bool                 { return true }
func (franz) Rereads() bool                       { return false }
func (franz) Cooperative() bool                   { return true }

func (f franz) Cluster() (day.Cluster, error) {
	ctx, done := deadline()
	defer done()
	found, err := f.admin.BrokerMetadata(ctx)
	return day.Cluster{ID: found.Cluster, Nodes: found.Brokers.NodeIDs(), Controller: found.Controller}, err
}

func (f franz) CreateTopic(topic string, partitions int) error {
	ctx, done := deadline()
	defer done()
	_, err := f.admin.CreateTopic(ctx, int32(partitions), 1, nil, topic)
	return err
}

func (f franz) PartitionsOf(topic string) (int, error) {
	ctx, done := deadline()
	defer done()
	found, err := f.admin.ListTopics(ctx, topic)
	if err != nil {
		return 0, err
	}
	return len(found[topic].Partitions), found[topic].Err
}

func (f franz) Topics() ([]string, error) {
	ctx, done := deadline()
	defer done()
	found, err := f.admin.ListTopics(ctx)
	return found.Names(), err
}

func (f franz) Offset(topic string, partition int32, at day.When) (int64, error) {
	ctx, done := deadline()
	defer done()
	var listed kadm.ListedOffsets
	var err error
	switch at {
	case day.Earliest:
		listed, err = f.admin.ListStartOffsets(ctx, topic)
	case day.Latest:
		listed, err = f.admin.ListEndOffsets(ctx, topic)
	default:
		listed, err = f.admin.ListOffsetsAfterMilli(ctx, int64(at), topic)
	}
	if err != nil {
		return 0, err
	}
	found, there := listed.Lookup(topic, partition)
	if !there {
		return 0, fmt.Errorf("no answer for partition %d", partition)
	}
	return found.Offset, found.Err
}

func (f franz) Committed(group, topic string) (map[int32]day.Committed, error) {
	ctx, done := deadline()
	defer done()
	found, err := f.admin.FetchOffsets(ctx, group)
	committed := map[int32]day.Committed{}
	for partition, offset := range found[topic] {
		if err == nil {
			err = offset.Err
		}
		committed[partition] = day.Committed{Offset: offset.At, Metadata: offset.Metadata}
	}
	return committed, err
}

func (franz) NonEmptyGroup() error { return kerr.NonEmptyGroup }
