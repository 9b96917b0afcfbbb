package integration

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// place is a broker's id, port and log directory, which brokers of both kinds use in turn.
type place struct {
	theirs *peerBroker
	ours   *process
}

// rolling is a cluster whose brokers are replaced one by one, and what clients do meanwhile.
type rolling struct {
	t      *testing.T
	addrs  []string
	places []place
	admin  *kadm.Client
}

// TestRollingReplacement replaces three brokers of Apache Kafka, one by one, with ours, which have the same log
// directories, ports and ids, and back again. Only brokers may change the nodes in ZooKeeper. Meanwhile an idempotent
// producer continues with acks=all, a group commits, and transactions are committed: nothing that was acknowledged is
// lost, and no client has to be reconfigured.
func TestRollingReplacement(t *testing.T) {
	t.Parallel()
	z := startSecuredZooKeeper(t)
	r := &rolling{t: t}
	for id := range 3 {
		settings := []string{"zookeeper.set.acl=true", "zookeeper.session.timeout.ms=3000", "min.insync.replicas=2",
			"offsets.topic.replication.factor=3", "transaction.state.log.replication.factor=3", "transaction.state.log.min.isr=2",
			"offsets.topic.num.partitions=5", "transaction.state.log.num.partitions=5", "controlled.shutdown.retry.backoff.ms=100"}
		theirs := newPeer(t, id, z.addr+"/rolling", settings...)
		theirs.options = "-Djava.security.auth.login.config=" + z.logins
		ours := newProcess(t, id, z.addr+"/rolling", settings...)
		ours.port = theirs.port
		ours.add("java.security.auth.login.config="+z.logins, "log.dirs="+filepath.Join(theirs.dir, "data"),
			fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d", theirs.port))
		theirs.start()
		r.places, r.addrs = append(r.places, place{theirs, ours}), append(r.addrs, theirs.addr())
	}
	cl := r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(20000))
	r.admin = kadm.NewClient(cl)
	if _, err := r.admin.CreateTopics(t.Context(), chaosPartitions, 3, nil, "t", "txn"); err != nil {
		t.Fatal(err)
	}
	r.settle()
	working, stop := context.WithCancel(t.Context())
	defer stop()
	var work sync.WaitGroup
	var committed []string
	work.Go(func() { committed = r.transact(working) })
	work.Go(func() { r.commit(working) })
	acked := produceDuring(t, cl, func() {
		for _, p := range r.places {
			r.askDoctor(p, z.logins)
			p.theirs.stop()
			p.ours.start()
			r.settle()
		}
		for _, p := range r.places {
			p.ours.stop()
			p.theirs.start()
			r.settle()
		}
		r.places[0].theirs.kill() // and one that was not stopped cleanly
		r.places[0].ours.start()
		r.settle()
	})
	stop()
	work.Wait()
	total := 0
	for partition, want := range acked {
		checkPartition(t, r.addrs, int32(partition), want, nil)
		total += len(want)
	}
	r.checkTransactions(committed)
	t.Logf("%d records and %d transactions were acknowledged", total, len(committed))
	for _, p := range r.places {
		if log := p.ours.log(); strings.Contains(log, "level=error") {
			t.Errorf("our log has errors: %s", log)
		}
	}
}

// askDoctor asks kafka-doctor whether our broker can take that broker's place.
func (r *rolling) askDoctor(p place, logins string) {
	r.t.Helper()
	cmd := exec.Command(brokerBinary(r.t), "doctor", "broker", filepath.Join(p.theirs.dir, "server.properties"))
	cmd.Env = append(os.Environ(), "KAFKA_OPTS=-Djava.security.auth.login.config="+logins)
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"a broker can start with them", "is running and must be stopped first", "belongs to cluster ", "has "} {
		if err != nil || !strings.Contains(string(out), want) {
			r.t.Errorf("the doctor does not print %q: %v\n%s", want, err, out)
		}
	}
}

