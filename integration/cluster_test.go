package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testport"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// trio is three brokers, each with a connection to ZooKeeper that can be cut.
type trio struct {
	t       *testing.T
	brokers []*process
	lines   []*proxy
	metrics []string // addresses of the metrics listeners
}

func newTrio(t *testing.T, settings ...string) *trio {
	t.Helper()
	c := &trio{t: t}
	server := zookeeper(t)
	for id := range 3 {
		line := newProxy(t, server)
		metrics := testport.Address(t)
		b := newProcess(t, id, line.addr(), append([]string{"metrics.listener=" + metrics, "replica.lag.time.max.ms=3000",
			"controlled.shutdown.retry.backoff.ms=100", "auto.leader.rebalance.enable=false"}, settings...)...)
		b.start()
		c.brokers, c.lines, c.metrics = append(c.brokers, b), append(c.lines, line), append(c.metrics, metrics)
	}
	return c
}

func (c *trio) addrs() []string {
	var all []string
	for _, b := range c.brokers {
		all = append(all, b.addr())
	}
	return all
}

// topic creates topic t with one partition on the given brokers, the first of which leads.
func (c *trio) topic(settings map[string]string, replicas ...int32) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", -1, -1
	topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: replicas}}
	for key, value := range settings {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: &value})
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(c.t.Context(), c.client())
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *trio) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl := newClient(c.t, append([]kgo.Opt{kgo.AlwaysRetryEOF(), kgo.SeedBrokers(c.addrs()...), kgo.MetadataMinAge(50 * time.Millisecond), kgo.UnknownTopicRetries(-1)}, opts...)...)
	c.t.Cleanup(cl.Close)
	return cl
}

// seenBy returns partition 0 of t as a broker's metadata has it.
func (c *trio) seenBy(broker int) kmsg.MetadataResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	name := "t"
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	resp := dialWire(c.t, c.brokers[broker].addr()).call(req).(*kmsg.MetadataResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return kmsg.MetadataResponseTopicPartition{Leader: -1}
	}
	return resp.Topics[0].Partitions[0]
}

func (c *trio) until(what string, holds func() bool) {
	c.t.Helper()
	until(c.t, what, func(context.Context) bool { return holds() })
}

// produce sends one record to a broker and returns the error code.
func (c *trio) produce(broker int, acks int16, value string) int16 {
	c.t.Helper()
	req := producing(9, "t", batch(value).MustBuild())
	req.Acks, req.TimeoutMillis = acks, 2000
	return dialWire(c.t, c.brokers[broker].addr()).call(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
}

// must produces to the partition's leader with acks=all.
func (c *trio) must(broker int, value string) {
	c.t.Helper()
	c.until("a record is taken", func() bool { return c.produce(broker, -1, value) == 0 })
}

func (c *trio) metric(broker int, name string) float64 {
	c.t.Helper()
	_, page := scrape(c.t, c.metrics[broker], "/metrics")
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				c.t.Fatal(err)
			}
			return v
		}
	}
	c.t.Fatalf("%s is not served", name)
	return 0
}

// outOfSync leaves one replica of t behind: broker 1 misses records that broker 0 accepts, and then broker 0 is taken
// away.
func (c *trio) outOfSync(gone func()) {
	c.t.Helper()
	c.topic(map[string]string{"min.insync.replicas": "1"}, 0, 1)
	c.must(0, "both")
	c.brokers[1].kill()
	c.until("broker 1 is out of sync", func() bool { return len(c.seenBy(0).ISR) == 1 })
	c.must(0, "one alone")
	gone()
	c.brokers[1].start()
	c.until("there is no leader", func() bool { p := c.seenBy(2); return p.Leader == -1 })
}

