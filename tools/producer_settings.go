package tools

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"barnabas/internal/await"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Defaults of Apache Kafka's producer where the client library has others.
const (
	defaultMaxRequestSize     = 1 << 20
	defaultBufferMemory       = 32 << 20
	defaultDeliveryTimeout    = 2 * time.Minute
	defaultTransactionTimeout = time.Minute
	defaultMaxBlock           = time.Minute
	maxBufferedRecords        = 1 << 20 // memory is the limit, see buffer.memory
	batchOverhead             = 128     // for a batch's and a record's own fields
)

var compressors = map[string]func() kgo.CompressionCodec{
	"none": kgo.NoCompression, "gzip": kgo.GzipCompression, "snappy": kgo.SnappyCompression,
	"lz4": kgo.Lz4Compression, "zstd": kgo.ZstdCompression,
}

var producerSettings = map[string]setter{
	"acks": func(v string) ([]kgo.Opt, error) {
		switch v {
		case "all", "-1":
			return nil, nil
		case "1":
			return []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}, nil
		case "0":
			return []kgo.Opt{kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()}, nil
		}
		return nil, errors.New("it must be one of all, -1, 0, 1")
	},
	"enable.idempotence": func(v string) ([]kgo.Opt, error) {
		on, err := strconv.ParseBool(v)
		if err != nil || on {
			return nil, err
		}
		return []kgo.Opt{kgo.DisableIdempotentWrite()}, nil
	},
	"compression.type": func(v string) ([]kgo.Opt, error) {
		codec := compressors[v]
		if codec == nil {
			return nil, errors.New("it must be one of none, gzip, snappy, lz4, zstd")
		}
		return []kgo.Opt{kgo.ProducerBatchCompression(codec())}, nil
	},
	"linger.ms":           millisWithin(0, time.Minute, kgo.ProducerLinger),
	"delivery.timeout.ms": millisSetting(func(d time.Duration) kgo.Opt { return kgo.RecordDeliveryTimeout(max(d, time.Second)) }),
	"request.timeout.ms":  millisSetting(func(d time.Duration) kgo.Opt { return kgo.ProduceRequestTimeout(max(d, leastRequestTimeout)) }),
	"retries": func(v string) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 0 {
			return nil, errors.New("it must be a number from 0")
		}
		return []kgo.Opt{kgo.RecordRetries(int(n))}, nil
	},
	"buffer.memory": func(v string) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 1 {
			return nil, errors.New("it must be a number of bytes")
		}
		return []kgo.Opt{kgo.MaxBufferedBytes(int(n))}, nil
	},
	"max.in.flight.requests.per.connection": func(v string) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 1 {
			return nil, errors.New("it must be a number from 1")
		}
		return []kgo.Opt{kgo.MaxProduceRequestsInflightPerBroker(int(n))}, nil // see planProducer
	},
	"transactional.id":       textSetting(func(id string) kgo.Opt { return kgo.TransactionalID(id) }),
	"transaction.timeout.ms": millisSetting(func(d time.Duration) kgo.Opt { return kgo.TransactionTimeout(d) }),
}

// producerPlan is what is known about a topic before the first record: the options of its producers, and the size limit
// of their batches.
type producerPlan struct {
	topic         string
	opts          []kgo.Opt
	transactional bool
	largest       int32 // bytes of a batch that the topic accepts
	batch         int32 // bytes of batch.size, 0 if not set
}

// planProducer waits until the topic has a leader, so that a missing topic or cluster is reported before the first
// record.
func planProducer(ctx context.Context, env *Env, topic string, p properties) (*producerPlan, error) {
	block, err := p.millis("max.block.ms", defaultMaxBlock)
	if err != nil {
		return nil, err
	}
	const inFlight = "max.in.flight.requests.per.connection"
	if n, err := strconv.Atoi(p[inFlight]); err == nil && n > 1 && p.idempotent() { // the library always has five, and accepts no number
		p = p.with(nil)
		delete(p, inFlight)
	}
	opts, err := clientOptions(ctx, env, p, producerSettings)
	if err != nil {
		return nil, err
	}
	plan := &producerPlan{topic: topic, opts: opts, transactional: p["transactional.id"] != ""}
	if plan.largest, err = p.size("max.request.size", defaultMaxRequestSize); err != nil {
		return nil, err
	}
	if plan.batch, err = p.size("batch.size", 0); err != nil {
		return nil, err
	}
	limit, err := topicBatchLimit(ctx, env, opts, topic, p["bootstrap.servers"], block)
	plan.largest = min(plan.largest, limit)
	return plan, err
}

