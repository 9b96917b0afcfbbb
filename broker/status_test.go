package broker

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"barnabas/broker/metadata"
	"barnabas/broker/status"
	"barnabas/internal/testport"
	"barnabas/internal/testwait"
	"barnabas/logstore"
	"barnabas/zkcoord/zkserver"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// snapshotOf returns the metadata of a cluster of two brokers, of which the first leads all partitions that have a
// leader.
func snapshotOf(topics ...kmsg.UpdateMetadataRequestTopicState) *metadata.Snapshot {
	req := kmsg.NewPtrUpdateMetadataRequest()
	req.Version, req.ControllerID = 8, 1
	rack := "r"
	for _, id := range []int32{1, 2} {
		b := kmsg.NewUpdateMetadataRequestLiveBroker()
		b.ID, b.Rack = id, &rack
		b.Endpoints = []kmsg.UpdateMetadataRequestLiveBrokerEndpoint{{Host: "h", Port: 9090 + id, ListenerName: "PLAINTEXT"}}
		req.LiveBrokers = append(req.LiveBrokers, b)
	}
	req.TopicStates = topics
	c := metadata.NewCache()
	c.Update(req)
	return c.Current()
}

func topicState(name string, partitions ...kmsg.UpdateMetadataRequestTopicPartition) kmsg.UpdateMetadataRequestTopicState {
	t := kmsg.NewUpdateMetadataRequestTopicState()
	t.Topic = name
	for i := range partitions {
		partitions[i].Partition = int32(i)
	}
	t.PartitionStates = partitions
	return t
}

func TestClusterStatus(t *testing.T) {
	snapshot := snapshotOf(topicState("a",
		kmsg.UpdateMetadataRequestTopicPartition{Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{1, 2}},
		kmsg.UpdateMetadataRequestTopicPartition{Leader: 1, Replicas: []int32{1, 3}, ISR: []int32{1}},
		kmsg.UpdateMetadataRequestTopicPartition{Leader: -1, Replicas: []int32{3}, ISR: []int32{3}}))
	want := &status.Cluster{
		Controller: 1, Topics: 1, Partitions: 3, UnderReplicated: 1, Leaderless: 1,
		Brokers: []status.Member{
			{ID: 1, Address: "h:9091", Rack: "r", Alive: true, Leads: 2, Replicas: 2, InSync: 2},
			{ID: 2, Address: "h:9092", Rack: "r", Alive: true, Replicas: 1, InSync: 1},
			{ID: 3, Replicas: 2, InSync: 1},
		},
		Worst: []status.Partition{
			{Topic: "a", Partition: 2, Leader: -1, Replicas: []int32{3}, ISR: []int32{3}},
			{Topic: "a", Partition: 1, Leader: 1, Replicas: []int32{1, 3}, ISR: []int32{1}},
		},
	}
	if diff := cmp.Diff(want, clusterStatus(snapshot, "CONTROL")); diff != "" {
		t.Error(diff)
	}
}

// TestAddressOfListeners: with several listeners, the page shows which one clients should use.
func TestAddressOfListeners(t *testing.T) {
	b := &metadata.Broker{Endpoints: map[string]metadata.Endpoint{"CONTROL": {Host: "h", Port: 1}, "SSL": {Host: "h", Port: 2}}}
	if got := addressOf(b, "CONTROL"); got != "h:2" {
		t.Error(got)
	}
	b.Endpoints["PLAINTEXT"] = metadata.Endpoint{Host: "h", Port: 3}
	if got := addressOf(b, "CONTROL"); got != "PLAINTEXT://h:3, SSL://h:2" {
		t.Error(got)
	}
}

func TestShare(t *testing.T) {
	for _, test := range []struct {
		have, all int64
		want      float64
	}{{0, 0, 1}, {-1, 10, 0}, {5, 10, 0.5}, {11, 10, 1}} {
		if got := share(test.have, test.all); got != test.want {
			t.Errorf("%d of %d: %v", test.have, test.all, got)
		}
	}
}

