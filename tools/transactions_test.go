package tools

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"barnabas/kafkatest"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// openTransaction writes a record in a transaction that its coordinator does or does not know, and leaves the
// transaction open.
func openTransaction(t *testing.T, addr, topic string, known bool) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	txnID := "open-" + topic
	ctx := t.Context()
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis = &txnID, 60_000
	producer, err := init.RequestWith(ctx, cl)
	if err != nil || producer.ErrorCode != 0 {
		t.Fatalf("%v, error %d", err, producer.ErrorCode)
	}
	if known {
		add := kmsg.NewPtrAddPartitionsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch = txnID, producer.ProducerID, producer.ProducerEpoch
		add.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{0}}}
		if _, err := add.RequestWith(ctx, cl); err != nil {
			t.Fatal(err)
		}
	}
	b := record.NewBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = producer.ProducerID, producer.ProducerEpoch, 0, true
	b.Add(time.Now().Add(-2*time.Minute).UnixMilli(), nil, []byte("x"))
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &txnID, -1, 10_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: b.MustBuild()}}}}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%v, %+v", err, resp)
	}
}

// TestHangingTransactions: a transaction that no coordinator knows is found and can be aborted; one that a coordinator
// will end is not reported.
func TestHangingTransactions(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t, kafkatest.Setting("transaction.partition.verification.enable", "false")).Broker(0).Addr()
	tool := func(code int, args ...string) output {
		t.Helper()
		out := runTool(t, t.Context(), "", "kafka-transactions", append([]string{"--bootstrap-server", addr}, args...)...)
		if out.code != code {
			t.Fatalf("%v: exit code %d, want %d: %s%s", args, out.code, code, out.stdout, out.stderr)
		}
		return out
	}
	for _, topic := range []string{"cared-for", "hangs"} {
		if out := runTool(t, t.Context(), "", "kafka-topics", "--create", "--topic", topic, "--bootstrap-server", addr); out.code != 0 {
			t.Fatal(out.stderr)
		}
	}
	openTransaction(t, addr, "cared-for", true)
	openTransaction(t, addr, "hangs", false)
	for _, scope := range [][]string{{"--broker-id", "0"}, {"--topic", "hangs"}, {"--topic", "hangs", "--partition", "0"}} {
		out := tool(0, append([]string{"find-hanging", "--max-transaction-timeout", "1"}, scope...)...)
		if lines := strings.Split(strings.TrimSpace(out.stdout), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[1], "hangs") {
			t.Errorf("%v finds %q", scope, out.stdout)
		}
	}
	if out := tool(0, "find-hanging", "--broker-id", "0"); strings.Count(out.stdout, "\n") != 1 {
		t.Errorf("a transaction that is two minutes old counts as hanging with the default of 15 minutes: %q", out.stdout)
	}
	if out := tool(0, "describe", "--transactional-id", "open-cared-for"); !strings.Contains(out.stdout, "cared-for-0") {
		t.Errorf("the open transaction is described as %q", out.stdout)
	}
	tool(1, "abort", "--topic", "hangs", "--partition", "0", "--start-offset", "7")
	tool(0, "abort", "--topic", "hangs", "--partition", "0", "--start-offset", "0")
	if out := tool(0, "find-hanging", "--topic", "hangs", "--max-transaction-timeout", "1"); strings.Count(out.stdout, "\n") != 1 {
		t.Errorf("after the abort the transactions are %q", out.stdout)
	}
	if out := tool(0, "describe-producers", "--topic", "hangs", "--partition", "0"); !strings.Contains(out.stdout, "None") {
		t.Errorf("after the abort the producer is %q", out.stdout)
	}
}

// TestBatchSizes: batches respect --batch-size, larger records are sent alone and in order, and a topic with small
// segments gets batches that fit.
func TestBatchSizes(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t).Broker(0).Addr()
	var lines []string
	for i := range 2000 {
		line := "line " + strconv.Itoa(i)
		if i%500 == 250 {
			line += strings.Repeat(".", 10_000)
		}
		lines = append(lines, line)
	}
	input := strings.Join(lines, "\n") + "\n"
	for _, test := range []struct {
		topic   string
		setting string
		args    []string
		largest int64 // size in bytes of the largest batch
	}{
		{"by-batch-size", "retention.ms=-1", []string{"--batch-size", "2000"}, 11_000},
		{"by-property", "retention.ms=-1", []string{"--producer-property", "batch.size=2000"}, 11_000},
		{"by-less-than-the-library-takes", "retention.ms=-1", []string{"--producer-property", "batch.size=0"}, 11_000},
		{"by-segment", "segment.bytes=15000", nil, 15_000},
	} {
		t.Run(test.topic, func(t *testing.T) {
			t.Parallel()
			broker := []string{"--topic", test.topic, "--bootstrap-server", addr}
			for _, step := range [][]string{append([]string{"kafka-topics", "--create", "--config", test.setting}, broker...),
				append(append([]string{"kafka-console-producer"}, test.args...), broker...)} {
				if out := runTool(t, t.Context(), input, step[0], step[1:]...); out.code != 0 {
					t.Fatalf("%v: exit code %d: %s", step, out.code, out.stderr)
				}
			}
			out := runTool(t, t.Context(), "", "kafka-console-consumer", append(broker, "--from-beginning", "--max-messages", "2000")...)
			if out.stdout != input {
				t.Errorf("what is read differs from what was written (%d and %d bytes)", len(out.stdout), len(input))
			}
			if largest := largestBatch(t, addr, test.topic); largest > test.largest {
				t.Errorf("the largest batch has %d bytes, want %d at most", largest, test.largest)
			}
		})
	}
}

// largestBatch returns the size in bytes of the largest batch in a topic's only partition: a fetch of one byte returns
// one batch.
func largestBatch(t *testing.T, addr, topic string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	var largest int64
	for next := int64(0); next < end.Offset; {
		var bytes int64
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			bytes += int64(len(r.Value))
			next = r.Offset + 1
		})
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		largest = max(largest, bytes)
	}
	return largest
}

// TestGroupWithoutCoordinator: the tool ends soon, with one line that says what is missing.
func TestGroupWithoutCoordinator(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t, kafkatest.Setting("offsets.topic.replication.factor", "3")).Broker(0).Addr()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out := runTool(t, ctx, "", "kafka-console-consumer", "--topic", "t", "--group", "g", "--bootstrap-server", addr)
	if out.code != 1 || ctx.Err() != nil || strings.Count(out.stderr, "\n") != 1 || !strings.Contains(out.stderr, "group g has no coordinator") {
		t.Errorf("exit code %d, %v: %q", out.code, ctx.Err(), out.stderr)
	}
}
