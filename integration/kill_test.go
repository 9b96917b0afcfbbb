package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestAcknowledgedRecordsSurviveAKill kills the broker with SIGKILL while records are produced, several times, and
// starts it again at once. Every acknowledged record must be there, once and in order.
func TestAcknowledgedRecordsSurviveAKill(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		acks kgo.Acks
	}{{"acks=1", kgo.LeaderAck()}, {"acks=all", kgo.AllISRAcks()}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t, 0, zookeeper(t), "log.segment.bytes=100000")
			p.start()
			opts := []kgo.Opt{kgo.AlwaysRetryEOF(), kgo.SeedBrokers(p.addr()), kgo.RequiredAcks(test.acks), kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.ProducerBatchMaxBytes(20000), kgo.RecordRetries(1 << 30), kgo.MetadataMinAge(50 * time.Millisecond)}
			if test.name == "acks=1" {
				opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
			}
			cl := newClient(t, opts...)
			defer cl.Close()
			if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 2, 1, nil, "t"); err != nil {
				t.Fatal(err)
			}
			acked := produceThroughKills(t, cl, p)
			checkSurvivors(t, p, acked, test.name == "acks=all")
		})
	}
}

// produceThroughKills produces numbered records to two partitions while the broker is killed, and returns those that
// were acknowledged, by partition.
func produceThroughKills(t *testing.T, cl *kgo.Client, p *process) [2]map[string]bool {
	t.Helper()
	var mu sync.Mutex
	acked := [2]map[string]bool{{}, {}}
	ctx, stop := context.WithCancel(t.Context())
	var producing sync.WaitGroup
	producing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			partition := int32(i % 2)
			value := fmt.Sprintf("%09d%s", i, strings.Repeat("x", 100))
			cl.Produce(context.Background(), &kgo.Record{Topic: "t", Partition: partition, Value: []byte(value)}, func(r *kgo.Record, err error) {
				if err == nil {
					mu.Lock()
					acked[r.Partition][string(r.Value[:9])] = true
					mu.Unlock()
				}
			})
			if i%500 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		p.kill()
		p.start()
	}
	time.Sleep(300 * time.Millisecond)
	stop()
	producing.Wait()
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return acked
}

func checkSurvivors(t *testing.T, p *process, acked [2]map[string]bool, exactlyOnce bool) {
	t.Helper()
	for partition, want := range acked {
		if len(want) == 0 {
			t.Fatal("nothing was acknowledged")
		}
		seen, last := make(map[string]bool), ""
		for _, value := range readAll(t, p.addr(), "t", int32(partition)) {
			key := value[:9]
			if exactlyOnce && (seen[key] || key < last) {
				t.Fatalf("partition %d: record %s after %s", partition, key, last)
			}
			seen[key], last = true, key
		}
		for key := range want {
			if !seen[key] {
				t.Fatalf("partition %d: acknowledged record %s is missing", partition, key)
			}
		}
		t.Logf("partition %d: %d records acknowledged, %d there", partition, len(want), len(seen))
	}
}

// TestRestartAfterAKillReadsTheTail: what is known to be on disk is not read again.
func TestRestartAfterAKillReadsTheTail(t *testing.T) {
	t.Parallel()
	p := newProcess(t, 0, zookeeper(t), "log.segment.bytes=20000")
	p.start()
	cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(p.addr()), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	for range 40 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: make([]byte, 10000)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	checkpoint := filepath.Join(p.logDir(), "recovery-point-offset-checkpoint")
	known := 0
	await(t, "the recovery point is behind all closed segments", func(context.Context) (string, bool) {
		data, _ := os.ReadFile(checkpoint)
		if lines := strings.Split(string(data), "\n"); len(lines) > 2 {
			_, _ = fmt.Sscanf(lines[2], "t 0 %d", &known)
		}
		return string(data), known >= 35
	})
	p.kill()
	p.start()
	segments, err := filepath.Glob(filepath.Join(p.logDir(), "t-0", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(p.log(), "recovered segment"); len(segments) < 20 || n > len(segments)-known {
		t.Errorf("%d of %d segments were read again, everything below %d had been flushed", n, len(segments), known)
	}
	if values := readAll(t, p.addr(), "t", 0); len(values) != 40 {
		t.Errorf("%d records are there", len(values))
	}
}

// readAll reads a partition from its start to its end.
func readAll(t *testing.T, addr, topic string, partition int32) []string {
	t.Helper()
	cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {partition: kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	end, ok := endOffsets(t, kadm.NewClient(cl), topic).Lookup(topic, partition)
	if !ok {
		t.Fatalf("%s-%d has no end offset", topic, partition)
	}
	var values []string
	for next := int64(0); next < end.Offset; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next {
				t.Fatalf("offset %d follows %d", r.Offset, next-1)
			}
			next++
			values = append(values, string(r.Value))
		})
	}
	return values
}