// BenchmarkClusterStatus measures one reading of the status page on a large cluster that is mostly under-replicated.
func BenchmarkClusterStatus(b *testing.B) {
	var topics []kmsg.UpdateMetadataRequestTopicState
	for i := range 1000 {
		partitions := make([]kmsg.UpdateMetadataRequestTopicPartition, 10)
		for j := range partitions {
			partitions[j] = kmsg.UpdateMetadataRequestTopicPartition{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}}
		}
		topics = append(topics, topicState("topic-"+strconv.Itoa(i), partitions...))
	}
	snapshot := snapshotOf(topics...)
	b.ReportAllocs()
	for b.Loop() {
		if c := clusterStatus(snapshot, ""); c.UnderReplicated != 10000 || len(c.Worst) != worstShown {
			b.Fatal(c)
		}
	}
}

// TestStatusPageWhileTheBrokerStarts: while a broker waits for a ZooKeeper that does not answer at first, the page is
// available and says what the broker is waiting for.
func TestStatusPageWhileTheBrokerStarts(t *testing.T) {
	addr, zkAddr := testport.Address(t), testport.Address(t)
	s := newServer(t, zkAddr, map[string]string{"metrics.listener": addr, "zookeeper.connection.timeout.ms": "20000"})
	started := make(chan error, 1)
	go func() { started <- s.Start(t.Context()) }()
	testwait.Until(t, "the page", func() bool { return answers("http://" + addr + "/healthz") })
	testwait.Until(t, "the wait for ZooKeeper", func() bool {
		return strings.Contains(body(t, "http://"+addr+"/readyz"), "waiting for a session with ZooKeeper at "+zkAddr)
	})
	for _, want := range []string{`"state":"starting"`, `"cluster":null`, `"id":1`, `"doing":"waiting for a session`} {
		testwait.Until(t, want, func() bool { return strings.Contains(body(t, "http://"+addr+"/status.json"), want) }) // the page may be a second old
	}
	if page := body(t, fmt.Sprintf("http://%s/", addr)); !strings.Contains(page, "<!DOCTYPE html>") {
		t.Errorf("no page: %s", page)
	}
	zk, err := zkserver.Open(zkserver.Config{TickTime: 500 * time.Millisecond})
	if err == nil {
		err = zk.Listen(zkAddr)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = zk.Close() })
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if got := body(t, "http://"+addr+"/readyz"); got != "ok\n" {
		t.Errorf("ready: %q", got)
	}
	if dirs := s.collector.loading.Dirs(); len(dirs) != 1 || !dirs[0].Done {
		t.Errorf("loading %+v", dirs)
	}
	s.Close()
	if answers("http://" + addr + "/healthz") {
		t.Error("the page is still available after the broker has stopped")
	}
}

func TestMovesBetweenDirectoriesAreShown(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	s := newServer(t, zookeeper(t), map[string]string{"metrics.listener": testport.Address(t), "log.dirs": one + "," + two})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addr("PLAINTEXT")), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range 5 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	tp := logstore.TopicPartition{Topic: "t"}
	from, to := one, two
	if l, ok := s.logs.Log(tp); ok && l.Dir() == two {
		from, to = two, one
	}
	if moves := s.collector.dirMoves(s.logs.Dirs()); len(moves) != 0 {
		t.Errorf("before: %+v", moves)
	}
	if _, err := s.logs.MoveTo(tp, to); err != nil { // nothing is copied, so the move does not finish
		t.Fatal(err)
	}
	want := []status.DirMove{{Topic: "t", From: from, To: to, Left: 5}}
	if diff := cmp.Diff(want, s.collector.dirMoves(s.logs.Dirs())); diff != "" {
		t.Error(diff)
	}
}

func answers(url string) bool {
	resp, err := http.Get(url)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err == nil
}

// body returns the body of a response, whatever its status code.
func body(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return string(data)
}
