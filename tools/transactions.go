package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactionsOptions is the command line of kafka-transactions: a command, and the options of all commands.
type transactionsOptions struct {
	*adminOptions
	id, topic                  *string
	partition, broker          *int32
	duration, maxTimeout       *int64
	startOffset, producerID    *int64
	producerEpoch, coordinator *int32
}

// transactionCommands are the commands with their allowed and required options.
var transactionCommands = []struct {
	name           string
	takes, require []string
	run            func(t *transactionsTool, ctx context.Context) error
}{
	{"list", []string{"duration-filter"}, nil, (*transactionsTool).list},
	{"describe", nil, []string{"transactional-id"}, (*transactionsTool).describe},
	{"describe-producers", []string{"broker-id"}, []string{"topic", "partition"}, (*transactionsTool).describeProducers},
	{"abort", []string{"start-offset", "producer-id", "producer-epoch", "coordinator-epoch"}, []string{"topic", "partition"}, (*transactionsTool).abort},
	{"find-hanging", []string{"broker-id", "max-transaction-timeout", "topic", "partition"}, nil, (*transactionsTool).findHanging},
}

func newTransactionsOptions() *transactionsOptions {
	o := &transactionsOptions{adminOptions: newAdminOptions("kafka-transactions",
		"list, describe, describe-producers, abort, find-hanging: show transactions, find hanging ones and end them.", "command-config")}
	o.operands = "COMMAND"
	o.BoolP("v", "v", false, "as --version")
	o.BoolP("h", "h", false, "as --help")
	o.duration = o.Int64("duration-filter", -1, "list: only transactions that have been running for more `ms`; below 0: all")
	o.id = o.String("transactional-id", "", "describe: the transactional `id` (required)")
	o.topic = o.String("topic", "", "describe-producers, abort, find-hanging: the `topic`")
	o.partition = o.Int32("partition", 0, "describe-producers, abort, find-hanging: the `partition`")
	o.broker = o.Int32("broker-id", -1, "describe-producers, find-hanging: ask this `broker`, not the leaders")
	o.startOffset = o.Int64("start-offset", 0, "abort: the `offset` where the transaction begins; brokers from 3.0 on need nothing else")
	o.producerID = o.Int64("producer-id", 0, "abort, without --start-offset: the producer's `id`")
	o.producerEpoch = o.Int32("producer-epoch", 0, "abort, without --start-offset: the producer's `epoch`")
	o.coordinator = o.Int32("coordinator-epoch", 0, "abort, without --start-offset: the `epoch` of the transaction's coordinator")
	o.maxTimeout = o.Int64("max-transaction-timeout", 15, "find-hanging: only transactions without a record for more `minutes`")
	return o
}

// read returns what the command does, after checking the options against those of the command.
func (o *transactionsOptions) read(env *Env) (run func(*transactionsTool, context.Context) error, err error) {
	if err := o.parse(env); err != nil {
		return nil, err
	}
	switch {
	case o.has("h"):
		o.usage(env)
		return nil, exitCode(1)
	case o.has("v"):
		env.println(Version)
		return nil, exitCode(0)
	}
	if err := o.require("bootstrap-server"); err != nil {
		return nil, err
	}
	if len(o.args) == 0 {
		return nil, usagef("too few arguments: a command is missing")
	}
	for _, c := range transactionCommands {
		if c.name != o.args[0] {
			continue
		}
		if len(o.args) > 1 {
			return nil, usagef("unrecognized arguments: %s", strings.Join(o.args[1:], " "))
		}
		allowed := slices.Concat(c.takes, c.require, []string{"bootstrap-server", "command-config"})
		for _, name := range slices.Sorted(maps.Keys(o.given)) {
			if !slices.Contains(allowed, name) {
				return nil, usagef("the command %s takes no option %q", c.name, name)
			}
		}
		return c.run, o.require(c.require...)
	}
	return nil, usagef("invalid choice: '%s' (choose from 'list', 'describe', 'describe-producers', 'abort', 'find-hanging')", o.args[0])
}

func transactions(ctx context.Context, env *Env) error {
	o := newTransactionsOptions()
	run, err := o.read(env)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		return run(&transactionsTool{o: o, env: env, cl: cl}, ctx)
	})
}

// check rejects combinations of options that a command cannot handle.
func (o *transactionsOptions) check() error {
	switch o.args[0] {
	case "abort":
		switch {
		case o.has("start-offset"):
			return nil
		case !o.has("producer-id"):
			return usagef("the transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or with " +
				"--producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)")
		}
		return o.require("producer-epoch", "coordinator-epoch")
	case "find-hanging":
		switch {
		case !o.has("topic") && !o.has("broker-id"):
			return usagef("the find-hanging command requires either --topic or --broker-id to limit the scope of the search")
		case o.has("partition") && !o.has("topic"):
			return usagef("the --partition argument requires --topic to be provided")
		}
	}
	return nil
}

