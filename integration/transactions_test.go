package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"barnabas/kafkatest"
	"barnabas/logstore/record"

	"github.com/Shopify/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const txnPatience = 60 * time.Second

// newTxnClient is a transactional producer.
func newTxnClient(t *testing.T, addrs []string, id string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{kgo.AlwaysRetryEOF(), kgo.SeedBrokers(addrs...), kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)
	cl := newClient(t, opts...)
	t.Cleanup(cl.Close)
	return cl
}

// writeTxn writes a record to each of n partitions in a transaction and ends it.
func writeTxn(t *testing.T, cl *kgo.Client, topic string, n int, value string, end kgo.TransactionEndTry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), txnPatience)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for p := range int32(n) {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: p, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatalf("%s to partition %d: %v", value, p, err)
		}
	}
	if err := cl.EndTransaction(ctx, end); err != nil {
		t.Fatalf("end offset of %s: %v", value, err)
	}
}

// readTopic reads a topic to its end, and returns the values by partition.
func readTopic(t *testing.T, addrs []string, topic string, level kgo.IsolationLevel) map[int32][]string {
	t.Helper()
	values := make(map[int32][]string)
	for _, r := range readRecords(t, addrs, topic, level) {
		values[r.Partition] = append(values[r.Partition], string(r.Value))
	}
	return values
}

// readRecords reads a topic, each of whose partitions ends with a marker, to its end.
func readRecords(t *testing.T, addrs []string, topic string, level kgo.IsolationLevel) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), txnPatience)
	defer cancel()
	cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(addrs...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	defer cl.Close()
	ends := endOffsets(t, kadm.NewClient(cl), topic)
	left := make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	var records []*kgo.Record
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s: not read to its end: %v are left", topic, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
			if r.Offset+1 >= left[r.Partition] { // the last record of every partition is a marker
				delete(left, r.Partition)
			}
		})
	}
	return records
}

// awaitStable waits until no transaction is open in a topic: the last stable offsets equal the end offsets.
func awaitStable(t *testing.T, cl *kadm.Client, topic string) {
	t.Helper()
	await(t, "no transaction is open in "+topic, func(ctx context.Context) (string, bool) {
		ends, err := cl.ListEndOffsets(ctx, topic)
		stable, err2 := cl.ListCommittedOffsets(ctx, topic)
		err = errors.Join(err, err2, ends.Error(), stable.Error())
		return fmt.Sprintf("ends %v, stable %v, %v", offsetsIn(ends), offsetsIn(stable), err), err == nil && maps.Equal(offsetsIn(ends), offsetsIn(stable))
	})
}

func offsetsIn(listed kadm.ListedOffsets) map[int32]int64 {
	m := make(map[int32]int64)
	listed.Each(func(o kadm.ListedOffset) { m[o.Partition] = o.Offset })
	return m
}

// TestTransactionsAreAllOrNothing alternates commits and aborts, with one broker and with three.
func TestTransactionsAreAllOrNothing(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		t.Run(fmt.Sprintf("brokers=%d", brokers), func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Run(t, kafkatest.Brokers(brokers))
			newTopic(t, c, "t", 3, int16(brokers))
			cl := newTxnClient(t, c.Addrs(), "all-or-nothing")
			var committed, all []string
			for i := range 20 {
				value := strconv.Itoa(i)
				writeTxn(t, cl, "t", 3, value, i%3 != 1)
				if all = append(all, value); i%3 != 1 {
					committed = append(committed, value)
				}
			}
			awaitStable(t, admin(t, c), "t")
			for p, got := range readTopic(t, c.Addrs(), "t", kgo.ReadCommitted()) {
				if !slices.Equal(got, committed) {
					t.Errorf("partition %d: read_committed returns %v", p, got)
				}
			}
			for p, got := range readTopic(t, c.Addrs(), "t", kgo.ReadUncommitted()) {
				if !slices.Equal(got, all) {
					t.Errorf("partition %d: read_uncommitted returns %v", p, got)
				}
			}
		})
	}
}

