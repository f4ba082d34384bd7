package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"ringgate.invalid/day"
)

// producer is a Writer, whose batches end in Completion: there the offsets are told.
type producer struct {
	writer *kafka.Writer
	stamps []int64

	guard  sync.Mutex
	placed []day.Placed
	// Records that are not acknowledged.
	open int
}

func (client) Producer(options day.ProducerOptions) (day.Producer, error) {
	p := &producer{stamps: options.Timestamps}
	p.writer = &kafka.Writer{
		Addr: kafka.TCP(day.Bootstrap), RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
		Transport: &kafka.Transport{ClientID: day.Prefix}, Completion: p.complete,
		Compression: map[string]kafka.Compression{
			"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
		}[options.Codec],
	}
	return p, nil
}

func (p *producer) complete(batch []kafka.Message, err error) {
	if err != nil {
		return
	}
	p.guard.Lock()
	defer p.guard.Unlock()
	for _, message := range batch {
		p.placed[message.WriterData.(int)] = day.Placed{Partition: int32(message.Partition), Offset: message.Offset}
		p.open--
	}
}

func (p *producer) Send(topic string, records []day.Record) ([]day.Placed, error) {
	ctx, done := deadline()
	defer done()
	p.guard.Lock()
	p.placed, p.open = make([]day.Placed, len(records)), len(records)
	p.guard.Unlock()
	made := make([]kafka.Message, len(records))
	for n, record := range records {
		made[n] = kafka.Message{Topic: topic, Key: record.Key, Value: record.Value, WriterData: n}
		for _, header := range record.Headers {
			made[n].Headers = append(made[n].Headers, kafka.Header{Key: header.Name, Value: header.Value})
		}
		if p.stamps != nil {
			made[n].Time = time.UnixMilli(p.stamps[n])
		}
	}
	if err := p.writer.WriteMessages(ctx, made...); err != nil {
		return nil, err
	}
	p.guard.Lock()
	defer p.guard.Unlock()
	if p.open != 0 {
		return nil, fmt.Errorf("%d records have no acknowledgement", p.open)
	}
	return p.placed, nil
}

func (p *producer) Close() error { return p.writer.Close() }

// member is a Reader, which fetches in a goroutine of its own. A Reader does not tell what it was assigned: that is
// looked up in the description of its group, by its client id.
type member struct {
	client  client
	options day.MemberOptions
	reader  *kafka.Reader
	ended   chan struct{}
}

func (c client) Member(options day.MemberOptions, read func(day.Delivered)) (day.Member, error) {
	m := &member{client: c, options: options, ended: make(chan struct{})}
	m.reader = kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{day.Bootstrap}, GroupID: options.Group, Topic: options.Topic, StartOffset: kafka.FirstOffset,
		Dialer: &kafka.Dialer{ClientID: options.Name, Timeout: 10 * time.Second}, HeartbeatInterval: 500 * time.Millisecond,
		SessionTimeout: 10 * time.Second, MaxWait: 200 * time.Millisecond,
		ErrorLogger: kafka.LoggerFunc(func(format string, values ...any) { fmt.Fprintf(os.Stderr, format+"\n", values...) }),
	})
	go m.fetch(read)
	return m, nil
}

func (m *member) fetch(read func(day.Delivered)) {
	defer close(m.ended)
	for {
		got, err := m.reader.FetchMessage(context.Background())
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "the consumer:", err)
			continue
		}
		record := day.Record{Key: got.Key, Value: got.Value}
		for _, header := range got.Headers {
			record.Headers = append(record.Headers, day.Header{Name: header.Key, Value: header.Value})
		}
		read(day.Delivered{Partition: int32(got.Partition), Offset: got.Offset, Record: record})
	}
}

func (m *member) Assigned() []int32 {
	group, err := m.client.Group(m.options.Group)
	if err != nil {
		return nil
	}
	for _, each := range group.Members {
		if each.ClientID == m.options.Name {
			return slices.Sorted(slices.Values(each.Assigned[m.options.Topic]))
		}
	}
	return nil
}

func (m *member) CommitsMetadata() bool { return false }

// Commit names the messages before the offsets, as a Reader commits what was read. A Reader whose connection to the
// coordinator was lost answers with that, and joins anew for the next commit.
func (m *member) Commit(offsets map[int32]int64, _ string) error {
	ctx, done := deadline()
	defer done()
	var read []kafka.Message
	for partition, offset := range offsets {
		read = append(read, kafka.Message{Topic: m.options.Topic, Partition: int(partition), Offset: offset - 1})
	}
	for {
		err := m.reader.CommitMessages(ctx, read...)
		if err == nil || ctx.Err() != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "commit:", err)
		time.Sleep(20 * time.Millisecond)
	}
}

func (m *member) Close() error {
	err := m.reader.Close()
	<-m.ended
	return err
}
