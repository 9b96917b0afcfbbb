package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const chaosPartitions = 4

// TestChaos produces with acks=all, min.insync.replicas=2 and an idempotent producer while brokers are killed, paused
// for longer than their session, disconnected from ZooKeeper, and restarted one by one and all at once. In the end
// every acknowledged record is there, once and in order, no consumer has ever seen another record at an offset, and the
// replicas are identical. CHAOS_SECONDS makes it longer, CHAOS_SEED repeats a run's choices.
func TestChaos(t *testing.T) {
	seconds, seed := chaosSettings(25)
	t.Logf("seed %d", seed)
	zk := zookeeper(t)
	var brokers []*process
	var lines []*proxy
	var addrs []string
	for id := range 3 {
		line := newProxy(t, zk)
		lines = append(lines, line)
		p := newProcess(t, id, line.addr(), "min.insync.replicas=2", "replica.lag.time.max.ms=3000", "log.segment.bytes=1000000",
			"controlled.shutdown.retry.backoff.ms=100", "offsets.topic.replication.factor=3")
		p.start()
		brokers, addrs = append(brokers, p), append(addrs, p.addr())
	}
	cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(20000),
		kgo.RecordRetries(1<<30), kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.ProduceRequestTimeout(5*time.Second), kgo.RetryTimeout(5*time.Minute))
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), chaosPartitions, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	reading, stop := context.WithCancel(t.Context())
	defer stop()
	var seen [chaosPartitions]map[int64]string
	var reader sync.WaitGroup
	reader.Go(func() { seen = readDuring(t, reading, addrs) })
	acked := produceDuring(t, cl, func() {
		disturb(t, brokers, lines, rand.New(rand.NewPCG(seed, 0)), time.Duration(seconds)*time.Second)
	})
	stop()
	reader.Wait()
	total := 0
	for partition, want := range acked {
		checkPartition(t, addrs, int32(partition), want, seen[partition])
		total += len(want)
	}
	awaitInSync(t, cl)
	for _, b := range brokers {
		b.stop()
	}
	for partition := range chaosPartitions {
		compareReplicas(t, brokers, partition)
	}
	t.Logf("%d records were acknowledged", total)
}

// chaosSettings returns for how many seconds faults are injected, and the seed: CHAOS_SECONDS and CHAOS_SEED, or else
// the given seconds and a random seed.
func chaosSettings(seconds int) (int, uint64) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.Atoi(os.Getenv("CHAOS_SECONDS")); err == nil {
		seconds = s
	}
	if s, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64); err == nil {
		seed = s
	}
	return seconds, seed
}

// produceDuring produces numbered records until f returns, and returns those that were acknowledged, by partition.
func produceDuring(t *testing.T, cl *kgo.Client, f func()) [chaosPartitions][]int {
	t.Helper()
	var mu sync.Mutex
	var acked [chaosPartitions][]int
	ctx, stop := context.WithCancel(t.Context())
	var producing sync.WaitGroup
	producing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			r := &kgo.Record{Topic: "t", Partition: int32(i % chaosPartitions), Value: fmt.Appendf(nil, "%09d", i)}
			cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
				if err != nil {
					if !t.Failed() { // otherwise the client may just have been closed
						t.Errorf("record %s: %v", r.Value, err)
					}
					return
				}
				n, _ := strconv.Atoi(string(r.Value))
				mu.Lock()
				acked[r.Partition] = append(acked[r.Partition], n)
				mu.Unlock()
			})
			if i%20 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	f()
	stop()
	producing.Wait()
	flushing, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := cl.Flush(flushing); err != nil {
		t.Fatalf("not all records were acknowledged in the end: %v", err)
	}
	return acked
}