// TestOldIncarnationIsFenced: the second client with a transactional id aborts the first one's transaction, and
// whatever the first one then does, it gets an error.
func TestOldIncarnationIsFenced(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	ctx, cancel := context.WithTimeout(t.Context(), txnPatience)
	defer cancel()
	old := newTxnClient(t, c.Addrs(), "fenced")
	if err := old.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := old.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("old")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	writeTxn(t, newTxnClient(t, c.Addrs(), "fenced"), "t", 1, "new", kgo.TryCommit)
	if err := old.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("zombie")}).FirstErr(); err == nil {
		t.Error("a fenced producer can still produce")
	}
	if err := old.EndTransaction(ctx, kgo.TryCommit); err == nil {
		t.Error("a fenced producer can commit")
	}
	if got := readTopic(t, c.Addrs(), "t", kgo.ReadCommitted())[0]; !slices.Equal(got, []string{"new"}) {
		t.Errorf("read_committed returns %v", got)
	}
}

// TestCoordinatorStopsMidTransaction: the next coordinator knows an open transaction, and completes one whose end was
// decided.
func TestCoordinatorStopsMidTransaction(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(3))
	newTopic(t, c, "t", 3, 3)
	adm := admin(t, c)
	cl := newTxnClient(t, c.Addrs(), "moved")
	writeTxn(t, cl, "t", 3, "before", kgo.TryCommit)
	for round, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		ctx, cancel := context.WithTimeout(t.Context(), txnPatience)
		value := strconv.Itoa(round)
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for p := range int32(3) {
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: p, Value: []byte(value)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		coordinators := adm.FindTxnCoordinators(ctx, "moved")
		broker := c.Broker(int(coordinators["moved"].NodeID))
		broker.Stop()
		if err := cl.EndTransaction(ctx, end); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := broker.Start(); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	awaitStable(t, adm, "t")
	for p, got := range readTopic(t, c.Addrs(), "t", kgo.ReadCommitted()) {
		if !slices.Equal(got, []string{"before", "0", "2"}) {
			t.Errorf("partition %d: read_committed returns %v", p, got)
		}
	}
}

// TestTransactionsSurviveKills kills the only broker, which leads and coordinates everything, with SIGKILL.
func TestTransactionsSurviveKills(t *testing.T) {
	t.Parallel()
	p := newProcess(t, 0, zookeeper(t), "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
		"transaction.state.log.num.partitions=3")
	p.start()
	cl := newTxnClient(t, []string{p.addr()}, "killed", kgo.RecordRetries(1<<30))
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 2, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	known := make(map[string]kgo.TransactionEndTry)
	ctx, cancel := context.WithTimeout(t.Context(), 2*txnPatience)
	defer cancel()
	for n := 0; len(known) < 40 && ctx.Err() == nil; n++ {
		value, end := strconv.Itoa(n), kgo.TransactionEndTry(n%4 != 0)
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			if n%10 == 9 { // anywhere within the transaction
				time.Sleep(time.Duration(n) * 100 * time.Microsecond)
				p.kill()
				p.start()
			}
		}()
		if tryTxn(ctx, cl, value, end) {
			known[value] = end
		}
		<-killed
	}
	awaitStable(t, kadm.NewClient(cl), "t")
	seen := readTopic(t, []string{p.addr()}, "t", kgo.ReadCommitted())
	if !slices.Equal(seen[0], seen[1]) {
		t.Errorf("the partitions differ: %v and %v", seen[0], seen[1])
	}
	for value, end := range known {
		if got := slices.Contains(seen[0], value); got != bool(end) {
			t.Errorf("transaction %s: committed %t, visible %t", value, end, got)
		}
	}
	t.Logf("%d transactions were acknowledged", len(known))
}

