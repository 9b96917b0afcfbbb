package integration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestExactlyOnce copies a topic record by record to another with consumers that commit offsets in their transactions,
// while consumers are killed and brokers are stopped and started. Each record arrives exactly once.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	const partitions, count = 4, 400
	c := kafkatest.Run(t, kafkatest.Brokers(3), kafkatest.Setting("group.min.session.timeout.ms", "1000"),
		kafkatest.Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", "200"))
	newTopic(t, c, "in", partitions, 3)
	newTopic(t, c, "out", partitions, 3)
	adm := admin(t, c)
	source := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(c.Addrs()...), kgo.DefaultProduceTopic("in"))
	defer source.Close()
	for i := range count {
		if err := source.ProduceSync(t.Context(), &kgo.Record{Value: []byte(strconv.Itoa(i))}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*txnPatience)
	defer cancel()
	for round := 0; ; round++ {
		line := &lifeline{}
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- copyExactlyOnce(running, c.Addrs(), line, "out") }()
		switch round {
		case 0, 2: // the client is killed
			time.Sleep(500 * time.Millisecond)
			line.cut()
			stop()
		case 1, 3, 4: // brokers are stopped and started
			b := c.Broker(round % 3)
			time.Sleep(200 * time.Millisecond)
			b.Stop()
			time.Sleep(200 * time.Millisecond)
			if err := b.Start(); err != nil {
				t.Fatal(err)
			}
			stop()
		default:
			awaitCopied(t, adm)
			stop()
		}
		if err := <-ended; err != nil && round > 4 {
			t.Fatal(err)
		}
		if round > 4 {
			break
		}
	}
	checkCopies(t, adm, c.Addrs(), count, "out")
}

// checkCopies checks that each record arrived exactly once in each topic, and that no transaction is open.
func checkCopies(t *testing.T, adm *kadm.Client, addrs []string, count int, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		awaitStable(t, adm, topic)
		seen := make(map[string]int)
		for _, r := range readRecords(t, addrs, topic, kgo.ReadCommitted()) {
			seen[string(r.Value)]++
		}
		for i := range count {
			if n := seen[strconv.Itoa(i)]; n != 1 {
				t.Errorf("record %d arrived %d times in %s", i, n, topic)
			}
		}
		if len(seen) != count {
			t.Errorf("%d different records arrived in %s, want %d", len(seen), topic, count)
		}
	}
}

// TestExactlyOnceThroughCrashes kills, in the middle of transactions, the client, the transaction's coordinator, the
// group's coordinator and a leader of the output topics in turn. Each record is copied to two topics in one
// transaction, so both must have each of them exactly once.
func TestExactlyOnceThroughCrashes(t *testing.T) {
	t.Parallel()
	const partitions, count = 4, 600
	zk := zookeeper(t)
	var brokers []*process
	var addrs []string
	for id := range 3 {
		p := newProcess(t, id, zk, "offsets.topic.replication.factor=3", "offsets.topic.num.partitions=3",
			"transaction.state.log.replication.factor=3", "transaction.state.log.num.partitions=3", "transaction.state.log.min.isr=2",
			"min.insync.replicas=2", "group.min.session.timeout.ms=1000", "transaction.abort.timed.out.transaction.cleanup.interval.ms=200")
		p.start()
		brokers, addrs = append(brokers, p), append(addrs, p.addr())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(addrs...), kgo.DefaultProduceTopic("in"), kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1))
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopics(ctx, partitions, 3, nil, "in", "out", "twin"); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		cl.Produce(ctx, &kgo.Record{Value: []byte(strconv.Itoa(i))}, nil)
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for round := range 8 {
		line := &lifeline{}
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- copyExactlyOnce(running, addrs, line, "out", "twin") }()
		time.Sleep(300 * time.Millisecond) // until it is within a transaction
		if victim := victimOf(ctx, t, adm, round); victim < 0 {
			line.cut()
		} else {
			brokers[victim].kill()
			time.Sleep(500 * time.Millisecond)
			brokers[victim].start()
		}
		stop()
		<-ended // with or without an error: only what can be read counts
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- copyExactlyOnce(running, addrs, &lifeline{}, "out", "twin") }()
	awaitCopied(t, adm)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	checkCopies(t, adm, addrs, count, "out", "twin")
}

// victimOf returns the broker that is killed in a round, or -1 for the client.
func victimOf(ctx context.Context, t *testing.T, adm *kadm.Client, round int) int32 {
	t.Helper()
	for {
		victim, err := int32(-1), error(nil)
		switch round % 4 {
		case 1:
			found := adm.FindTxnCoordinators(ctx, "copier")["copier"]
			victim, err = found.NodeID, found.Err
		case 2:
			found := adm.FindGroupCoordinators(ctx, "copiers")["copiers"]
			victim, err = found.NodeID, found.Err
		case 3:
			var topics kadm.TopicDetails
			if topics, err = adm.ListTopics(ctx, "out"); err == nil {
				victim = topics["out"].Partitions[int32(round%4)].Leader
			}
		}
		if round%4 == 0 || err == nil && victim >= 0 {
			return victim
		}
		if ctx.Err() != nil {
			t.Fatalf("round %d: no broker to kill: %v", round, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// copyExactlyOnce copies to topics until ctx ends.
func copyExactlyOnce(ctx context.Context, addrs []string, line *lifeline, topics ...string) error {
	s, err := kgo.NewGroupTransactSession(kgo.AlwaysRetryEOF(), kgo.SeedBrokers(addrs...), kgo.Dialer(line.dial), kgo.TransactionalID("copier"),
		kgo.ConsumerGroup("copiers"), kgo.ConsumeTopics("in"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(2*time.Second),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.TransactionTimeout(3*time.Second), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1))
	if err != nil {
		return err
	}
	defer s.Close()
	for ctx.Err() == nil {
		fetches := s.PollRecords(ctx, 7)
		if ctx.Err() != nil {
			return nil
		}
		if err := s.Begin(); err != nil {
			return err
		}
		var failed error
		fetches.EachRecord(func(r *kgo.Record) {
			for _, topic := range topics {
				s.Produce(ctx, &kgo.Record{Topic: topic, Value: r.Value}, func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
			}
		})
		if err := s.Client().Flush(ctx); err != nil {
			return err
		}
		if _, err := s.End(ctx, kgo.TransactionEndTry(failed == nil)); err != nil {
			return err
		}
	}
	return nil
}

// awaitCopied waits until the group has committed the end of its topic.
func awaitCopied(t *testing.T, adm *kadm.Client) {
	t.Helper()
	await(t, "all is copied", func(ctx context.Context) (string, bool) {
		lag, err := adm.Lag(ctx, "copiers")
		l := lag["copiers"]
		return fmt.Sprintf("%v, %v", lag, err), err == nil && l.Error() == nil && len(l.Lag["in"]) == 4 && l.Lag.Total() == 0
	})
}
