package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"barnabas/internal/await"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	// debuggingReplica is the replica id for which every replica answers, not only the leader, up to its log end.
	debuggingReplica = -2
	// verificationBytes bounds what a broker sends in a round and so, times the number of brokers, the tool's memory.
	verificationBytes = 50 << 20
	// verificationFetch is the last version of Fetch that identifies topics by name: it also works with topics without
	// an id.
	verificationFetch = 12
	// verificationTime is the timestamp format of the lines of kafka-replica-verification.
	verificationTime = "2006-01-02 15:04:05,000"
)

// verificationOptions is what kafka-replica-verification is to do.
type verificationOptions struct {
	*adminOptions
	fetchSize, maxWait  *int32
	include, whiteList  *string
	initial, reportEach *int64
}

func newVerificationOptions() *verificationOptions {
	o := &verificationOptions{adminOptions: newAdminOptions("kafka-replica-verification",
		"compare the replicas of partitions.\nIt reads every replica from the same offsets on, compares checksums batch by batch up to "+
			"the high watermark, reports differences and its progress, and continues until it is stopped. "+
			"Deprecated in Apache Kafka 3.9.", "command-config")}
	o.String("broker-list", "", "the original's name of --bootstrap-server, `host:port,...`")
	o.fetchSize = o.Int32("fetch-size", 1<<20, "how many `bytes` a request asks for of each partition")
	o.maxWait = o.Int32("max-wait-ms", 1000, "how many `ms` a request waits for new records")
	o.include = o.String("topics-include", ".*", "a regular `expression` for names of topics")
	o.whiteList = o.String("topic-white-list", ".*", "deprecated name of --topics-include, an `expression`")
	o.initial = o.Int64("time", -1, "begin at the records of this `timestamp` in ms; -1 is the end, -2 the beginning")
	o.reportEach = o.Int64("report-interval-ms", 30_000, "`ms` between two reports")
	return o
}

func replicaVerification(ctx context.Context, env *Env) error {
	o := newVerificationOptions()
	if err := o.parse(env); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	env.errorf("[%s] WARN This tool is deprecated and may be removed in a future major release. "+
		"(org.apache.kafka.tools.ReplicaVerificationTool)", time.Now().Format(verificationTime))
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.Fetch.Int16(), verificationFetch)
	return o.connect(ctx, env, func(setup context.Context, cl *kgo.Client) error {
		v, err := newVerification(setup, env, cl, o)
		if err != nil {
			return err
		}
		return v.run(ctx) // without setup's time limit
	}, kgo.MaxVersions(versions))
}

// check rejects missing options and invalid combinations.
func (o *verificationOptions) check() (err error) {
	if *o.bootstrap, err = bootstrapOf(o.options); err != nil {
		return o.require("broker-list")
	}
	if *o.initial < -2 {
		return usagef("invalid value %d of --time: a timestamp cannot be negative", *o.initial)
	}
	return o.exclude("topics-include", "topic-white-list")
}

// topics returns the expression for the topics to compare.
func (o *verificationOptions) topics() string {
	if o.has("topics-include") {
		return *o.include
	}
	return *o.whiteList
}

// verification compares partitions round by round: each broker is asked for the next data of the partitions of which it
// has replicas, and when all have answered, the results are compared. Everything is owned by the goroutine of run.
type verification struct {
	env       *Env
	cl        *kgo.Client
	fetchSize int32
	maxWait   time.Duration

	partitions []*comparedPartition // sorted
	index      map[string]map[int32]*comparedPartition
	brokers    []int32 // those with replicas, sorted
	start      int     // index in partitions with which the requests of this round begin
	report     lagReport
	trouble    map[string]string // by broker or replica: the last message
}

func newVerification(ctx context.Context, env *Env, cl *kgo.Client, o *verificationOptions) (*verification, error) {
	filter, err := topicFilter(o.topics())
	if err != nil {
		return nil, err
	}
	meta, err := fetchMetadata(ctx, cl)
	if err != nil {
		return nil, err
	}
	v := &verification{env: env, cl: cl, fetchSize: *o.fetchSize, maxWait: time.Duration(*o.maxWait) * time.Millisecond,
		index: make(map[string]map[int32]*comparedPartition), trouble: make(map[string]string)}
	brokers := make(map[int32]bool)
	for _, t := range meta.Topics {
		if !filter.MatchString(*t.Topic) {
			continue
		}
		v.index[*t.Topic] = make(map[int32]*comparedPartition, len(t.Partitions))
		for _, p := range t.Partitions {
			compared := newComparedPartition(*t.Topic, p.Partition, slices.Sorted(slices.Values(p.Replicas)))
			v.partitions = append(v.partitions, compared)
			v.index[*t.Topic][p.Partition] = compared
			for _, id := range p.Replicas {
				brokers[id] = true
			}
		}
	}
	if len(v.partitions) == 0 {
		return nil, errors.New("no topics found: either --topics-include excludes all of them, or there are none")
	}
	v.brokers = slices.Sorted(maps.Keys(brokers))
	if err := v.begin(ctx, *o.initial); err != nil {
		return nil, err
	}
	env.printf("%s: verification process is started\n", time.Now().Format(verificationTime))
	v.report = newLagReport(duration(*o.reportEach, time.Millisecond), time.Now())
	return v, env.flush()
}

