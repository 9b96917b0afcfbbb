package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// benched is a broker, ours or Apache Kafka's, that is measured from outside.
type benched interface {
	addr() string
	pid() int
	start()
	stop()
	kill()
}

// onBothKinds runs a benchmark with our broker and with Apache Kafka, under two names.
func onBothKinds(b *testing.B, run func(b *testing.B, broker benched, logDir string), settings ...string) {
	b.Helper()
	b.Run("barnabas", func(b *testing.B) {
		p := newProcess(b, 1, zookeeper(b), settings...)
		run(b, p, p.logDir())
	})
	b.Run("apache-kafka", func(b *testing.B) {
		p := newPeer(b, 1, zookeeper(b), settings...)
		run(b, p, filepath.Join(p.dir, "data"))
	})
}

// benchPatience limits the waits in these benchmarks.
const benchPatience = 5 * time.Minute

// waitFor checks repeatedly until something is so.
func waitFor(b *testing.B, what string, so func(context.Context) bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), benchPatience)
	defer cancel()
	for !so(ctx) {
		if ctx.Err() != nil {
			b.Fatalf("%s: not within %v", what, benchPatience)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// benchClient returns a new client, which has not cached that a broker was unavailable.
func benchClient(b *testing.B, addr string, opts ...kgo.Opt) (*kgo.Client, *kadm.Client) {
	b.Helper()
	cl := newClient(b, append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.DefaultProduceTopic("t"), kgo.DisableIdempotentWrite()}, opts...)...)
	b.Cleanup(cl.Close)
	return cl, kadm.NewClient(cl)
}

// served reports whether clients get the end offsets of all partitions of a topic.
func served(ctx context.Context, addr, topic string, partitions int) bool {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return false
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	return err == nil && ends.Error() == nil && len(ends[topic]) == partitions
}

// fillTopic writes values to partition 0 of topic t in batches of 16 KiB, with keys that occur four times each on
// average, and returns the total size of the values.
func fillTopic(b *testing.B, addr string, size, count int) (bytes int64) {
	b.Helper()
	cl, _ := benchClient(b, addr, kgo.ProducerBatchMaxBytes(16<<10)) // the Java client's batch.size
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range count {
		r := &kgo.Record{Key: strconv.AppendInt(nil, rng.Int64N(int64(count/4)), 10), Value: make([]byte, size)}
		for at := range r.Value {
			r.Value[at] = byte(i + at)
		}
		bytes += int64(len(r.Key) + len(r.Value))
		cl.Produce(b.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := cl.Flush(b.Context()); err != nil || b.Failed() {
		b.Fatal(err)
	}
	return bytes
}

// BenchmarkCompaction fills a topic, enables its compaction, and reports how long it takes and how much CPU the broker
// needs.
func BenchmarkCompaction(b *testing.B) {
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprintf("records=%d", size), func(b *testing.B) {
			onBothKinds(b, func(b *testing.B, p benched, logDir string) {
				p.start()
				for range b.N {
					benchmarkCompaction(b, p, logDir, size)
				}
			}, "log.cleaner.backoff.ms=100", "log.retention.check.interval.ms=600000")
		})
	}
}

func benchmarkCompaction(b *testing.B, p benched, logDir string, size int) {
	_, adm := benchClient(b, p.addr())
	_, _ = adm.DeleteTopics(b.Context(), "t")
	waitFor(b, "a new topic", func(ctx context.Context) bool {
		_, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{"segment.bytes": kadm.StringPtr("67108864")}, "t")
		return err == nil
	})
	bytes := fillTopic(b, p.addr(), size, (400<<20)/(size+7))
	began, used := time.Now(), processSeconds(b, p.pid())
	resp, err := adm.AlterTopicConfigs(b.Context(), []kadm.AlterConfig{{Name: "cleanup.policy", Value: kadm.StringPtr("compact")}}, "t")
	if err != nil || resp[0].Err != nil {
		b.Fatal(err, resp)
	}
	waitFor(b, "compaction", func(context.Context) bool {
		text, err := os.ReadFile(filepath.Join(logDir, "cleaner-offset-checkpoint"))
		return err == nil && strings.Contains(string(text), "\nt 0 ")
	})
	took := time.Since(began)
	b.ReportMetric(0, "ns/op") // it would include the filling
	b.ReportMetric(float64(bytes)/(1<<20)/took.Seconds(), "MiB/s")
	b.ReportMetric(took.Seconds(), "s")
	b.ReportMetric(processSeconds(b, p.pid())-used, "cpu-s")
}