// TestNoUncleanElection: while only an out-of-sync replica is alive, the partition is offline, and then comes back
// complete.
func TestNoUncleanElection(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	c.outOfSync(c.brokers[0].kill)
	if code := c.produce(1, 1, "refused"); code == 0 {
		t.Error("an out-of-sync replica accepts records")
	}
	c.brokers[0].start()
	c.until("broker 0 leads again", func() bool { return c.seenBy(2).Leader == 0 })
	c.until("both are in sync", func() bool { return len(c.seenBy(2).ISR) == 2 })
	if got := readAll(t, c.brokers[2].addr(), "t", 0); !slices.Equal(got, []string{"both", "one alone"}) {
		t.Errorf("the log contains %q", got)
	}
}

// TestUncleanElection enables unclean elections while there is no leader: the partition accepts records again, and lost
// records are logged and counted.
func TestUncleanElection(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	c.outOfSync(func() { c.lines[0].sever(true) })
	yes := "true"
	alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "unclean.leader.election.enable", Value: &yes}}
	if _, err := kadm.NewClient(c.client()).AlterTopicConfigs(t.Context(), alter, "t"); err != nil {
		t.Fatal(err)
	}
	c.until("broker 1 leads", func() bool { return c.seenBy(2).Leader == 1 })
	c.must(1, "another")
	elections := c.metric(1, "kafka_controller_controllerstats_uncleanleaderelections_total") +
		c.metric(2, "kafka_controller_controllerstats_uncleanleaderelections_total")
	if elections != 1 {
		t.Errorf("%v unclean elections were counted", elections)
	}
	c.lines[0].sever(false)
	c.until("both are in sync", func() bool { return len(c.seenBy(2).ISR) == 2 })
	if got := readAll(t, c.brokers[2].addr(), "t", 0); !slices.Equal(got, []string{"both", "another"}) {
		t.Errorf("the log contains %q", got)
	}
	if !strings.Contains(c.brokers[0].log(), "acknowledged records are lost") {
		t.Error("the loss is not logged")
	}
	if lost := c.metric(0, "barnabas_records_lost_total"); lost != 1 {
		t.Errorf("%v lost records were counted", lost)
	}
}

// TestLeaderCutFromZooKeeper: a leader that clients can still reach acknowledges nothing with acks=all after its
// session has expired, and becomes a follower when it is connected again.
func TestLeaderCutFromZooKeeper(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	c.topic(map[string]string{"min.insync.replicas": "1"}, 0, 1, 2)
	c.must(0, "before")
	want := []string{"before"}
	c.lines[0].sever(true)
	c.until("another leads", func() bool { return c.seenBy(1).Leader > 0 && c.seenBy(2).Leader > 0 })
	for i := range 3 { // two seconds each: together longer than replica.lag.time.max.ms
		if value := fmt.Sprint("zombie ", i); c.produce(0, -1, value) == 0 {
			want = append(want, value) // then it must be there in the end
		}
	}
	leader := int(c.seenBy(1).Leader)
	c.must(leader, "after")
	want = append(want, "after")
	c.lines[0].sever(false)
	c.until("the old leader follows", func() bool { return len(c.seenBy(leader).ISR) == 3 })
	c.until("it knows", func() bool { return int(c.seenBy(0).Leader) == leader })
	if code := c.produce(0, 1, "refused"); code != kerr.NotLeaderForPartition.Code {
		t.Errorf("the old leader returns error %d to a producer", code)
	}
	if got := readAll(t, c.brokers[leader].addr(), "t", 0); !slices.Equal(got, want) {
		t.Errorf("acknowledged were %q, the log has %q", want, got)
	}
}

