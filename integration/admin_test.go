package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *wire) incrementalAlter(kind kmsg.ConfigResourceType, name string, ops ...kmsg.IncrementalAlterConfigsRequestResourceConfig) kmsg.IncrementalAlterConfigsResponseResource {
	w.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kind, ResourceName: name, Configs: ops}}
	return w.call(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
}

func op(name string, kind kmsg.IncrementalAlterConfigOp, value *string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: kind, Value: value}
}

// TestBadSettings: invalid settings are refused with an error code and a message that names the key.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	const topic, set, del, add, sub = kmsg.ConfigResourceTypeTopic, kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete,
		kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	for _, test := range []struct {
		name string
		kind kmsg.ConfigResourceType
		ops  []kmsg.IncrementalAlterConfigsRequestResourceConfig
		code int16
		key  string
	}{
		{"null value", topic, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("retention.ms", set, nil)}, 42, "retention.ms"},
		{"null value to delete", topic, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("retention.ms", del, nil)}, 0, ""},
		{"a key twice", topic, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("retention.ms", set, new("1")), op("retention.ms", set, new("2"))}, 42, "retention.ms"},
		{"unknown resource type", 99, nil, 42, ""},
		{"not a codec", topic, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("compression.type", set, new("foo"))}, 40, "compression.type"},
		{"not a number", topic, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("retention.ms", set, new("abc"))}, 40, "retention.ms"},
		{"unknown key", topic, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("no.such.key", set, new("1"))}, 40, "no.such.key"},
		{"append to a list", topic, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("cleanup.policy", add, new("compact"))}, 0, ""},
		{"subtract from a list", topic, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("cleanup.policy", sub, new("compact"))}, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := w.incrementalAlter(test.kind, "t", test.ops...)
			message := ""
			if got.ErrorMessage != nil {
				message = *got.ErrorMessage
			}
			if got.ErrorCode != test.code || !strings.Contains(message, test.key) {
				t.Errorf("error %d, %q; want %d naming %q", got.ErrorCode, message, test.code, test.key)
			}
		})
	}
}

// TestDescribedKeys: clients look for these keys, and an empty list of names returns none, as in Apache Kafka.
func TestDescribedKeys(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	ask := func(kind kmsg.ConfigResourceType, name string, names []string) []string {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version = 4
		req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: names}}
		r := w.call(req).(*kmsg.DescribeConfigsResponse).Resources[0]
		if r.ErrorCode != 0 {
			t.Fatalf("error %d", r.ErrorCode)
		}
		var keys []string
		for _, c := range r.Configs {
			keys = append(keys, c.Name)
		}
		slices.Sort(keys)
		return keys
	}
	broker := ask(kmsg.ConfigResourceTypeBroker, "0", nil)
	for _, key := range []string{"num.partitions", "auto.create.topics.enable", "default.replication.factor", "log.cleanup.policy"} {
		if !slices.Contains(broker, key) {
			t.Errorf("the broker's settings lack %s", key)
		}
	}
	if topic := ask(kmsg.ConfigResourceTypeTopic, "t", nil); !slices.Contains(topic, "cleanup.policy") || len(topic) != 36 {
		t.Errorf("the topic's settings: %v", topic)
	}
	if two := ask(kmsg.ConfigResourceTypeTopic, "t", []string{"retention.ms", "cleanup.policy"}); !slices.Equal(two, []string{"cleanup.policy", "retention.ms"}) {
		t.Errorf("two keys: %v", two)
	}
}

// TestMorePartitions: new partitions get the next numbers; a count that is not larger is refused.
func TestMorePartitions(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	grow := func(count int32) int16 {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.TimeoutMillis = 3, 30000
		req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: count}}
		return w.call(req).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode
	}
	for _, test := range []struct {
		count int32
		code  int16
	}{{4, 0}, {4, 37}, {3, 37}, {0, 37}} {
		if got := grow(test.count); got != test.code {
			t.Errorf("to %d: error %d, want %d", test.count, got, test.code)
		}
	}
	topics, err := admin(t, c).ListTopics(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if got := topics["t"].Partitions.Numbers(); !slices.Equal(got, []int32{0, 1, 2, 3}) {
		t.Errorf("partitions %v", got)
	}
}