// newProducer creates a client that writes to one topic. largest is the size of the largest record in bytes, if known:
// then batch.size can be observed.
func newProducer(ctx context.Context, env *Env, topic string, p properties, largest int) (*kgo.Client, error) {
	plan, err := planProducer(ctx, env, topic, p)
	if err != nil {
		return nil, err
	}
	limit := plan.largest
	if plan.batch > 0 && largest > 0 {
		limit = min(limit, max(plan.batch, int32(largest)+batchOverhead))
	}
	return plan.client(limit)
}

// idempotent reports whether brokers recognise batches that are sent again.
func (p properties) idempotent() bool {
	acks, given := p["acks"]
	return !strings.EqualFold(p["enable.idempotence"], "false") && (!given || acks == "all" || acks == "-1")
}

// leastBatch is the smallest batch limit, in bytes, that the library accepts.
const leastBatch = 512

// mostBatch is the largest one, also in the requests that it takes.
const mostBatch = 512 << 20

// client returns a producer whose batches have at most limit bytes, uncompressed. The library accepts no larger record.
func (p *producerPlan) client(limit int32) (*kgo.Client, error) {
	limit = min(max(limit, leastBatch), mostBatch)
	opts := append([]kgo.Opt{
		kgo.DefaultProduceTopic(p.topic), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(0), kgo.MaxBufferedBytes(defaultBufferMemory), kgo.MaxBufferedRecords(maxBufferedRecords),
		kgo.RecordDeliveryTimeout(defaultDeliveryTimeout), kgo.TransactionTimeout(defaultTransactionTimeout),
		kgo.ProducerBatchMaxBytes(limit), kgo.BrokerMaxWriteBytes(max(100<<20, 2*limit)),
	}, p.opts...)
	if !p.transactional {
		opts = append(opts, kgo.AllowIdempotentProduceCancellation()) // otherwise it waits forever for a broker that stays away
	}
	return kgo.NewClient(opts...)
}

// size returns a setting in bytes.
func (p properties) size(name string, missing int32) (int32, error) {
	v, ok := p[name]
	if !ok {
		return missing, nil
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return 0, invalidValue(v, name, "it must be a number of bytes")
	}
	return max(int32(n), 1), nil
}

// limitPatience is how long to wait for the topic's limits, which only serve to avoid batches that the broker would
// refuse.
const limitPatience = 2 * time.Second

// topicBatchLimit returns the largest batch that the topic accepts, according to its max.message.bytes and
// segment.bytes if they may be read.
func topicBatchLimit(ctx context.Context, env *Env, opts []kgo.Opt, topic, bootstrap string, block time.Duration) (int32, error) {
	cl, err := kgo.NewClient(append(opts, kgo.RetryTimeout(block))...)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, block)
	defer cancel()
	err = awaitBroker(ctx, env, cl, bootstrap)
	if err == nil {
		err = awaitTopic(ctx, cl, topic)
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("topic %s not present in metadata after %d ms: %w", topic, block.Milliseconds(), err)
		}
		return 0, err
	}
	limit := int64(math.MaxInt32)
	asking, stop := context.WithTimeout(ctx, limitPatience) // brokers read the settings from ZooKeeper, which may be unavailable
	defer stop()
	found, err := describeConfigs(asking, cl, kmsg.ConfigResourceTypeTopic, false, topic)
	if err != nil {
		return int32(limit), nil // perhaps not authorized: the broker's responses to the records will tell
	}
	for _, c := range found[topic].Configs {
		if (c.Name == "max.message.bytes" || c.Name == "segment.bytes") && c.Value != nil {
			if n, err := strconv.ParseInt(*c.Value, 10, 32); err == nil && n > 0 {
				limit = min(limit, n)
			}
		}
	}
	return int32(limit), nil
}

// awaitTopic requests a topic, which creates it if allowed, until it has a leader.
func awaitTopic(ctx context.Context, cl *kgo.Client, topic string) error {
	const between = 50 * time.Millisecond
	for {
		req := kmsg.NewPtrMetadataRequest()
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics, req.AllowAutoTopicCreation = append(req.Topics, t), true
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		last := answered(resp.Topics[0].ErrorCode, nil)
		if last == nil {
			for _, p := range resp.Topics[0].Partitions {
				if p.Leader >= 0 {
					return nil
				}
			}
			last = errors.New("no partition has a leader")
		} else if !kerr.IsRetriable(last) {
			return last
		}
		if await.Pause(ctx, between) != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
	}
}

// isTrue parses a boolean property.
func isTrue(v string) bool { return strings.EqualFold(strings.TrimSpace(v), "true") }
