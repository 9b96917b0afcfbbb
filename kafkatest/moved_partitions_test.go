package kafkatest_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"barnabas/internal/testport"
	"barnabas/internal/testwait"
	"barnabas/kafkatest"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSettingsOutliveAPartitionThatLeaves: after one of a topic's partitions has been moved off a broker, the topic's
// settings still apply to the partitions that remain there.
func TestSettingsOutliveAPartitionThatLeaves(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(3), kafkatest.Setting("log.segment.delete.delay.ms", "0"))
	cl := client(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	adm := kadm.NewClient(cl)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "t", -1, -1
	for partition, replicas := range [][]int32{{0, 1}, {0, 2}} {
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(partition), Replicas: replicas})
	}
	rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "min.insync.replicas", Value: kadm.StringPtr("2")})
	req.Topics = append(req.Topics, rt)
	if resp, err := req.RequestWith(t.Context(), cl); err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatal(resp, err)
	}
	refused := func() {
		t.Helper()
		err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: 1}).FirstErr()
		if !errors.Is(err, kerr.NotEnoughReplicas) {
			t.Fatalf("a record that one replica has, of a topic that wants two: %v, want NOT_ENOUGH_REPLICAS", err)
		}
	}
	c.Broker(2).Stop()
	refused()
	var move kadm.AlterPartitionAssignmentsReq
	move.Assign("t", 0, []int32{1})
	if moves, err := adm.AlterPartitionAssignments(t.Context(), move); err != nil || moves.Error() != nil {
		t.Fatal(moves, err)
	}
	testwait.Until(t, "the partition's folder", func() bool {
		dirs, err := adm.DescribeBrokerLogDirs(t.Context(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, there := dirs.Lookup(c.Broker(0).LogDir(), "t", 0)
		return !there
	})
	refused()
}

// TestMetricsOfHostedTopicsOnly: metrics by topic exist only for topics of which the broker hosts partitions:
// not for names that clients make up, and no longer for deleted topics, even if requests for them still arrive.
func TestMetricsOfHostedTopicsOnly(t *testing.T) {
	t.Parallel()
	addr := testport.Address(t)
	c := kafkatest.Run(t, kafkatest.Setting("metrics.listener", addr), kafkatest.Setting("auto.create.topics.enable", "false"))
	cl := client(t, c)
	counted := func(topic string) bool {
		t.Helper()
		status, text := get(t, "http://"+addr+"/metrics")
		if status != http.StatusOK {
			t.Fatal(status, text)
		}
		return strings.Contains(text, `topic="`+topic)
	}
	fill := func(topic string) int16 {
		t.Helper()
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = 1, 1000
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic, rt.Partitions = topic, []kmsg.ProduceRequestTopicPartition{{Partition: 0, Records: oneRecord(t)}}
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Topics[0].Partitions[0].ErrorCode
	}
	for _, name := range []string{"nowhere", "no\xff\x00where"} {
		if code := fill(name); code != kerr.UnknownTopicOrPartition.Code {
			t.Fatalf("records for %q get error code %d", name, code)
		}
	}
	createOn(t, cl, "here", 0)
	if code := fill("here"); code != 0 || !counted("here") {
		t.Fatal("a topic has no metrics", code)
	}
	if counted("no") {
		t.Fatal("a topic that does not exist has metrics")
	}
	if deleted, err := kadm.NewClient(cl).DeleteTopics(t.Context(), "here"); err != nil || deleted.Error() != nil {
		t.Fatal(deleted, err)
	}
	testwait.Until(t, "what is counted of a topic that is deleted", func() bool { return !counted("here") })
	if code := fill("here"); code != kerr.UnknownTopicOrPartition.Code || counted("here") {
		t.Fatal("a deleted topic has metrics again", code)
	}
}

func oneRecord(t *testing.T) []byte {
	t.Helper()
	w := record.NewBuilder()
	w.Add(1_790_000_000_000, nil, []byte("value"))
	b, err := w.Build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
