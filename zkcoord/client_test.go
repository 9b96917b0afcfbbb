package zkcoord_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/testlog"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zktest"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func plaintext(id int32, port int32) zkcoord.BrokerInfo {
	return zkcoord.BrokerInfo{
		ID:        id,
		JMXPort:   -1,
		Endpoints: []zkcoord.Endpoint{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "127.0.0.1", Port: port}},
	}
}

func TestClusterID(t *testing.T) {
	connect := zktest.Connect(t)
	a, b := zktest.Client(t, connect), zktest.Client(t, connect)
	first := must[string](t)(a.ClusterID(t.Context()))
	if second := must[string](t)(b.ClusterID(t.Context())); second != first || len(first) != 22 {
		t.Fatalf("ids %q and %q", first, second)
	}
}

func TestGenerateBrokerID(t *testing.T) {
	c := zktest.Client(t, zktest.Connect(t))
	for _, want := range []int32{1001, 1002} {
		if got := must[int32](t)(c.GenerateBrokerID(t.Context(), 1000)); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
}

// TestSilentServersBeforeAChroot: servers that accept connections but do not answer are waited for only once, although
// there are two sessions.
func TestSilentServersBeforeAChroot(t *testing.T) {
	answers, _, _ := strings.Cut(zktest.Connect(t), "/")
	var asked atomic.Int32
	servers := []string{answers}
	for range 2 {
		l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
		t.Cleanup(func() { _ = l.Close() })
		servers = append(servers, l.Addr().String())
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				asked.Add(1)
				defer func() { _ = c.Close() }()
			}
		}()
	}
	for range 5 { // the library tries the servers in random order
		asked.Store(0)
		c := must[*zkcoord.Client](t)(zkcoord.Connect(t.Context(), zkcoord.Config{Connect: strings.Join(servers, ",") + "/x", SessionTimeout: 300 * time.Millisecond,
			ConnectionTimeout: time.Minute, Logger: testlog.Quiet()}))
		c.Close()
		if n := asked.Load(); n > 2 {
			t.Errorf("%d connections to two silent servers", n)
		}
	}
}

func TestRegisterBroker(t *testing.T) {
	connect := zktest.Connect(t)
	a, b := zktest.Client(t, connect), zktest.Client(t, connect)
	epoch := must[int64](t)(a.RegisterBroker(t.Context(), plaintext(1, 9092)))

	if again := must[int64](t)(a.RegisterBroker(t.Context(), plaintext(1, 9092))); again != epoch {
		t.Fatalf("registered twice by one session: epochs %d and %d", epoch, again)
	}
	brokers := must[[]zkcoord.BrokerInfo](t)(b.Brokers(t.Context()))
	want := plaintext(1, 9092)
	want.Epoch, want.Format, want.Features = epoch, 5, map[string]zkcoord.FeatureRange{}
	if diff := cmp.Diff([]zkcoord.BrokerInfo{want}, brokers); diff != "" {
		t.Fatal(diff)
	}

	// A node left behind by an earlier session of the same broker is waited for.
	done := make(chan int64)
	go func() {
		epoch, err := b.RegisterBroker(t.Context(), plaintext(1, 9092))
		if err != nil {
			t.Error(err)
		}
		done <- epoch
	}()
	a.Close()
	if next := <-done; next <= epoch {
		t.Fatalf("epoch %d after %d", next, epoch)
	}
}