// tryTxn writes a value to two partitions and ends the transaction; it returns false if anything failed. Then the
// transaction is aborted if possible.
func tryTxn(ctx context.Context, cl *kgo.Client, value string, end kgo.TransactionEndTry) bool {
	if cl.BeginTransaction() != nil {
		_ = cl.EndTransaction(ctx, kgo.TryAbort)
		return false
	}
	ok := true
	for p := range int32(2) {
		ok = ok && cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: p, Value: []byte(value)}).FirstErr() == nil
	}
	if !ok {
		_ = cl.AbortBufferedRecords(ctx)
		_ = cl.EndTransaction(ctx, kgo.TryAbort)
		return false
	}
	return cl.EndTransaction(ctx, end) == nil
}

// TestSaramaTransactions: Sarama produces, adds a group's offsets to the transaction, commits and aborts.
func TestSaramaTransactions(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V2_8_0_0
	cfg.Producer.Idempotent, cfg.Producer.RequiredAcks, cfg.Producer.Return.Successes = true, sarama.WaitForAll, true
	cfg.Producer.Transaction.ID, cfg.Net.MaxOpenRequests = "sarama", 1
	producer, err := sarama.NewSyncProducer(c.Addrs(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	write := func(value string, end func() error) {
		t.Helper()
		if err := producer.BeginTxn(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: "t", Value: sarama.StringEncoder(value)}); err != nil {
			t.Fatal(err)
		}
		offset := []*sarama.PartitionOffsetMetadata{{Partition: 0, Offset: 5}}
		if err := producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{"t": offset}, "readers-"+value); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	write("kept", producer.CommitTxn)
	write("dropped", producer.AbortTxn)
	write("last", producer.CommitTxn)
	adm := admin(t, c)
	awaitStable(t, adm, "t")
	if got := readTopic(t, c.Addrs(), "t", kgo.ReadCommitted())[0]; !slices.Equal(got, []string{"kept", "last"}) {
		t.Errorf("read_committed returns %v", got)
	}
	for group, want := range map[string]int64{"readers-kept": 5, "readers-dropped": -1} {
		offsets, err := adm.FetchOffsets(t.Context(), group)
		got := int64(-1)
		if o, ok := offsets.Lookup("t", 0); ok {
			got = o.At
		}
		if err != nil || got != want {
			t.Errorf("%s: offset %d, %v; want %d", group, got, err, want)
		}
	}
}

// TestTransactionTimesOut: the transaction's records are dropped, offsets committed in it are stable again, and its
// producer gets an error.
func TestTransactionTimesOut(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", "50"))
	newTopic(t, c, "t", 1, 1)
	w := newTxnWire(t, c, "slow", 1500)
	w.groupCoordinator("g") // exists before the timeout starts
	w.add("t", 0)
	if p := w.write("t", "late"); p.ErrorCode != 0 {
		t.Fatalf("error %d", p.ErrorCode)
	}
	w.addOffsets("g")
	w.commitOffset("g", "t", 7)
	until(t, "the abort makes the offset stable", func(context.Context) bool { return w.stableOffset("g", "t") != kerr.UnstableOffsetCommit.Code })
	awaitStable(t, admin(t, c), "t")
	if got := readTopic(t, c.Addrs(), "t", kgo.ReadCommitted())[0]; len(got) != 0 {
		t.Errorf("read_committed returns %v", got)
	}
	if got := w.end(true); got != kerr.ProducerFenced.Code {
		t.Errorf("the commit returns error %d", got)
	}
	if p := w.write("t", "later"); p.ErrorCode != kerr.InvalidProducerEpoch.Code {
		t.Errorf("producing returns error %d", p.ErrorCode)
	}
}

// TestDeletedTopicInTransaction: the transaction can be ended, and a new topic of the same name has no trace of it.
func TestDeletedTopicInTransaction(t *testing.T) {
	for _, anew := range []bool{false, true} {
		t.Run(fmt.Sprintf("anew=%t", anew), func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Run(t)
			newTopic(t, c, "gone", 1, 1)
			newTopic(t, c, "t", 1, 1)
			w := newTxnWire(t, c, "deleting", 60000)
			w.add("gone", 0)
			w.add("t", 0)
			w.write("gone", "x")
			w.write("t", "x")
			adm := admin(t, c)
			if _, err := adm.DeleteTopic(t.Context(), "gone"); err != nil {
				t.Fatal(err)
			}
			if anew {
				recreate(t, adm, "gone")
			}
			if got := w.end(true); got != 0 {
				t.Fatalf("the commit returns error %d", got)
			}
			w.awaitState("CompleteCommit")
			if got := readTopic(t, c.Addrs(), "t", kgo.ReadCommitted())[0]; !slices.Equal(got, []string{"x"}) {
				t.Errorf("read_committed returns %v", got)
			}
			if anew {
				ends, err := adm.ListEndOffsets(t.Context(), "gone")
				if o, _ := ends.Lookup("gone", 0); err != nil || o.Offset != 0 {
					t.Errorf("the new topic's end offset is %d, %v", o.Offset, err)
				}
			}
		})
	}
}