func (r *rolling) client(opts ...kgo.Opt) *kgo.Client {
	cl := newClient(r.t, append([]kgo.Opt{kgo.AlwaysRetryEOF(), kgo.SeedBrokers(r.addrs...), kgo.RecordRetries(1 << 30), kgo.MetadataMinAge(50 * time.Millisecond), kgo.UnknownTopicRetries(-1),
		kgo.ProduceRequestTimeout(5 * time.Second), kgo.RetryTimeout(5 * time.Minute), kgo.RequestRetries(math.MaxInt),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond })}, opts...)...)
	r.t.Cleanup(cl.Close)
	return cl
}

// settle waits until all replicas of all topics are in sync.
func (r *rolling) settle() {
	r.t.Helper()
	until(r.t, "all replicas are back in the ISR", func(ctx context.Context) bool {
		topics, err := r.admin.ListTopicsWithInternal(ctx)
		if err != nil {
			return false
		}
		for _, topic := range topics {
			for _, p := range topic.Partitions {
				if p.Err != nil || len(p.ISR) != 3 {
					return false
				}
			}
		}
		return len(topics) >= 2
	})
}

// commit lets a simple consumer commit increasing offsets, and fetch them: an acknowledged offset does not go back.
func (r *rolling) commit(ctx context.Context) {
	admin := kadm.NewClient(r.client())
	var last int64
	for at := int64(1); ctx.Err() == nil; at++ {
		var offsets kadm.Offsets
		offsets.AddOffset("t", 0, at, -1)
		if err := admin.CommitAllOffsets(ctx, "group", offsets); err != nil {
			if ctx.Err() == nil {
				r.t.Logf("commit %d: %v", at, err)
			}
			continue
		}
		last = at
		if at%20 == 0 {
			found, err := admin.FetchOffsets(ctx, "group")
			if err != nil {
				continue
			}
			if o, _ := found.Lookup("t", 0); o.At < last {
				r.t.Errorf("the committed offset is %d after %d was acknowledged", o.At, last)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Logf("%d commits", last)
}

// transact commits transactions of four records each, and returns the names of those that were acknowledged. A client
// that cannot continue, for example after it requested its next epoch from Apache Kafka within a transaction, is
// replaced by a new one, as applications do.
func (r *rolling) transact(ctx context.Context) (committed []string) {
	const enough = 5
	next := 0
	for range enough {
		cl := r.client(kgo.TransactionalID("rolling"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(30*time.Second))
		err := r.transactWith(ctx, cl, &next, &committed)
		cl.Close()
		if err == nil {
			return committed
		}
		r.t.Logf("a producer gives up: %v", err)
	}
	r.t.Errorf("%d producers gave up", enough)
	return committed
}

// transactWith continues with the transaction next. It ends with ctx, or with the error of a client that cannot
// continue.
func (r *rolling) transactWith(ctx context.Context, cl *kgo.Client, next *int, committed *[]string) error {
	for ; ctx.Err() == nil; *next++ {
		name := fmt.Sprintf("%06d", *next)
		if err := cl.BeginTransaction(); err != nil {
			return fmt.Errorf("begin %s: %w", name, err)
		}
		var records []*kgo.Record
		for p := range chaosPartitions {
			records = append(records, &kgo.Record{Topic: "txn", Partition: int32(p), Value: []byte(name)})
		}
		err := cl.ProduceSync(context.Background(), records...).FirstErr()
		if err != nil {
			r.t.Logf("transaction %s: %v", name, err)
		}
		if endErr := cl.EndTransaction(context.Background(), kgo.TransactionEndTry(err == nil)); endErr != nil {
			*next++ // it is unknown whether it was committed
			return fmt.Errorf("end %s: %w", name, endErr)
		}
		if err == nil {
			*committed = append(*committed, name)
		}
	}
	return nil
}

func (r *rolling) checkTransactions(committed []string) {
	cl := r.client(kgo.ConsumeTopics("txn"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := make(map[string]int)
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	for left := len(committed) * chaosPartitions; left > 0 && ctx.Err() == nil; {
		cl.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			name := string(rec.Value)
			got[name]++
			if slices.Contains(committed, name) { // except one whose end was not acknowledged
				left--
			}
		})
	}
	for _, name := range committed {
		if got[name] != chaosPartitions {
			r.t.Errorf("transaction %s: %d records", name, got[name])
		}
	}
}