type transactionsTool struct {
	o   *transactionsOptions
	env *Env
	cl  *kgo.Client
}

// printTable prints rows under headers, each column as wide as its widest value, followed by a tab.
func (e *Env) printTable(headers []string, rows [][]string) {
	widths := make([]int, len(headers))
	all := append([][]string{headers}, rows...)
	for _, row := range all {
		for i, value := range row {
			widths[i] = max(widths[i], len(value))
		}
	}
	for _, row := range all {
		for i, value := range row {
			e.printf("%-*s\t", widths[i], value)
		}
		e.println()
	}
}

// listed is a transaction with its coordinator.
type listed struct {
	coordinator int32
	kmsg.ListTransactionsResponseTransactionState
}

// listAll asks all brokers for the transactions that they coordinate, or some of them.
func (t *transactionsTool) listAll(ctx context.Context, req *kmsg.ListTransactionsRequest) ([]listed, error) {
	var all []listed
	for _, shard := range t.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return nil, fmt.Errorf("broker %d: %w", shard.Meta.NodeID, shard.Err)
		}
		resp := shard.Resp.(*kmsg.ListTransactionsResponse)
		if err := answered(resp.ErrorCode, nil); err != nil {
			return nil, fmt.Errorf("broker %d: %w", shard.Meta.NodeID, err)
		}
		for _, s := range resp.TransactionStates {
			all = append(all, listed{shard.Meta.NodeID, s})
		}
	}
	slices.SortFunc(all, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.coordinator, b.coordinator), cmp.Compare(a.TransactionalID, b.TransactionalID))
	})
	return all, nil
}

func (t *transactionsTool) list(ctx context.Context) error {
	req := kmsg.NewPtrListTransactionsRequest()
	req.DurationFilterMillis = *t.o.duration
	all, err := t.listAll(ctx, req)
	if err != nil {
		return fmt.Errorf("failed to list transactions: %w", err)
	}
	rows := make([][]string, len(all))
	for i, l := range all {
		rows[i] = []string{l.TransactionalID, number(l.coordinator), number(l.ProducerID), l.TransactionState}
	}
	t.env.printTable([]string{"TransactionalId", "Coordinator", "ProducerId", "TransactionState"}, rows)
	return nil
}

func number[T int16 | int32 | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// described is the state of a transaction with its coordinator.
type described struct {
	coordinator int32
	kmsg.DescribeTransactionsResponseTransactionState
}

// describeIDs requests transactions; an error is that of the whole request.
func (t *transactionsTool) describeIDs(ctx context.Context, ids ...string) (all []described, err error) {
	comes := whileCoordinatorComes(ctx, coordinatorPatience, func(ctx context.Context) error {
		if all, err = t.describeOnce(ctx, ids); err != nil {
			return err
		}
		for _, d := range all {
			if err := kerr.ErrorForCode(d.ErrorCode); err != nil {
				return err
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil, comes
	}
	return all, err
}

func (t *transactionsTool) describeOnce(ctx context.Context, ids []string) ([]described, error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = ids
	var all []described
	for _, shard := range t.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, s := range shard.Resp.(*kmsg.DescribeTransactionsResponse).TransactionStates {
			all = append(all, described{shard.Meta.NodeID, s})
		}
	}
	return all, nil
}

func (t *transactionsTool) describe(ctx context.Context) error {
	all, err := t.describeIDs(ctx, *t.o.id)
	if err == nil && len(all) != 1 {
		err = errors.New("no broker answers for it")
	}
	if err == nil {
		err = answered(all[0].ErrorCode, nil)
	}
	if err != nil {
		return fmt.Errorf("failed to describe transaction state of transactional-id `%s`: %w", *t.o.id, err)
	}
	s := all[0]
	start, duration := "None", "None"
	if s.StartTimestamp >= 0 {
		start, duration = number(s.StartTimestamp), number(time.Now().UnixMilli()-s.StartTimestamp)
	}
	t.env.printTable([]string{"CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
		"CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"},
		[][]string{{number(s.coordinator), *t.o.id, number(s.ProducerID), number(s.ProducerEpoch), s.State, number(s.TimeoutMillis),
			start, duration, strings.Join(s.partitions(), ",")}})
	return nil
}

// partitions returns those that the transaction has written to, topic-number.
func (d *described) partitions() []string {
	var names []string
	for _, topic := range d.Topics {
		for _, p := range topic.Partitions {
			names = append(names, partitionName(topic.Topic, p))
		}
	}
	slices.Sort(names)
	return names
}

// producer is a producer of a partition, with its state according to the leader or another replica.
type producer struct {
	topic     string
	partition int32
	kmsg.DescribeProducersResponseTopicPartitionActiveProducer
}

// producers asks the leaders of partitions, or one broker that has replicas of all, for the producers.
func (t *transactionsTool) producers(ctx context.Context, partitions map[string][]int32) ([]producer, error) {
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic, rt.Partitions = topic, partitions[topic]
		req.Topics = append(req.Topics, rt)
	}
	responses, err := t.askForProducers(ctx, req)
	if err != nil {
		return nil, err
	}
	var all []producer
	for _, resp := range responses {
		found, err := producersIn(resp)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b producer) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition), cmp.Compare(a.ProducerID, b.ProducerID))
	})
	return all, nil
}

