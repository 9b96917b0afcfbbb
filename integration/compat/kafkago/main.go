// Command kafkago is a member of a consumer group that uses kafka-go and prints what happens to it, one line per event;
// see member.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	opts := make(map[string]string)
	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		opts[name] = value
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, opts); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// out serializes the writing of lines.
type out struct{ mu sync.Mutex }

func (o *out) say(words ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Println(words...)
}

func run(ctx context.Context, opts map[string]string) error {
	ms, err := strconv.Atoi(opts["session_ms"])
	if err != nil {
		return err
	}
	session := time.Duration(ms) * time.Millisecond
	start := kafka.FirstOffset
	if opts["reset"] == "latest" {
		start = kafka.LastOffset
	}
	if opts["commit"] != "specific" {
		return consume(ctx, opts, session, start)
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: opts["group"], Brokers: strings.Split(opts["bootstrap"], ","), Topics: []string{opts["topic"]}, StartOffset: start,
		SessionTimeout: session, HeartbeatInterval: session / 4, RebalanceTimeout: 10 * time.Second, JoinGroupBackoff: 200 * time.Millisecond,
		GroupBalancers: []kafka.GroupBalancer{kafka.RoundRobinGroupBalancer{}},
	})
	if err != nil {
		return err
	}
	defer func() { _ = group.Close() }()
	o := &out{}
	for {
		generation, err := group.Next(ctx)
		if err != nil {
			if errors.Is(err, context.Canceled) || errors.Is(err, kafka.ErrGroupClosed) {
				return nil
			}
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		m := &member{opts: opts, out: o, generation: generation}
		m.start()
	}
}

// consume reads with a Reader, which rebalances by itself and does not say which partitions it was assigned.
func consume(ctx context.Context, opts map[string]string, session time.Duration, start int64) error {
	config := kafka.ReaderConfig{GroupID: opts["group"], Brokers: strings.Split(opts["bootstrap"], ","), Topic: opts["topic"], StartOffset: start,
		SessionTimeout: session, HeartbeatInterval: session / 4, RebalanceTimeout: 10 * time.Second, JoinGroupBackoff: 200 * time.Millisecond,
		MaxWait: 200 * time.Millisecond}
	if opts["commit"] != "sync" {
		config.CommitInterval = 100 * time.Millisecond
	}
	reader := kafka.NewReader(config)
	defer func() { _ = reader.Close() }()
	read := reader.FetchMessage
	if opts["commit"] == "auto" {
		read = reader.ReadMessage
	}
	o := &out{}
	for {
		record, err := read(ctx)
		if err != nil {
			return err
		}
		o.say("record", string(record.Value))
		if opts["commit"] == "auto" {
			continue
		}
		if err := reader.CommitMessages(ctx, record); err != nil {
			return err
		}
	}
}

// member reads the partitions of one generation.
type member struct {
	opts       map[string]string
	out        *out
	generation *kafka.Generation
}

func (m *member) start() {
	var partitions []any
	for _, assigned := range m.generation.Assignments[m.opts["topic"]] {
		partitions = append(partitions, assigned.ID)
		m.generation.Start(func(ctx context.Context) { m.read(ctx, assigned.ID, assigned.Offset) })
	}
	m.out.say(append([]any{"assigned"}, partitions...)...)
}

// read reads one partition until the generation ends, and commits after each chunk that it has read.
func (m *member) read(ctx context.Context, partition int, offset int64) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: strings.Split(m.opts["bootstrap"], ","), Topic: m.opts["topic"],
		Partition: partition, MaxWait: 200 * time.Millisecond})
	defer func() { _ = reader.Close() }()
	if err := reader.SetOffset(offset); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for {
		record, err := reader.ReadMessage(ctx)
		if err != nil {
			return
		}
		m.out.say("record", string(record.Value))
		if reader.Lag() == 0 || record.Offset%10 == 9 {
			if err := m.generation.CommitOffsets(map[string]map[int]int64{m.opts["topic"]: {partition: record.Offset + 1}}); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}
