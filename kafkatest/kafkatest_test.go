package kafkatest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"barnabas/internal/testport"
	"barnabas/internal/testwait"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func client(t testing.TB, c *kafkatest.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.Addrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func produce(t *testing.T, cl *kgo.Client, topic string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "value %d", i)}).FirstErr(); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
}

func consume(t *testing.T, c *kafkatest.Cluster, topic string, want int) {
	t.Helper()
	cl := client(t, c, kgo.ConsumeTopics(topic))
	for got := 0; got < want; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if value := fmt.Sprintf("value %d", got); string(r.Value) != value || r.Offset != int64(got) {
				t.Fatalf("record %d is %q at offset %d", got, r.Value, r.Offset)
			}
			got++
		})
	}
}

func TestOneBrokerKeepsItsDataOverARestart(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	produce(t, client(t, c, kgo.AllowAutoTopicCreation()), "t", 0, 50)
	consume(t, c, "t", 50)
	c.Broker(0).Stop()
	if err := c.Broker(0).Start(); err != nil {
		t.Fatal(err)
	}
	produce(t, client(t, c), "t", 50, 60)
	consume(t, c, "t", 60)
}

// TestDirectoriesAreThoseOfTheTest: whatever the test's name is, the broker's directory is where LogDir says, and goes with
// the test.
func TestDirectoriesAreThoseOfTheTest(t *testing.T) {
	t.Parallel()
	dir := ""
	t.Run("with commas, blanks ${x:y}", func(t *testing.T) {
		dir = kafkatest.Run(t).Broker(0).LogDir()
		if _, err := os.Stat(filepath.Join(dir, "meta.properties")); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the test: %v", err)
	}
}

// TestBrokerBehindAProxy: what a broker advertises is not its own address.
func TestBrokerBehindAProxy(t *testing.T) {
	t.Parallel()
	b := kafkatest.Run(t, kafkatest.Setting("advertised.listeners", "PLAINTEXT://"+testport.Address(t))).Broker(0)
	addr := b.Addr()
	for range 2 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		b.Stop()
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		if b.Addr() != addr {
			t.Errorf("%s is now %s", addr, b.Addr())
		}
	}
}

// TestBrokerWithoutItsDirectoryStops: as its process would, and it can be started again.
func TestBrokerWithoutItsDirectoryStops(t *testing.T) {
	t.Parallel()
	b := kafkatest.Run(t).Broker(0)
	if err := errors.Join(os.RemoveAll(b.LogDir()), os.WriteFile(b.LogDir(), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	_, _ = kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "t")
	testwait.Until(t, "the broker is stopped", func() bool { return b.Listener("PLAINTEXT") == "" })
	if err := errors.Join(os.Remove(b.LogDir()), b.Start()); err != nil {
		t.Fatal(err)
	}
}

// TestStartAndStopFromManyGoroutines: a broker runs once at most, and not beyond the end of its test.
func TestStartAndStopFromManyGoroutines(t *testing.T) {
	t.Parallel()
	var b *kafkatest.Broker
	var others sync.WaitGroup
	t.Run("test", func(t *testing.T) {
		b = kafkatest.Run(t, kafkatest.Logs()).Broker(0)
		if err := b.Start(); err == nil {
			t.Error("a running broker was started")
		}
		for range 4 {
			others.Go(func() {
				for range 3 {
					b.Stop()
					_, _ = b.Start(), b.Listener("PLAINTEXT")
				}
			})
		}
	})
	others.Wait()
	if err := b.Start(); err == nil {
		t.Error("a broker was started after its test")
	}
	if addr := b.Listener("PLAINTEXT"); addr != "" {
		t.Errorf("a stopped broker has a listener at %s", addr)
	}
}

func TestThreeBrokersReplicateAndFailOver(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(3), kafkatest.Setting("min.insync.replicas", "2"))
	cl := client(t, c)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 1, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, "t", 0, 100)
	leader := leaderOf(t, adm, "t")
	c.Broker(int(leader)).Stop()
	produce(t, cl, "t", 100, 200)
	if now := leaderOf(t, adm, "t"); now == leader {
		t.Fatalf("broker %d is still the leader after it was stopped", leader)
	}
	consume(t, c, "t", 200)
}

func leaderOf(t *testing.T, adm *kadm.Client, topic string) int32 {
	t.Helper()
	topics, err := adm.ListTopics(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return topics[topic].Partitions[0].Leader
}

// get requests a page from a broker's HTTP listener.
func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