// TestMovingTopic: while a topic's replicas are being moved the topic is listed as reassigning and cannot get more
// partitions; afterwards it can, with an assignment.
func TestMovingTopic(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(2), kafkatest.Setting("replica.fetch.max.bytes", "20000"))
	w := dialWire(t, controllerAddr(t, c))
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 5, 30000
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: -1, ReplicationFactor: -1,
		ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{0}}}}}
	if code := w.call(create).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("error %d", code)
	}
	leads := dialWire(t, c.Broker(0).Addr())
	until(t, "the topic takes records", func(context.Context) bool {
		return leads.produce(9, "t", batch(strings.Repeat("x", 15000)).MustBuild()).ErrorCode == 0
	})
	for range 20 {
		leads.produce(9, "t", batch(strings.Repeat("x", 15000)).MustBuild())
	}
	adm := admin(t, c)
	slow, all := "1", "*"
	if _, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "follower.replication.throttled.replicas", Value: &all}}, "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Name: "follower.replication.throttled.rate", Value: &slow}}, 1); err != nil {
		t.Fatal(err)
	}
	until(t, "the throttle is in force", func(ctx context.Context) bool {
		found, err := adm.DescribeBrokerConfigs(ctx, 1)
		return err == nil && slices.ContainsFunc(found[0].Configs, func(s kadm.Config) bool {
			return s.Key == "follower.replication.throttled.rate" && s.MaybeValue() == slow
		})
	})
	reassign := func(replicas []int32) {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.TimeoutMillis = 30000
		req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t",
			Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: 0, Replicas: replicas}}}}
		if code := w.call(req).(*kmsg.AlterPartitionAssignmentsResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatalf("reassignment to %v: error %d", replicas, code)
		}
	}
	grow := func() int16 {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.TimeoutMillis = 3, 30000
		req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 2, Assignment: []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{1}}}}}
		return w.call(req).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode
	}
	reassign([]int32{1})
	for _, topics := range [][]kmsg.ListPartitionReassignmentsRequestTopic{nil, {{Topic: "t", Partitions: []int32{0}}}} {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.TimeoutMillis, req.Topics = 30000, topics
		resp := w.call(req).(*kmsg.ListPartitionReassignmentsResponse)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			t.Fatalf("listed for %v: %+v", topics, resp)
		}
		if p := resp.Topics[0].Partitions[0]; !slices.Equal(p.Replicas, []int32{1, 0}) || !slices.Equal(p.AddingReplicas, []int32{1}) || !slices.Equal(p.RemovingReplicas, []int32{0}) {
			t.Errorf("listed for %v: %+v", topics, p)
		}
	}
	if code := grow(); code != 60 {
		t.Errorf("more partitions while it moves: error %d, want 60", code)
	}
	reassign(nil)
	if code := grow(); code != 0 {
		t.Errorf("adding partitions afterwards: error %d", code)
	}
	await(t, "the new partition is where it was asked for", func(ctx context.Context) (string, bool) {
		topics, err := adm.ListTopics(ctx, "t")
		return fmt.Sprint(topics, err), err == nil && slices.Equal(topics["t"].Partitions[1].Replicas, []int32{1})
	})
}

// controllerAddr returns the address of the cluster's controller.
func controllerAddr(t *testing.T, c *kafkatest.Cluster) (addr string) {
	t.Helper()
	until(t, "there is a controller", func(ctx context.Context) bool {
		found, err := admin(t, c).BrokerMetadata(ctx)
		if err != nil || found.Controller < 0 {
			return false
		}
		addr = c.Broker(int(found.Controller)).Addr()
		return true
	})
	return addr
}