// begin determines the start offsets for a time. A partition without a record of that age begins at its end.
func (v *verification) begin(ctx context.Context, timestamp int64) error {
	wanted := make(map[string][]int32)
	for _, p := range v.partitions {
		wanted[p.topic] = append(wanted[p.topic], p.id)
	}
	offsets, err := listOffsets(ctx, v.cl, wanted, timestamp)
	if err != nil {
		return err
	}
	later := make(map[string][]int32)
	for _, found := range offsets {
		switch {
		case found.err != nil:
			return fmt.Errorf("start offset of partition %s: %w", found.name(), found.err)
		case found.offset < 0:
			later[found.topic] = append(later[found.topic], found.partition)
		default:
			v.index[found.topic][found.partition].offset = found.offset
		}
	}
	if len(later) == 0 || timestamp < 0 {
		return nil
	}
	ends, err := listOffsets(ctx, v.cl, later, -1)
	if err != nil {
		return err
	}
	for _, found := range ends {
		if found.err != nil {
			return fmt.Errorf("end offset of partition %s: %w", found.name(), found.err)
		}
		v.index[found.topic][found.partition].offset = found.offset
	}
	return nil
}

// run compares until the context ends, which is not an error, or replicas turn out to have no common offsets.
func (v *verification) run(ctx context.Context) error {
	for {
		began := time.Now()
		v.fetch(ctx)
		if ctx.Err() != nil {
			return nil // the user has seen enough
		}
		moved, err := v.compare()
		if err != nil {
			return err
		}
		if now := time.Now(); v.report.due(now) {
			v.printf("max lag is %d for partition %s at offset %d among %d partitions",
				v.report.lag, v.report.partition, v.report.offset, len(v.partitions))
		}
		if err := v.env.flush(); err != nil {
			return err
		}
		v.start = (v.start + 1) % len(v.partitions)
		if moved {
			continue
		}
		// A replica that is behind, or a broker that is down, must not turn the others' responses into a busy loop.
		if await.Pause(ctx, v.maxWait-time.Since(began)) != nil {
			return nil
		}
	}
}

// printf prints a line that begins with the time.
func (v *verification) printf(format string, args ...any) {
	v.env.printf("%s: %s\n", time.Now().Format(verificationTime), fmt.Sprintf(format, args...))
}

// compare compares what was fetched, and reports whether any partition advanced.
func (v *verification) compare() (moved bool, err error) {
	v.report.begin()
	for _, p := range v.partitions {
		from := p.offset
		if err := p.compare(v.printf); err != nil {
			return false, err
		}
		moved = moved || p.offset > from
		v.report.add(p)
		p.forget()
	}
	return moved, nil
}

// fetchAnswer is a broker's response.
type fetchAnswer struct {
	broker int32
	resp   *kmsg.FetchResponse
	err    error
}

// fetch queries all brokers concurrently and returns when the last one has answered or failed.
func (v *verification) fetch(ctx context.Context) {
	answers := make(chan fetchAnswer)
	for _, id := range v.brokers {
		req := v.request(id)
		go func() {
			a := fetchAnswer{broker: id}
			a.resp, a.err = fetchFrom(ctx, v.cl, id, req)
			answers <- a
		}()
	}
	for range v.brokers {
		a := <-answers
		if ctx.Err() == nil {
			v.take(a)
		}
	}
}

// request requests a broker's replicas, beginning at start and wrapping around. Brokers fill a response in the order of
// the request: with the same order, all of them return the same partitions when not all fit, and rotating it serves
// each.
func (v *verification) request(broker int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = debuggingReplica
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(v.maxWait.Milliseconds()), 1, verificationBytes
	for i := range v.partitions {
		p := v.partitions[(v.start+i)%len(v.partitions)]
		if !slices.Contains(p.replicas, broker) {
			continue
		}
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != p.topic {
			t := kmsg.NewFetchRequestTopic()
			t.Topic = p.topic
			req.Topics = append(req.Topics, t)
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.id, p.offset, v.fetchSize
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, rp)
	}
	return req
}

func fetchFrom(ctx context.Context, cl *kgo.Client, broker int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	resp, err := cl.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	fetched := resp.(*kmsg.FetchResponse)
	return fetched, answered(fetched.ErrorCode, nil)
}

// take keeps a broker's response for the comparison.
func (v *verification) take(a fetchAnswer) {
	who := fmt.Sprintf("broker %d", a.broker)
	if v.trouble[who] == "" || a.err == nil { // one message per outage: first it cannot be reached, then nobody knows it
		v.say(who, a.err)
	}
	if a.err != nil {
		v.cl.ForceMetadataRefresh() // it may have been down when the tool began, or have moved
		return
	}
	for _, t := range a.resp.Topics {
		for _, rp := range t.Partitions {
			p := v.index[t.Topic][rp.Partition]
			if p == nil {
				continue
			}
			i, ok := slices.BinarySearch(p.replicas, a.broker)
			if !ok {
				continue
			}
			err := answered(rp.ErrorCode, nil)
			v.say(fmt.Sprintf("replica %d of partition %s", a.broker, p.name()), err)
			if err == nil {
				p.fetched[i] = fetchedReplica{highWatermark: rp.HighWatermark, batches: record.Split(rp.RecordBatches)}
			}
		}
	}
}

// say reports once why a broker or replica is not compared.
func (v *verification) say(who string, err error) {
	if err == nil {
		delete(v.trouble, who)
		return
	}
	if text := describe(err); v.trouble[who] != text {
		v.trouble[who] = text
		v.env.errorf("WARN %s: %s", who, text)
	}
}