// TestPausedLeader pauses a leader until its session has expired: records sent meanwhile and after it resumes are
// acknowledged only if they are kept.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	c.topic(map[string]string{"min.insync.replicas": "1"}, 0, 1, 2)
	c.must(0, "before")
	_ = c.brokers[0].cmd.Process.Signal(syscall.SIGSTOP)
	c.until("another leads", func() bool { return c.seenBy(1).Leader > 0 })
	leader := int(c.seenBy(1).Leader)
	c.must(leader, "after")
	want := []string{"before", "after"}
	codes := make(chan int16, 1)
	go func() { codes <- c.produce(0, -1, "to the old leader") }()
	time.Sleep(100 * time.Millisecond) // the request waits in its socket
	_ = c.brokers[0].cmd.Process.Signal(syscall.SIGCONT)
	if code := <-codes; code == 0 {
		t.Error("a paused leader acknowledges records that its successor does not have")
	}
	c.until("all are in sync", func() bool { return len(c.seenBy(leader).ISR) == 3 })
	if got := readAll(t, c.brokers[leader].addr(), "t", 0); !slices.Equal(got, want) {
		t.Errorf("acknowledged were %q, the log has %q", want, got)
	}
}

// TestPausedController: a controller that was paused cannot undo what its successor has done.
func TestPausedController(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	c.topic(nil, 1, 2, 0)
	old := 0
	c.until("there is a controller", func() bool {
		for id := range c.brokers {
			if c.metric(id, "kafka_controller_kafkacontroller_activecontrollercount") == 1 {
				old = id
				return true
			}
		}
		return false
	})
	_ = c.brokers[old].cmd.Process.Signal(syscall.SIGSTOP)
	next := -1
	c.until("there is a successor", func() bool {
		for id := range c.brokers {
			if id != old && c.metric(id, "kafka_controller_kafkacontroller_activecontrollercount") == 1 {
				next = id
			}
		}
		return next >= 0
	})
	other := 3 - old - next
	c.until("the old one is out of the ISR", func() bool { return !slices.Contains(c.seenBy(next).ISR, int32(old)) })
	before := c.seenBy(next)
	_ = c.brokers[old].cmd.Process.Signal(syscall.SIGCONT)
	c.until("all are in sync", func() bool { return len(c.seenBy(next).ISR) == 3 })
	for id, active := range map[int]float64{old: 0, next: 1, other: 0} {
		c.until(fmt.Sprintf("broker %d: active %v", id, active), func() bool {
			return c.metric(id, "kafka_controller_kafkacontroller_activecontrollercount") == active
		})
	}
	if after := c.seenBy(next); after.Leader != before.Leader || after.LeaderEpoch < before.LeaderEpoch {
		t.Errorf("leader %d in epoch %d became %d in %d", before.Leader, before.LeaderEpoch, after.Leader, after.LeaderEpoch)
	}
	c.must(int(before.Leader), "goes on")
}

// TestRollingRestart: no record is lost, and clients get no errors that they do not retry by themselves.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := newTrio(t, "min.insync.replicas=2", "offsets.topic.replication.factor=3")
	if _, err := kadm.NewClient(c.client()).CreateTopic(t.Context(), 6, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	producer := c.client(kgo.RecordDeliveryTimeout(30 * time.Second))
	consumer := c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, stop := context.WithCancel(t.Context())
	var producing sync.WaitGroup
	var sent atomicCount
	producing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			producer.Produce(context.Background(), &kgo.Record{Topic: "t", Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("a producer gets the error %v", err)
				}
				sent.add()
			})
			time.Sleep(time.Millisecond)
		}
	})
	for _, b := range c.brokers {
		b.stop()
		b.start()
		time.Sleep(time.Second)
	}
	stop()
	producing.Wait()
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	c.until("the group has read everything", func() bool {
		polling, done := context.WithTimeout(t.Context(), time.Second)
		defer done()
		fetches := consumer.PollFetches(polling)
		fetches.EachError(func(_ string, _ int32, err error) {
			if session := new(kgo.ErrGroupSession); polling.Err() == nil && !errors.As(err, &session) { // the client rejoins by itself
				t.Errorf("a consumer gets the error %v", err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			if seen[string(r.Value)] {
				t.Errorf("record %s was read twice", r.Value)
			}
			seen[string(r.Value)] = true
		})
		return len(seen) >= sent.get()
	})
}

type atomicCount struct {
	mu sync.Mutex
	n  int
}

func (c *atomicCount) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *atomicCount) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
