package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// verifiableConsumerOptions is the command line of kafka-verifiable-consumer.
type verifiableConsumerOptions struct {
	*options
	topic, group, instance, config *string
	protocol, reset, strategy      *string
	most, sessionTimeout           *int32
}

func newVerifiableConsumerOptions() *verifiableConsumerOptions {
	o := &verifiableConsumerOptions{options: newOptions("kafka-verifiable-consumer",
		"read a topic as a member of a group and print, as JSON, rebalances, records and commits.")}
	o.String("bootstrap-server", "", "brokers to connect to, `host:port,...` (required)")
	o.String("broker-list", "", "deprecated name of --bootstrap-server, `host:port,...`")
	o.topic = o.String("topic", "", "the `topic` (required)")
	o.group = o.String("group-id", "", "the group's `id` (required)")
	o.instance = o.String("group-instance-id", "", "makes it a static member; its `id`")
	o.protocol = o.String("group-protocol", "classic", "accepted for its default only; a `protocol`")
	o.String("group-remote-assignor", "", "not applicable to the classic protocol; an `assignor`")
	o.most = o.Int32("max-messages", -1, "stop after this number of `records`; -1: never")
	o.sessionTimeout = o.Int32("session-timeout", 30_000, "`ms` without a heartbeat after which the member is removed")
	o.Bool("verbose", false, "print each record too")
	o.Bool("enable-autocommit", false, "commit at intervals, rather than after each poll")
	o.reset = o.String("reset-policy", "earliest", "earliest, latest or none: the `policy` where the group has no offset")
	o.strategy = o.String("assignment-strategy", "org.apache.kafka.clients.consumer.RangeAssignor", "a `class` of Apache Kafka's assignors")
	o.config = o.String("consumer.config", "", "`file` of consumer settings, which options override")
	return o
}

func (o *verifiableConsumerOptions) check(env *Env) error {
	if len(env.Args) == 0 {
		o.usage(env)
		return exitCode(0) // as in the originals, unlike the other tools
	}
	if err := o.parse(env); err != nil {
		return err
	}
	if err := o.require("topic", "group-id"); err != nil {
		return err
	}
	if !strings.EqualFold(*o.protocol, "classic") {
		return usagef("the group protocol %s is not for clusters with ZooKeeper: it must be classic", *o.protocol)
	}
	return nil
}

func (o *verifiableConsumerOptions) settings() (properties, error) {
	bootstrap, err := bootstrapOf(o.options)
	if err != nil {
		return nil, err
	}
	p, err := readProperties(*o.config)
	if err != nil {
		return nil, err
	}
	p["bootstrap.servers"], p["auto.offset.reset"], p["partition.assignment.strategy"] = bootstrap, *o.reset, *o.strategy
	p["session.timeout.ms"] = number(*o.sessionTimeout)
	if o.has("group-instance-id") {
		p["group.instance.id"] = *o.instance
	}
	if !o.has("enable-autocommit") {
		p["enable.auto.commit"] = "false"
	} else {
		delete(p, "enable.auto.commit")
	}
	return p, nil
}

func verifiableConsumer(ctx context.Context, env *Env) error {
	o := newVerifiableConsumerOptions()
	if err := o.check(env); err != nil {
		return err
	}
	settings, err := o.settings()
	if err != nil {
		return err
	}
	env.oneLogin = true
	opts, err := clientOptions(ctx, env, settings, consumerSettings)
	if err != nil {
		return err
	}
	v := &verifier{o: o, out: &events{env: env}}
	if err := v.out.print("startup_complete"); err != nil {
		return err
	}
	// A rebalance waits for the commit of what was polled before it, as in a Java consumer, which rebalances within
	// poll.
	opts = append(opts, asMember(*o.group, settings)...)
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.ConsumeTopics(*o.topic), kgo.BlockRebalanceOnPoll(),
		kgo.AllowAutoTopicCreation(), kgo.FetchMaxWait(500 * time.Millisecond), kgo.OnPartitionsAssigned(v.assigned),
		kgo.OnPartitionsRevoked(v.revoked), kgo.OnPartitionsLost(v.revoked)}, opts...)...)
	if err != nil {
		return err
	}
	v.cl = cl
	err = v.run(ctx)
	err = cmp.Or(refusal(ctx), err)
	if failed := v.commitRest(ctx); err == nil {
		err = failed
	}
	if err != nil {
		env.errorf("ERROR %s", describe(err))
	}
	cl.CloseAllowingRebalance()
	return v.out.print("shutdown_complete")
}

