package integration

import (
	"context"
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

// TestChaos produces with acks=all, min.insync.replicas=2 and an idempotent producer while brokers are killed, paused past
// their session, restarted in turn and all at once. In the end every acknowledged record is there, once and in order, and the
// replicas are the same bytes. CHAOS_SECONDS makes it longer, CHAOS_SEED repeats a run's choices.
func TestChaos(t *testing.T) {
	seconds, seed := 25, uint64(time.Now().UnixNano())
	if s, err := strconv.Atoi(os.Getenv("CHAOS_SECONDS")); err == nil {
		seconds = s
	}
	if s, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d", seed)
	zk := zookeeper(t)
	var brokers []*process
	var addrs []string
	for id := range 3 {
		p := newProcess(t, id, zk, "min.insync.replicas=2", "replica.lag.time.max.ms=3000", "log.segment.bytes=1000000",
			"controlled.shutdown.retry.backoff.ms=100", "offsets.topic.replication.factor=3")
		p.start()
		brokers, addrs = append(brokers, p), append(addrs, p.addr())
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(20000),
		kgo.RecordRetries(1<<30), kgo.MetadataMinAge(50*time.Millisecond), kgo.ProduceRequestTimeout(5*time.Second), kgo.RetryTimeout(5*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), chaosPartitions, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	acked := produceDuring(t, cl, func() { disturb(t, brokers, rand.New(rand.NewPCG(seed, 0)), time.Duration(seconds)*time.Second) })
	total := 0
	for partition, want := range acked {
		checkPartition(t, addrs, int32(partition), want)
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

// produceDuring produces numbered records until f is done, and gives those that were acknowledged, by partition.
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
					t.Errorf("record %s: %v", r.Value, err)
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
		t.Fatalf("not everything was acknowledged in the end: %v", err)
	}
	return acked
}

// disturb does one harm after the other, and heals each.
func disturb(t *testing.T, brokers []*process, random *rand.Rand, during time.Duration) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); {
		b := brokers[random.IntN(len(brokers))]
		switch harm := random.IntN(10); {
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
		case harm < 9:
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

// checkPartition wants every acknowledged record once and in order.
func checkPartition(t *testing.T, addrs []string, partition int32, acked []int) {
	t.Helper()
	var got []int
	for _, value := range readAll(t, addrs[0], "t", partition) {
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
			t.Fatalf("partition %d: acknowledged record %d is gone", partition, n)
		}
	}
}

func awaitInSync(t *testing.T, cl *kgo.Client) {
	t.Helper()
	for range 600 {
		topics, err := kadm.NewClient(cl).ListTopics(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		inSync := true
		for _, p := range topics["t"].Partitions {
			inSync = inSync && len(p.ISR) == 3
		}
		if inSync {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("not all replicas came back into the ISR")
}

// compareReplicas wants the same batches on all brokers, wherever their segments end.
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