func TestTopicLifeCycle(t *testing.T) {
	ctx := t.Context()
	c := zktest.Client(t, zktest.Connect(t))
	term, won, err := c.Elect(ctx, 1)
	if err != nil || !won || term.Epoch != 1 {
		t.Fatalf("elected: %v %v %v", term, won, err)
	}
	changes := make(chan zkcoord.Change, 100)
	defer c.OnChange(func(e zkcoord.Change) { changes <- e })()
	must[[]string](t)(c.WatchTopics(ctx))

	id := must[zkcoord.ID](t)(c.CreateTopic(ctx, "t", map[int32][]int32{0: {1}, 1: {1}}, map[string]string{"retention.ms": "1"}))
	if change := <-changes; change.Kind != zkcoord.TopicsChanged {
		t.Fatalf("change %+v", change)
	}
	if _, err := c.CreateTopic(ctx, "t", map[int32][]int32{0: {1}}, nil); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Fatalf("created twice: %v", err)
	}
	topics := must[[]zkcoord.TopicInfo](t)(c.WatchTopicInfos(ctx, must[[]string](t)(c.WatchTopics(ctx))))
	want := zkcoord.TopicInfo{Name: "t", ID: id, Partitions: map[int32][]int32{0: {1}, 1: {1}},
		Adding: map[int32][]int32{}, Removing: map[int32][]int32{}}
	if diff := cmp.Diff([]zkcoord.TopicInfo{want}, topics); diff != "" {
		t.Fatal(diff)
	}
	config := must[map[string]string](t)(c.EntityConfig(ctx, zkcoord.Entity{Kind: zkcoord.Topics, Name: "t"}))
	if config["retention.ms"] != "1" {
		t.Fatalf("configuration %v", config)
	}

	ok(t, c.AddPartitions(ctx, "t", map[int32][]int32{2: {1}}))
	if change := <-changes; change != (zkcoord.Change{Kind: zkcoord.TopicChanged, Topic: "t"}) {
		t.Fatalf("change %+v", change)
	}

	tp := zkcoord.TopicPartition{Topic: "t"}
	state := zkcoord.PartitionState{Leader: 1, ISR: []int32{1}, ControllerEpoch: 1}
	create := []zkcoord.StateWrite{{Partition: tp, State: state}, {Partition: zkcoord.TopicPartition{Topic: "t", Partition: 1}, State: state}}
	for i, r := range must[[]zkcoord.WriteResult](t)(c.CreateStates(ctx, term, create)) {
		if r.Err != nil || r.State.PartitionEpoch != 0 {
			t.Fatalf("create %d: %+v", i, r)
		}
	}
	states := must[map[zkcoord.TopicPartition]zkcoord.PartitionState](t)(c.PartitionStates(ctx, []zkcoord.TopicPartition{tp, {Topic: "t", Partition: 2}}))
	if diff := cmp.Diff(map[zkcoord.TopicPartition]zkcoord.PartitionState{tp: state}, states); diff != "" {
		t.Fatal(diff)
	}

	stale := state
	stale.PartitionEpoch = 7
	next := state
	next.LeaderEpoch = 1
	results := must[[]zkcoord.WriteResult](t)(c.WriteStates(ctx, term, []zkcoord.StateWrite{{Partition: tp, State: stale},
		{Partition: zkcoord.TopicPartition{Topic: "t", Partition: 1}, State: next}}))
	if !errors.Is(results[0].Err, zkcoord.ErrConflict) || results[1].Err != nil || results[1].State.PartitionEpoch != 1 {
		t.Fatalf("results %+v", results)
	}

	ok(t, c.RequestTopicDeletion(ctx, "t"))
	ok(t, c.RequestTopicDeletion(ctx, "t"))
	ok(t, c.DeleteTopic(ctx, term, "t"))
	if left := must[[]string](t)(c.Topics(ctx)); len(left) != 0 {
		t.Fatalf("topics %v", left)
	}
	if left := must[[]string](t)(c.WatchTopicDeletions(ctx)); len(left) != 0 {
		t.Fatalf("deletions %v", left)
	}
}