// BenchmarkRecovery kills a broker with a segment of about 1.9 GiB that was never flushed, and reports after which time
// from its start the partition is available; for comparison also after a clean stop, which includes what starting a
// process costs.
func BenchmarkRecovery(b *testing.B) {
	onBothKinds(b, func(b *testing.B, p benched, _ string) {
		p.start()
		_, adm := benchClient(b, p.addr())
		if _, err := adm.CreateTopic(b.Context(), 1, 1, map[string]*string{"segment.bytes": kadm.StringPtr("2147483647")}, "t"); err != nil {
			b.Fatal(err)
		}
		fillTopic(b, p.addr(), 1000, 1_950_000)
		startAgain := func() float64 {
			began := time.Now()
			p.start()
			waitFor(b, "the partition", func(ctx context.Context) bool { return served(ctx, p.addr(), "t", 1) })
			return time.Since(began).Seconds()
		}
		var killed, stopped float64
		for range b.N {
			p.kill()
			time.Sleep(3 * time.Second) // until its ZooKeeper session has expired
			killed += startAgain()
			p.stop()
			stopped += startAgain()
			fillTopic(b, p.addr(), 1000, 10) // recovered records count as flushed only after a clean stop
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(killed/float64(b.N), "s-after-kill")
		b.ReportMetric(stopped/float64(b.N), "s-after-stop")
	}, "log.flush.offset.checkpoint.interval.ms=86400000", "zookeeper.session.timeout.ms=1000")
}

// Ten topics of a thousand partitions.
const (
	manyTopics        = 10
	partitionsOfTopic = 1000
)

// BenchmarkTenThousandPartitions reports, for a broker with 10,000 empty partitions after a clean stop, the time from
// its start until all are available, its memory, its open files, and its CPU usage while idle. Both kinds of broker
// open the same directories.
func BenchmarkTenThousandPartitions(b *testing.B) {
	zk := zookeeper(b)
	ours := newProcess(b, 1, zk)
	ours.start()
	_, adm := benchClient(b, ours.addr())
	for i := range manyTopics {
		if _, err := adm.CreateTopic(b.Context(), partitionsOfTopic, 1, nil, fmt.Sprint("many-", i)); err != nil {
			b.Fatal(err)
		}
	}
	ours.stop()
	b.Run("barnabas", func(b *testing.B) { benchmarkMany(b, ours) })
	b.Run("apache-kafka", func(b *testing.B) { benchmarkMany(b, newPeer(b, 1, zk, "log.dirs="+ours.logDir())) })
}

func benchmarkMany(b *testing.B, p benched) {
	const idle = 20 * time.Second
	var start, cpu, files, resident float64
	for range b.N {
		began := time.Now()
		p.start()
		for i := range manyTopics {
			topic := fmt.Sprint("many-", i)
			waitFor(b, topic, func(ctx context.Context) bool { return served(ctx, p.addr(), topic, partitionsOfTopic) })
		}
		start += time.Since(began).Seconds()
		time.Sleep(10 * time.Second) // background work after a start
		used := processSeconds(b, p.pid())
		time.Sleep(idle)
		cpu += (processSeconds(b, p.pid()) - used) / idle.Seconds()
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
		if err != nil {
			b.Fatal(err)
		}
		files += float64(len(open))
		resident += float64(residentBytes(b, p.pid())) / (1 << 20)
		p.stop()
	}
	n := float64(b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(start/n, "s-to-served")
	b.ReportMetric(resident/n, "MiB-resident")
	b.ReportMetric(files/n, "open-files")
	b.ReportMetric(cpu/n*100, "%-of-a-core-idle")
}