func producersIn(resp *kmsg.DescribeProducersResponse) ([]producer, error) {
	var all []producer
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if err := answered(p.ErrorCode, p.ErrorMessage); err != nil {
				return nil, fmt.Errorf("%s-%d: %w", topic.Topic, p.Partition, err)
			}
			for _, active := range p.ActiveProducers {
				all = append(all, producer{topic.Topic, p.Partition, active})
			}
		}
	}
	return all, nil
}

func (t *transactionsTool) askForProducers(ctx context.Context, req *kmsg.DescribeProducersRequest) ([]*kmsg.DescribeProducersResponse, error) {
	if t.o.has("broker-id") {
		resp, err := t.cl.Broker(int(*t.o.broker)).RetriableRequest(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("broker %d: %w", *t.o.broker, err)
		}
		return []*kmsg.DescribeProducersResponse{resp.(*kmsg.DescribeProducersResponse)}, nil
	}
	var all []*kmsg.DescribeProducersResponse
	for _, shard := range t.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		all = append(all, shard.Resp.(*kmsg.DescribeProducersResponse))
	}
	return all, nil
}

func (t *transactionsTool) describeProducers(ctx context.Context) error {
	all, err := t.producers(ctx, map[string][]int32{*t.o.topic: {*t.o.partition}})
	if err != nil {
		replica := "leader"
		if t.o.has("broker-id") {
			replica = "broker " + number(*t.o.broker)
		}
		return fmt.Errorf("failed to describe producers for partition %s-%d on %s: %w", *t.o.topic, *t.o.partition, replica, err)
	}
	rows := make([][]string, len(all))
	for i, p := range all {
		start := "None"
		if p.CurrentTxnStartOffset >= 0 {
			start = number(p.CurrentTxnStartOffset)
		}
		rows[i] = []string{number(p.ProducerID), number(p.ProducerEpoch), number(p.CoordinatorEpoch), number(p.LastSequence),
			number(p.LastTimestamp), start}
	}
	t.env.printTable([]string{"ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
		"CurrentTransactionStartOffset"}, rows)
	return nil
}

// abort writes the marker of an aborted transaction to one partition, on behalf of the transaction's coordinator.
func (t *transactionsTool) abort(ctx context.Context) error {
	marker, err := t.marker(ctx)
	if err != nil {
		return err
	}
	topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	topic.Topic, topic.Partitions = *t.o.topic, []int32{*t.o.partition}
	marker.Topics = append(marker.Topics, topic)
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = append(req.Markers, marker)
	for _, shard := range t.cl.RequestSharded(ctx, req) {
		if err := markerError(shard); err != nil {
			return fmt.Errorf("failed to abort transaction of producer %d with epoch %d and coordinator epoch %d on %s-%d: %w",
				marker.ProducerID, marker.ProducerEpoch, marker.CoordinatorEpoch, *t.o.topic, *t.o.partition, err)
		}
	}
	return nil
}

func markerError(shard kgo.ResponseShard) error {
	if shard.Err != nil {
		return shard.Err
	}
	for _, m := range shard.Resp.(*kmsg.WriteTxnMarkersResponse).Markers {
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				if err := answered(p.ErrorCode, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// marker returns the marker for the transaction that the options identify. A transaction of a new producer id has no
// coordinator epoch yet; 0 is no higher than any coordinator's.
func (t *transactionsTool) marker(ctx context.Context) (kmsg.WriteTxnMarkersRequestMarker, error) {
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	if !t.o.has("start-offset") {
		m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch = *t.o.producerID, int16(*t.o.producerEpoch), max(*t.o.coordinator, 0)
		return m, nil
	}
	all, err := t.producers(ctx, map[string][]int32{*t.o.topic: {*t.o.partition}})
	if err != nil {
		return m, fmt.Errorf("failed to validate producer state for partition %s-%d: %w", *t.o.topic, *t.o.partition, err)
	}
	for _, p := range all {
		if p.CurrentTxnStartOffset == *t.o.startOffset {
			m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch = p.ProducerID, int16(p.ProducerEpoch), max(p.CoordinatorEpoch, 0)
			return m, nil
		}
	}
	return m, fmt.Errorf("could not find any open transactions starting at offset %d on partition %s-%d", *t.o.startOffset, *t.o.topic, *t.o.partition)
}