func TestElection(t *testing.T) {
	ctx := t.Context()
	connect := zktest.Connect(t)
	a, b := zktest.Client(t, connect), zktest.Client(t, connect)
	first, won, err := a.Elect(ctx, 1)
	if err != nil || !won {
		t.Fatal(won, err)
	}
	if _, won, err := b.Elect(ctx, 2); err != nil || won {
		t.Fatal(won, err)
	}
	if id := must[int32](t)(b.WatchController(ctx)); id != 1 {
		t.Fatalf("controller %d", id)
	}
	gone := make(chan zkcoord.Change, 1)
	defer b.OnChange(func(e zkcoord.Change) { gone <- e })()
	ok(t, a.Resign(ctx, first))
	if e := <-gone; e.Kind != zkcoord.ControllerChanged {
		t.Fatalf("change %+v", e)
	}
	second, won, err := b.Elect(ctx, 2)
	if err != nil || !won || second.Epoch != 2 {
		t.Fatal(second, won, err)
	}
	if _, err := a.SetTopic(ctx, first, zkcoord.TopicInfo{Name: "t"}); !errors.Is(err, zkcoord.ErrDeposed) || !errors.Is(err, kerr.NotController) {
		t.Fatalf("write of a deposed controller: %v", err)
	}
	if _, err := b.SetTopic(ctx, second, zkcoord.TopicInfo{Name: "t"}); !errors.Is(err, zkcoord.ErrNoTopic) {
		t.Fatalf("write of a missing topic: %v", err)
	}
}

// to replaces all settings.
func to(settings map[string]string) func(map[string]string) (map[string]string, error) {
	return func(map[string]string) (map[string]string, error) { return settings, nil }
}

