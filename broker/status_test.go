package broker

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"barnabas/broker/metadata"
	"barnabas/broker/status"
	"barnabas/zkcoord/zkserver"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pictureOf is a cluster of two brokers, of which the first leads what is led.
func pictureOf(topics ...kmsg.UpdateMetadataRequestTopicState) *metadata.Picture {
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
	picture := pictureOf(topicState("a",
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
	if diff := cmp.Diff(want, clusterStatus(picture)); diff != "" {
		t.Error(diff)
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

// BenchmarkClusterStatus is what one look of the status page costs on a large cluster, most of it under-replicated.
func BenchmarkClusterStatus(b *testing.B) {
	var topics []kmsg.UpdateMetadataRequestTopicState
	for i := range 1000 {
		partitions := make([]kmsg.UpdateMetadataRequestTopicPartition, 10)
		for j := range partitions {
			partitions[j] = kmsg.UpdateMetadataRequestTopicPartition{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}}
		}
		topics = append(topics, topicState("topic-"+strconv.Itoa(i), partitions...))
	}
	picture := pictureOf(topics...)
	b.ReportAllocs()
	for b.Loop() {
		if c := clusterStatus(picture); c.UnderReplicated != 10000 || len(c.Worst) != worstShown {
			b.Fatal(c)
		}
	}
}

// TestStatusPageWhileTheBrokerStarts has a broker that has not loaded its logs yet: the page is there, and says so.
func TestStatusPageWhileTheBrokerStarts(t *testing.T) {
	zk, err := zkserver.Open(zkserver.Config{TickTime: 500 * time.Millisecond})
	if err == nil {
		err = zk.Listen("127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = zk.Close() })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	s := newServer(t, zk.Addr().String(), map[string]string{"metrics.listener": addr})
	for _, step := range []func() error{
		func() error { return s.connect(t.Context()) }, func() error { return s.identify(t.Context()) },
		func() error { return s.loadConfigs(t.Context()) }, func() error { return s.serveMetrics(t.Context()) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	text := string(get(t, fmt.Sprintf("http://%s/status.json", addr)))
	for _, want := range []string{`"state":"starting"`, `"cluster":null`, `"id":1`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if page := get(t, fmt.Sprintf("http://%s/", addr)); !strings.Contains(string(page), "<!DOCTYPE html>") {
		t.Errorf("no page: %s", page)
	}
	if err := s.openLogs(t.Context()); err != nil {
		t.Fatal(err)
	}
	if dirs := s.measures.loading.Dirs(); len(dirs) != 1 || !dirs[0].Done {
		t.Errorf("loading %+v", dirs)
	}
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return body
}