// recreate creates a topic again as soon as the previous one of that name is gone.
func recreate(t *testing.T, adm *kadm.Client, topic string) {
	t.Helper()
	until(t, "the old topic is gone", func(ctx context.Context) bool {
		_, err := adm.CreateTopic(ctx, 1, 1, nil, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// TestProduceAfterTheEnd: records that arrive after their transaction's end do not open another one that nobody would
// end (KIP-890).
func TestProduceAfterTheEnd(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(3)) // so that coordinator and leader are different brokers in most runs
	newTopic(t, c, "t", 3, 1)
	for _, id := range []string{"late-1", "late-2", "late-3"} {
		w := newTxnWire(t, c, id, 60000)
		w.add("t", 0)
		if p := w.write("t", "in time"); p.ErrorCode != 0 {
			t.Fatalf("error %d", p.ErrorCode)
		}
		if got := w.end(false); got != 0 {
			t.Fatalf("the abort returns error %d", got)
		}
		w.awaitState("CompleteAbort")
		if p := w.write("t", "too late"); p.ErrorCode != kerr.InvalidTxnState.Code {
			t.Errorf("producing returns error %d", p.ErrorCode)
		}
	}
	awaitStable(t, admin(t, c), "t")
}

// TestLateEndOfTransaction shows what the protocol cannot prevent before transactions version 2 (KIP-890): a delayed
// EndTxn that arrives when its producer's next transaction is open ends that one.
func TestLateEndOfTransaction(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := newTxnWire(t, c, "late", 60000)
	for _, value := range []string{"first", "second"} {
		w.add("t", 0)
		w.write("t", value)
		if got := w.end(false); got != 0 { // applies to the second transaction, though it was sent for the first and delayed
			t.Fatalf("the abort returns error %d", got)
		}
		w.awaitState("CompleteAbort")
	}
	if got := w.end(true); got != kerr.InvalidTxnState.Code {
		t.Errorf("the commit of the second transaction returns error %d", got)
	}
	if got := readTopic(t, c.Addrs(), "t", kgo.ReadCommitted())[0]; len(got) != 0 {
		t.Errorf("read_committed returns %v", got)
	}
}

// TestPlainRecordInTransaction: a producer with an open transaction cannot write a non-transactional record.
func TestPlainRecordInTransaction(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := newTxnWire(t, c, "plain", 60000)
	w.add("t", 0)
	w.write("t", "x")
	b := batch("plain")
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = w.id, w.epoch, w.sequence["t"]
	if p := w.leader("t").produce(9, "t", b.MustBuild()); p.ErrorCode != kerr.InvalidTxnState.Code {
		t.Errorf("error %d", p.ErrorCode)
	}
}

// TestFetchInOpenTransaction: read_committed gets no records from a log that begins with an open transaction, and no
// error; only read_committed gets a list of aborted transactions.
func TestFetchInOpenTransaction(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := newTxnWire(t, c, "fetched", 60000)
	fetch := func(isolation int8) kmsg.FetchResponseTopicPartition {
		req := fetching(11, "t", 0)
		req.IsolationLevel = isolation
		return w.leader("t").fetch(req)
	}
	if p := fetch(1); p.ErrorCode != 0 || p.HighWatermark != 0 || p.LastStableOffset != 0 {
		t.Errorf("before any transaction: error %d, high watermark %d, last stable offset %d", p.ErrorCode, p.HighWatermark, p.LastStableOffset)
	}
	w.add("t", 0)
	w.write("t", "x")
	if p := fetch(1); p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.HighWatermark != 1 || p.LastStableOffset != 0 {
		t.Errorf("open, read committed: error %d, %d bytes, high watermark %d, last stable offset %d",
			p.ErrorCode, len(p.RecordBatches), p.HighWatermark, p.LastStableOffset)
	}
	for isolation, want := range []int64{1, 0} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID, req.IsolationLevel = 2, -1, int8(isolation)
		topic, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = -1
		topic.Topic, topic.Partitions = "t", append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		if got := w.leader("t").call(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.Offset != want {
			t.Errorf("open, the latest offset at isolation %d: %d, error %d; want %d", isolation, got.Offset, got.ErrorCode, want)
		}
	}
	if p := fetch(0); len(p.RecordBatches) == 0 || p.AbortedTransactions != nil {
		t.Errorf("open, read uncommitted: %d bytes, aborted %v", len(p.RecordBatches), p.AbortedTransactions)
	}
	w.end(false)
	w.awaitState("CompleteAbort")
	if p := fetch(1); len(p.RecordBatches) == 0 || len(p.AbortedTransactions) != 1 || p.AbortedTransactions[0].FirstOffset != 0 {
		t.Errorf("aborted, read committed: %d bytes, aborted %v", len(p.RecordBatches), p.AbortedTransactions)
	}
	if p := fetch(0); len(p.RecordBatches) == 0 || p.AbortedTransactions != nil {
		t.Errorf("aborted, read uncommitted: %d bytes, aborted %v", len(p.RecordBatches), p.AbortedTransactions)
	}
}

// TestResumedTransaction: another process ends a transaction with the producer's id and epoch.
func TestResumedTransaction(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	first := newTxnWire(t, c, "resumed", 60000)
	first.add("t", 0)
	first.write("t", "x")
	second := *first
	second.coordinator = dialWire(t, c.Broker(0).Addr())
	if got := second.end(true); got != 0 {
		t.Fatalf("the commit returns error %d", got)
	}
	second.awaitState("CompleteCommit")
	if got := readTopic(t, c.Addrs(), "t", kgo.ReadCommitted())[0]; !slices.Equal(got, []string{"x"}) {
		t.Errorf("read_committed returns %v", got)
	}
}

// txnWire is a transactional producer that sends single requests.
type txnWire struct {
	t           *testing.T
	cluster     *kafkatest.Cluster
	txnID       string
	id          int64
	epoch       int16
	sequence    map[string]int32
	coordinator *wire
}

func newTxnWire(t *testing.T, c *kafkatest.Cluster, txnID string, timeoutMs int32) *txnWire {
	t.Helper()
	w := &txnWire{t: t, cluster: c, txnID: txnID, sequence: make(map[string]int32)}
	ctx, cancel := context.WithTimeout(t.Context(), txnPatience)
	defer cancel()
	for ; ; time.Sleep(20 * time.Millisecond) {
		found := admin(t, c).FindTxnCoordinators(ctx, txnID)[txnID]
		if found.Err != nil && ctx.Err() == nil {
			continue // the internal topic is being created
		}
		w.coordinator = dialWire(t, c.Broker(int(found.NodeID)).Addr())
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionalID, req.TransactionTimeoutMillis = 4, &txnID, timeoutMs
		resp := w.coordinator.call(req).(*kmsg.InitProducerIDResponse)
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			if kerr.IsRetriable(err) && ctx.Err() == nil {
				continue
			}
			t.Fatal(err)
		}
		w.id, w.epoch = resp.ProducerID, resp.ProducerEpoch
		return w
	}
}

// retry repeats a call until the error code is not one after which clients retry.
func (w *txnWire) retry(call func() int16) int16 {
	w.t.Helper()
	deadline := time.Now().Add(txnPatience)
	for {
		code := call()
		if err := kerr.ErrorForCode(code); err == nil || !kerr.IsRetriable(err) && !errors.Is(err, kerr.ConcurrentTransactions) || time.Now().After(deadline) {
			return code
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *txnWire) must(what string, code int16) {
	w.t.Helper()
	if code != 0 {
		w.t.Fatalf("%s: %v", what, kerr.ErrorForCode(code))
	}
}

func (w *txnWire) add(topic string, partition int32) {
	w.t.Helper()
	w.must("AddPartitionsToTxn", w.retry(func() int16 {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = 3, w.txnID, w.id, w.epoch
		req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
		return w.coordinator.call(req).(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode
	}))
}

func (w *txnWire) addOffsets(group string) {
	w.t.Helper()
	w.must("AddOffsetsToTxn", w.retry(func() int16 {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = 3, w.txnID, w.id, w.epoch, group
		return w.coordinator.call(req).(*kmsg.AddOffsetsToTxnResponse).ErrorCode
	}))
}

// leader returns a connection to the leader of a topic's first partition.
func (w *txnWire) leader(topic string) *wire {
	w.t.Helper()
	topics, err := admin(w.t, w.cluster).ListTopics(w.t.Context(), topic)
	if err != nil || topics[topic].Partitions[0].Leader < 0 {
		w.t.Fatalf("%s has no leader: %v", topic, err)
	}
	return dialWire(w.t, w.cluster.Broker(int(topics[topic].Partitions[0].Leader)).Addr())
}

func (w *txnWire) write(topic, value string) kmsg.ProduceResponseTopicPartition {
	w.t.Helper()
	b := record.NewBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = w.id, w.epoch, w.sequence[topic], true
	b.Add(time.Now().UnixMilli(), nil, []byte(value))
	req := producing(9, topic, b.MustBuild())
	req.TransactionID = &w.txnID
	p := w.leader(topic).call(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode == 0 {
		w.sequence[topic]++
	}
	return p
}

// groupCoordinator returns a connection to a group's coordinator.
func (w *txnWire) groupCoordinator(group string) *wire {
	w.t.Helper()
	var found kadm.FindCoordinatorResponse
	await(w.t, "a coordinator of "+group, func(ctx context.Context) (string, bool) {
		found = admin(w.t, w.cluster).FindGroupCoordinators(ctx, group)[group]
		return fmt.Sprint(found.Err), found.Err == nil
	})
	return dialWire(w.t, w.cluster.Broker(int(found.NodeID)).Addr())
}

func (w *txnWire) commitOffset(group, topic string, offset int64) {
	w.t.Helper()
	coordinator := w.groupCoordinator(group)
	w.must("TxnOffsetCommit", w.retry(func() int16 {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.Version, req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = 3, w.txnID, group, w.id, w.epoch
		req.Generation = -1
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Offset = offset
		req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
		return coordinator.call(req).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	}))
}

// stableOffset returns the error code of an OffsetFetch that requires stable offsets.
func (w *txnWire) stableOffset(group, topic string) int16 {
	w.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group, req.RequireStable = 7, group, true
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	return w.groupCoordinator(group).call(req).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].ErrorCode
}

func (w *txnWire) end(commit bool) int16 {
	w.t.Helper()
	return w.retry(func() int16 {
		req := kmsg.NewPtrEndTxnRequest()
		req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = 3, w.txnID, w.id, w.epoch, commit
		return w.coordinator.call(req).(*kmsg.EndTxnResponse).ErrorCode
	})
}

func (w *txnWire) awaitState(want string) {
	w.t.Helper()
	await(w.t, w.txnID+" is "+want, func(context.Context) (string, bool) {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{w.txnID}
		got := w.coordinator.call(req).(*kmsg.DescribeTransactionsResponse).TransactionStates[0]
		return fmt.Sprintf("%+v", got), got.State == want
	})
}