// TestDeleteRecordsKeepsTheLogUsable deletes records into the active segment and up to its end; a compacted topic
// refuses.
func TestDeleteRecordsKeepsTheLogUsable(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1, "segment.bytes", "2000")
	newTopic(t, c, "compacted", 1, 1, "cleanup.policy", "compact")
	w := dialWire(t, c.Broker(0).Addr())
	for range 30 {
		w.produce(9, "t", batch(strings.Repeat("x", 200)).MustBuild())
	}
	del := func(topic string, offset int64) (int16, int64) {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Version, req.TimeoutMillis = 2, 30000
		req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
		p := w.call(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		return p.ErrorCode, p.LowWatermark
	}
	for _, test := range []struct {
		topic  string
		offset int64
		code   int16
		low    int64
	}{{"t", 12, 0, 12}, {"t", 29, 0, 29}, {"t", 31, 1, -1}, {"t", -1, 0, 30}, {"compacted", 0, 44, -1}} {
		if code, low := del(test.topic, test.offset); code != test.code || low != test.low {
			t.Errorf("%s to %d: error %d, low watermark %d; want %d, %d", test.topic, test.offset, code, low, test.code, test.low)
		}
	}
	if p := w.produce(9, "t", batch("next").MustBuild()); p.ErrorCode != 0 || p.BaseOffset != 30 {
		t.Errorf("the next record is at %d, error %d", p.BaseOffset, p.ErrorCode)
	}
}

// TestNoRecordTwiceOverRestarts: an idempotent producer continues while the broker is stopped cleanly and started.
func TestNoRecordTwiceOverRestarts(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Setting("log.segment.delete.delay.ms", "0"))
	newTopic(t, c, "t", 1, 1)
	cl := newClient(t, kgo.SeedBrokers(c.Addrs()...), kgo.ProducerBatchMaxBytes(2000), kgo.MetadataMinAge(20*time.Millisecond), kgo.RecordRetries(1<<30),
		kgo.ProducerLinger(0))
	defer cl.Close()
	ctx, stop := context.WithCancel(t.Context())
	sent := make(chan int)
	go func() {
		i := 0
		for ; ctx.Err() == nil; i++ {
			cl.Produce(context.Background(), &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, "%d", i)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("record: %v", err)
				}
			})
			if i%50 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		sent <- i
	}()
	for range 5 {
		time.Sleep(60 * time.Millisecond)
		c.Broker(0).Stop()
		if err := c.Broker(0).Start(); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	count := <-sent
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	values := readAll(t, c.Broker(0).Addr(), "t", 0)
	if len(values) != count {
		t.Errorf("%d records were sent, %d are stored", count, len(values))
	}
	for i, v := range values {
		if v != fmt.Sprint(i) {
			t.Fatalf("record %d is %s", i, v)
		}
	}
}

// TestNothingIsDeletedWithoutRetention: with unlimited retention.ms and retention.bytes nothing is deleted.
func TestNothingIsDeletedWithoutRetention(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Setting("log.retention.check.interval.ms", "20"))
	newTopic(t, c, "kept", 1, 1, "retention.ms", "-1", "retention.bytes", "-1", "segment.bytes", "1000")
	newTopic(t, c, "dropped", 1, 1, "retention.bytes", "1000", "segment.bytes", "1000")
	w := dialWire(t, c.Broker(0).Addr())
	for range 20 {
		for _, topic := range []string{"kept", "dropped"} {
			w.produce(9, topic, batch(strings.Repeat("x", 300)).MustBuild())
		}
	}
	adm := admin(t, c)
	for {
		starts, err := adm.ListStartOffsets(t.Context(), "dropped", "kept")
		if err != nil {
			t.Fatal(err)
		}
		dropped, _ := starts.Lookup("dropped", 0)
		kept, _ := starts.Lookup("kept", 0)
		if kept.Offset != 0 {
			t.Fatalf("the log without retention starts at %d", kept.Offset)
		}
		if dropped.Offset > 10 {
			return // retention ran, and deleted nothing of the other topic
		}
		time.Sleep(20 * time.Millisecond)
	}
}