// readDuring reads until ctx ends, and returns what it saw at each offset, by partition.
func readDuring(t *testing.T, ctx context.Context, addrs []string) (seen [chaosPartitions]map[int64]string) {
	t.Helper()
	for p := range seen {
		seen[p] = make(map[int64]string)
	}
	cl, err := kgo.NewClient(kgo.AlwaysRetryEOF(), kgo.SeedBrokers(addrs...), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Error(err)
		return seen
	}
	defer cl.Close()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			var lost *kgo.ErrDataLoss
			if errors.As(err, &lost) {
				t.Errorf("a consumer of %s-%d: %v", topic, partition, err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			if other, again := seen[r.Partition][r.Offset]; again && other != string(r.Value) {
				t.Errorf("partition %d, offset %d: record %s, was %s", r.Partition, r.Offset, r.Value, other)
			}
			seen[r.Partition][r.Offset] = string(r.Value)
		})
	}
	return seen
}

// disturb injects one fault after the other, and heals each.
func disturb(t *testing.T, brokers []*process, lines []*proxy, random *rand.Rand, during time.Duration) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); {
		at := random.IntN(len(brokers))
		b := brokers[at]
		switch harm := random.IntN(12); {
		case harm < 4:
			t.Logf("kill %d", b.port)
			b.kill()
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			b.start()
		case harm < 6:
			t.Logf("pause %d", b.port)
			_ = b.cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(500+random.IntN(4000)) * time.Millisecond) // the session timeout is 2 s
			_ = b.cmd.Process.Signal(syscall.SIGCONT)
		case harm < 8:
			t.Logf("cut %d from ZooKeeper", b.port)
			lines[at].sever(true)
			time.Sleep(time.Duration(500+random.IntN(4000)) * time.Millisecond)
			lines[at].sever(false)
		case harm < 11:
			t.Logf("restart %d", b.port)
			b.stop()
			b.start()
		default:
			t.Log("kill all")
			for _, b := range brokers {
				b.kill()
			}
			for _, b := range brokers {
				b.start()
			}
		}
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
}

// checkPartition checks that every acknowledged record is there once and in order, and that what was seen at an offset
// is still there.
func checkPartition(t *testing.T, addrs []string, partition int32, acked []int, seen map[int64]string) {
	t.Helper()
	var got []int
	all := readAll(t, addrs[0], "t", partition)
	for offset, value := range seen {
		if offset >= int64(len(all)) || all[offset] != value {
			t.Fatalf("partition %d, offset %d: a consumer saw record %s, which does not exist", partition, offset, value)
		}
	}
	for _, value := range all {
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > 0 && n <= got[len(got)-1] {
			t.Fatalf("partition %d: record %d after %d", partition, n, got[len(got)-1])
		}
		got = append(got, n)
	}
	for _, n := range acked {
		if _, ok := slices.BinarySearch(got, n); !ok {
			t.Fatalf("partition %d: acknowledged record %d is missing", partition, n)
		}
	}
}

func awaitInSync(t *testing.T, cl *kgo.Client) {
	t.Helper()
	until(t, "all replicas are back in the ISR", func(ctx context.Context) bool {
		topics, err := kadm.NewClient(cl).ListTopics(ctx, "t")
		inSync := err == nil
		for _, p := range topics["t"].Partitions {
			inSync = inSync && len(p.ISR) == 3
		}
		return inSync
	})
}

// compareReplicas checks that all brokers have the same batches, wherever their segments end.
func compareReplicas(t *testing.T, brokers []*process, partition int) {
	t.Helper()
	var first []byte
	for i, b := range brokers {
		files, err := filepath.Glob(filepath.Join(b.logDir(), fmt.Sprintf("t-%d", partition), "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(files)
		var log []byte
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			log = append(log, data...)
		}
		if i == 0 {
			first = log
			continue
		}
		if !slices.Equal(first, log) {
			t.Errorf("partition %d: brokers 0 and %d differ: %s", partition, i, firstDifference(first, log))
		}
	}
}

func firstDifference(a, b []byte) string {
	x, y := record.Split(a), record.Split(b)
	for x.Next() && y.Next() {
		if !slices.Equal(x.Batch(), y.Batch()) {
			return fmt.Sprintf("at offsets %d and %d", x.Batch().BaseOffset(), y.Batch().BaseOffset())
		}
	}
	return fmt.Sprintf("%d and %d bytes", len(a), len(b))
}