func TestConfigChanges(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	connect := zktest.Connect(t)
	a, b := zktest.Client(t, connect), zktest.Client(t, connect)
	if _, won, err := a.Elect(ctx, 1); err != nil || !won {
		t.Fatal(won, err)
	}
	alice := zkcoord.UserClient("alice", zkcoord.DefaultEntity)
	quota := map[string]string{"producer_byte_rate": "1024"}
	ok(t, a.UpdateEntityConfig(ctx, alice, to(quota)))

	got, ready, done := make(chan zkcoord.Entity, 10), make(chan struct{}), make(chan error)
	go func() {
		done <- b.WatchConfigChanges(ctx, func() { close(ready) }, func(e zkcoord.Entity) { got <- e }, func() {})
	}()
	<-ready
	topic := zkcoord.Entity{Kind: zkcoord.Topics, Name: "t"}
	ok(t, a.UpdateEntityConfig(ctx, topic, to(map[string]string{"a": "b"})))
	for _, want := range []zkcoord.Entity{alice, topic} {
		if e := <-got; e != want {
			t.Fatalf("got %v, want %v", e, want)
		}
	}
	all := must[map[string]map[string]string](t)(b.AllEntityConfigs(ctx, zkcoord.Users))
	if diff := cmp.Diff(map[string]map[string]string{"alice": {}, "alice/clients/<default>": quota}, all); diff != "" {
		t.Fatal(diff)
	}
	ok(t, a.UpdateEntityConfig(ctx, alice, to(nil)))
	<-got
	if all := must[map[string]map[string]string](t)(b.AllEntityConfigs(ctx, zkcoord.Users)); len(all) != 0 {
		t.Fatalf("left: %v", all)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestConfigBeforeThereIsAController: tools can write settings before the first broker starts.
func TestConfigBeforeThereIsAController(t *testing.T) {
	ctx := t.Context()
	c := zktest.Client(t, zktest.Connect(t))
	broker := zkcoord.Entity{Kind: zkcoord.Brokers, Name: "1"}
	if err := c.UpdateEntityConfig(ctx, broker, to(map[string]string{"a": "b"})); err == nil {
		t.Fatal("written without a controller")
	}
	for _, want := range []map[string]string{{"a": "b"}, {"a": "c"}} { // created, then changed
		ok(t, c.UpdateEntityConfigEarly(ctx, broker, to(want)))
		if diff := cmp.Diff(want, must[map[string]string](t)(c.EntityConfig(ctx, broker))); diff != "" {
			t.Fatal(diff)
		}
	}
	if _, won, err := c.Elect(ctx, 1); err != nil || !won {
		t.Fatal(won, err)
	}
	want := map[string]string{"a": "d"}
	ok(t, c.UpdateEntityConfigEarly(ctx, broker, to(want)))
	if diff := cmp.Diff(want, must[map[string]string](t)(c.EntityConfig(ctx, broker))); diff != "" {
		t.Fatal(diff)
	}
}

// TestUnreadableSettingsCountAsNone: as in Apache Kafka, a node that cannot be parsed does not keep a broker from
// starting.
func TestUnreadableSettingsCountAsNone(t *testing.T) {
	ctx, connect := t.Context(), zktest.Connect(t)
	c := zktest.Client(t, connect)
	ok(t, c.EnsureTopNodes(ctx))
	server, chroot, _ := strings.Cut(connect, "/")
	if chroot != "" {
		chroot = "/" + chroot
	}
	conn, _, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogInfo(false))
	ok(t, err)
	defer conn.Close()
	for _, name := range []string{"1", "2"} {
		_, err := conn.Create(chroot+"/config/brokers/"+name, []byte(`{"version":1,"config":{"a":`+name), 0, zk.WorldACL(zk.PermAll))
		ok(t, err)
	}
	none := map[string]string{}
	if diff := cmp.Diff(none, must[map[string]string](t)(c.EntityConfig(ctx, zkcoord.Entity{Kind: zkcoord.Brokers, Name: "1"}))); diff != "" {
		t.Error(diff)
	}
	all := must[map[string]map[string]string](t)(c.AllEntityConfigs(ctx, zkcoord.Brokers))
	if diff := cmp.Diff(map[string]map[string]string{"1": none, "2": none}, all); diff != "" {
		t.Error(diff)
	}
}

func TestNotifications(t *testing.T) {
	ctx := t.Context()
	c := zktest.Client(t, zktest.Connect(t))
	term, _, err := c.Elect(ctx, 1)
	ok(t, err)
	ok(t, c.NotifyLogDirFailure(ctx, 5))
	ok(t, c.NotifyISRChange(ctx, []zkcoord.TopicPartition{{Topic: "x", Partition: 3}}))
	brokers, numbers, err := c.WatchLogDirEvents(ctx)
	if err != nil || !slices.Equal(brokers, []int32{5}) {
		t.Fatal(brokers, err)
	}
	ok(t, c.RemoveLogDirEvents(ctx, term, numbers))
	partitions, numbers, err := c.WatchISRNotifications(ctx)
	if err != nil || !slices.Equal(partitions, []zkcoord.TopicPartition{{Topic: "x", Partition: 3}}) {
		t.Fatal(partitions, err)
	}
	ok(t, c.RemoveISRNotifications(ctx, term, numbers))
	if _, numbers, err := c.WatchISRNotifications(ctx); err != nil || len(numbers) != 0 {
		t.Fatal(numbers, err)
	}
}

func TestProducerIDs(t *testing.T) {
	c := zktest.Client(t, zktest.Connect(t))
	for _, want := range []zkcoord.ProducerIDBlock{{Broker: 4, Start: 0, End: 999}, {Broker: 4, Start: 1000, End: 1999}} {
		if got := must[zkcoord.ProducerIDBlock](t)(c.NextProducerIDs(t.Context(), 4)); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
}

// TestConnectTimesOut: connecting fails after zookeeper.connection.timeout.ms, by the bubble's clock.
func TestConnectTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 50 * time.Second
		started := time.Now()
		_, err := zkcoord.Connect(t.Context(), zkcoord.Config{Connect: "127.0.0.1:1", ConnectionTimeout: limit, Logger: zktest.Logger(t)})
		if took := time.Since(started); err == nil || took != limit {
			t.Fatalf("got %v after %v, want an error after %v", err, took, limit)
		}
	})
}

// TestRequestsAreTimed: every request that was answered is timed, including those that the server refused.
func TestRequestsAreTimed(t *testing.T) {
	var answered atomic.Int32
	c := zktest.ClientWith(t, zkcoord.Config{Connect: zktest.Connect(t), Answered: func(time.Duration) { answered.Add(1) }})
	before := answered.Load()
	if before == 0 {
		t.Error("no requests were made to create the top nodes")
	}
	if _, err := c.ControllerID(t.Context()); err != nil { // the node does not exist: one request
		t.Fatal(err)
	}
	if n := answered.Load() - before; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
