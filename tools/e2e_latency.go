package tools

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// latencyTimeout bounds the time for one record.
const latencyTimeout = time.Minute

// latencyTest is the command line of kafka-e2e-latency, which has no options.
type latencyTest struct {
	brokers, topic, acks string
	count, size          int
	config               string
}

func parseLatencyTest(args []string) (t latencyTest, err error) {
	if len(args) != 5 && len(args) != 6 {
		return t, usagef("USAGE: kafka-e2e-latency broker_list topic num_messages producer_acks message_size_bytes [optional] properties_file")
	}
	t.brokers, t.topic, t.acks = args[0], args[1], args[3]
	if t.count, err = strconv.Atoi(args[2]); err != nil || t.count < 1 {
		return t, usagef("num_messages %s is not a number from 1", args[2])
	}
	if t.size, err = strconv.Atoi(args[4]); err != nil || t.size < 0 {
		return t, usagef("message_size_bytes %s is not a number", args[4])
	}
	if len(args) == 6 {
		t.config = strings.TrimSpace(args[5])
	}
	if t.acks != "1" && t.acks != "all" {
		return t, usagef("latency testing requires synchronous acknowledgement: producer_acks must be 1 or all")
	}
	return t, nil
}

func e2eLatency(ctx context.Context, env *Env) error {
	o := newOptions("kafka-e2e-latency", "measure how long records take from producer to consumer, one after the other.")
	o.operands = "BROKER_LIST TOPIC NUM_MESSAGES PRODUCER_ACKS MESSAGE_SIZE_BYTES [PROPERTIES_FILE]"
	if err := o.parse(env); err != nil {
		return err
	}
	t, err := parseLatencyTest(o.args)
	if err != nil {
		return err
	}
	p, err := readProperties(t.config)
	if err != nil {
		return err
	}
	p["bootstrap.servers"] = t.brokers
	return t.run(ctx, env, p)
}

func (t *latencyTest) run(ctx context.Context, env *Env, p properties) error {
	opts, err := clientOptions(ctx, env, p, nil)
	if err != nil {
		return err
	}
	admin, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer admin.Close()
	ends, err := t.ends(ctx, env, kadm.NewClient(admin))
	if err != nil {
		return err
	}
	acks := kgo.AllISRAcks()
	if t.acks == "1" {
		acks = kgo.LeaderAck()
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	cl, err := kgo.NewClient(append(opts, kgo.RequiredAcks(acks), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.topic: ends}), kgo.FetchMinBytes(1))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	return t.measure(ctx, env, cl)
}

// ends returns the end offsets of the topic's partitions. A missing topic is created.
func (t *latencyTest) ends(ctx context.Context, env *Env, adm *kadm.Client) (map[int32]kgo.Offset, error) {
	found, err := adm.ListTopics(ctx, t.topic)
	if err != nil {
		return nil, err
	}
	if !found.Has(t.topic) {
		env.printf("Topic %q does not exist. Will create topic with 1 partition(s) and replication factor = 1\n", t.topic)
		if _, err := adm.CreateTopic(ctx, 1, 1, nil, t.topic); err != nil {
			env.printf("Creation of topic %s failed\n", t.topic)
			return nil, err
		}
	}
	listed, err := listKnown(ctx, adm.ListEndOffsets, t.topic)
	if err == nil {
		err = listed.Error()
	}
	ends := make(map[int32]kgo.Offset)
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = kgo.NewOffset().At(max(o.Offset, 0)) })
	return ends, err
}

func (t *latencyTest) measure(ctx context.Context, env *Env, cl *kgo.Client) error {
	const reportEvery = 1000
	took := make([]time.Duration, t.count)
	var total time.Duration
	for i := range took {
		value := bytes.Repeat([]byte{byte('A' + rand.IntN(26))}, t.size)
		begin := time.Now()
		if err := t.roundTrip(ctx, cl, value); err != nil {
			return err
		}
		took[i] = time.Since(begin)
		total += took[i]
		if i%reportEvery == 0 {
			env.printf("%d\t%v\n", i, float64(took[i])/float64(time.Millisecond))
			if err := env.flush(); err != nil {
				return err
			}
		}
	}
	slices.Sort(took)
	percentile := func(p float64) int64 { return took[int(float64(len(took))*p)].Milliseconds() }
	env.printf("Avg latency: %.4f ms\n", float64(total)/float64(t.count)/float64(time.Millisecond))
	env.printf("Percentiles: 50th = %d, 99th = %d, 99.9th = %d\n", percentile(0.5), percentile(0.99), percentile(0.999))
	return nil
}

// roundTrip writes one record and waits until it, and nothing else, is read.
func (t *latencyTest) roundTrip(ctx context.Context, cl *kgo.Client, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, latencyTimeout)
	defer cancel()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: t.topic, Value: value}).FirstErr(); err != nil {
		return err
	}
	fetches := cl.PollFetches(ctx)
	if err := fetches.Err0(); err != nil {
		return err
	}
	records := fetches.Records()
	switch {
	case fetches.Err() != nil:
		return fetches.Err()
	case len(records) != 1:
		return fmt.Errorf("only one result was expected during this test, and %d were found", len(records))
	case !bytes.Equal(records[0].Value, value):
		return fmt.Errorf("the message read [%s] did not match the message sent [%s]", records[0].Value, value)
	}
	return nil
}