// commitPatience is how long a commit may take, even when the tool is being stopped.
const commitPatience = 30 * time.Second

// verifier prints what a group member sees.
type verifier struct {
	o        *verifiableConsumerOptions
	out      *events
	cl       *kgo.Client
	consumed int // records
}

func (v *verifier) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	_ = v.out.print("partitions_assigned", field{"partitions", partitionObjects(partitions)})
}

func (v *verifier) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	_ = v.out.print("partitions_revoked", field{"partitions", partitionObjects(partitions)})
}

func partitionObjects(partitions map[string][]int32) []object {
	list := []object{}
	for topic, numbers := range partitions {
		slices.Sort(numbers)
		for _, p := range numbers {
			list = append(list, object{{"topic", topic}, {"partition", p}})
		}
	}
	return list
}

// run polls until there is enough or ctx ends.
func (v *verifier) run(ctx context.Context) error {
	const perPoll = 500 // max.poll.records
	for *v.o.most < 0 || v.consumed < int(*v.o.most) {
		fetches := v.cl.PollRecords(ctx, perPoll)
		if ctx.Err() != nil {
			return nil
		}
		err := fetches.Err()
		if fetches.NumRecords() > 0 {
			err = v.received(ctx, fetches)
		}
		if err != nil {
			return err
		}
		v.cl.AllowRebalance()
	}
	return nil
}

// commitRest commits what a member with --enable-autocommit has polled before it leaves.
func (v *verifier) commitRest(ctx context.Context) error {
	if !v.o.has("enable-autocommit") {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitPatience)
	defer cancel()
	return v.cl.CommitUncommittedOffsets(ctx)
}

// received prints the result of a poll, as far as it is still wanted, and commits it.
func (v *verifier) received(ctx context.Context, fetches kgo.Fetches) error {
	summaries := []object{}
	var last []*kgo.Record
	var failed error
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		records := p.Records
		if *v.o.most >= 0 {
			records = records[:min(len(records), int(*v.o.most)-v.consumed)]
		}
		if len(records) == 0 || failed != nil {
			return
		}
		first, end := records[0], records[len(records)-1]
		last = append(last, end)
		summaries = append(summaries, object{{"topic", p.Topic}, {"partition", p.Partition}, {"count", len(records)},
			{"minOffset", first.Offset}, {"maxOffset", end.Offset}})
		if v.o.has("verbose") {
			failed = v.printRecords(records)
		}
		v.consumed += len(records)
	})
	if failed != nil {
		return failed
	}
	if err := v.out.print("records_consumed", field{"count", fetches.NumRecords()}, field{"partitions", summaries}); err != nil {
		return err
	}
	if v.o.has("enable-autocommit") {
		return nil
	}
	return v.commit(ctx, last)
}

func (v *verifier) printRecords(records []*kgo.Record) error {
	for _, r := range records {
		if err := v.out.print("record_data", field{"key", textOf(r.Key)}, field{"value", textOf(r.Value)}, field{"topic", r.Topic},
			field{"partition", r.Partition}, field{"offset", r.Offset}); err != nil {
			return err
		}
	}
	return nil
}

// commit commits the offsets after records, even when the tool is being stopped.
func (v *verifier) commit(ctx context.Context, last []*kgo.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitPatience)
	defer cancel()
	err := v.cl.CommitRecords(ctx, last...)
	slices.SortFunc(last, func(a, b *kgo.Record) int { return cmp.Compare(a.Partition, b.Partition) })
	offsets := []object{}
	for _, r := range last {
		offsets = append(offsets, object{{"topic", r.Topic}, {"partition", r.Partition}, {"offset", r.Offset + 1}})
	}
	fields := []field{{"offsets", offsets}}
	if err != nil {
		fields = append(fields, field{"error", message(err)})
	}
	if printed := v.out.print("offsets_committed", append(fields, field{"success", err == nil})...); printed != nil {
		return fmt.Errorf("print a commit: %w", printed)
	}
	return nil
}
