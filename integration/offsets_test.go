package integration

import (
	"context"
	"net"
	"strconv"
	"testing"

	"barnabas/internal/testport"
	"barnabas/kafkatest"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *wire) listOffsets(topic string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	w.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 8, -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = timestamp
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return w.call(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
}

// TestOffsetsByTime: ListOffsets returns the first record at or after a time, or none.
func TestOffsetsByTime(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	newTopic(t, c, "empty", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	const base = 1_790_000_000_000
	for _, at := range []int64{0, 1000, 1000, 3000, 2000} {
		b := record.NewBuilder()
		b.Add(base+at, nil, []byte("v"))
		w.produce(9, "t", b.MustBuild())
	}
	for _, test := range []struct {
		topic             string
		ask               int64
		offset, timestamp int64
	}{
		{"empty", base, -1, -1}, {"t", base, 0, base}, {"t", base + 1, 1, base + 1000}, {"t", base + 1000, 1, base + 1000},
		{"t", base + 1001, 3, base + 3000}, {"t", base + 3000, 3, base + 3000}, {"t", base + 3001, -1, -1},
		{"t", -1, 5, -1}, {"t", -2, 0, -1}, {"t", -3, 3, base + 3000},
	} {
		if p := w.listOffsets(test.topic, test.ask); p.ErrorCode != 0 || p.Offset != test.offset || p.Timestamp != test.timestamp {
			t.Errorf("%s, %d: error %d, offset %d, timestamp %d; want %d, %d", test.topic, test.ask, p.ErrorCode, p.Offset, p.Timestamp, test.offset, test.timestamp)
		}
	}
}

// TestEpochsInAnswers: ListOffsets and OffsetForLeaderEpoch return the epoch of the record, not the current one.
func TestEpochsInAnswers(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(2))
	newTopic(t, c, "t", 1, 2)
	first := producedAt(t, c, batch("a", "b"))
	c.Broker(first).Stop() // the other broker becomes the leader, in a new leader epoch
	w := dialWire(t, c.Broker(producedAt(t, c, batch("c"))).Addr())
	current := w.listOffsets("t", -1).LeaderEpoch
	if earliest := w.listOffsets("t", -2).LeaderEpoch; earliest != 0 || current <= earliest {
		t.Errorf("earliest has epoch %d, latest %d", earliest, current)
	}
	ask := func(current, epoch, replica int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version, req.ReplicaID = 4, replica
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LeaderEpoch = current, epoch
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
		return w.call(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
	}
	for _, test := range []struct {
		name           string
		current, asked int32
		code           int16
		epoch          int32
		end            int64
	}{
		{"an old epoch", -1, 0, 0, 0, 2}, {"the current one", current, current, 0, current, 3}, {"a future one", -1, current + 5, 0, -1, -1},
		{"none", -1, -1, 0, -1, -1}, {"stale client", 0, 0, 74, -1, -1}, {"client ahead", current + 1, 0, 75, -1, -1},
	} {
		for _, replica := range []int32{-1, -2} {
			if p := ask(test.current, test.asked, replica); p.ErrorCode != test.code || p.LeaderEpoch != test.epoch || p.EndOffset != test.end {
				t.Errorf("%s, replica %d: error %d, epoch %d, end %d", test.name, replica, p.ErrorCode, p.LeaderEpoch, p.EndOffset)
			}
		}
	}
}

// producedAt produces a batch to topic t and returns the broker that accepted it.
func producedAt(t *testing.T, c *kafkatest.Cluster, b *record.Builder) int {
	t.Helper()
	leader := -1
	until(t, "somebody takes the batch", func(context.Context) bool {
		for id := range c.Addrs() {
			conn, err := net.Dial("tcp", c.Broker(id).Addr())
			if err != nil {
				continue
			}
			_ = conn.Close()
			w := dialWire(t, c.Broker(id).Addr())
			p := w.produce(9, "t", b.MustBuild())
			_ = w.conn.Close()
			if p.ErrorCode == 0 {
				leader = id
				return true
			}
		}
		return false
	})
	return leader
}

// TestMetadataDoesNotCreateTopicsUnasked: a topic is only created if the request allows it, and topic ids are refused
// in versions that do not support them.
func TestMetadataDoesNotCreateTopicsUnasked(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	id := newTopic(t, c, "t", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	ask := func(version int16, name *string, id [16]byte) kmsg.MetadataResponseTopic {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = version, []kmsg.MetadataRequestTopic{{Topic: name, TopicID: id}}
		return w.call(req).(*kmsg.MetadataResponse).Topics[0]
	}
	name := "nope"
	for range 2 {
		if found := ask(5, &name, [16]byte{}); found.ErrorCode != 3 {
			t.Errorf("error %d, want 3", found.ErrorCode)
		}
	}
	for _, test := range []struct {
		version int16
		id      [16]byte
		code    int16
	}{{10, id, 42}, {11, id, 42}, {12, id, 0}, {12, [16]byte{1}, 100}} {
		if found := ask(test.version, nil, test.id); found.ErrorCode != test.code {
			t.Errorf("v%d by id: error %d, want %d", test.version, found.ErrorCode, test.code)
		}
	}
}

// TestListenerWithoutTheLeader: a client on a listener that the leader does not have gets LISTENER_NOT_FOUND, or
// LEADER_NOT_AVAILABLE in versions without that error.
func TestListenerWithoutTheLeader(t *testing.T) {
	t.Parallel()
	ext := testport.Reserve(t)
	c := kafkatest.Run(t, kafkatest.Brokers(2), kafkatest.Setting("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,EXT:PLAINTEXT"),
		kafkatest.PerBroker(func(id int) map[string]string {
			if id == 1 {
				return nil
			}
			return map[string]string{"listeners": "PLAINTEXT://127.0.0.1:" + strconv.Itoa(testport.Reserve(t)) + ",EXT://127.0.0.1:" + strconv.Itoa(ext)}
		}))
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 5, 10000
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: -1, ReplicationFactor: -1,
		ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1}}}}}
	dialWire(t, c.Broker(0).Addr()).call(create)
	w := dialWire(t, "127.0.0.1:"+strconv.Itoa(ext))
	for version, want := range map[int16]int16{5: 5, 9: 72} {
		req := kmsg.NewPtrMetadataRequest()
		name := "t"
		req.Version, req.Topics = version, []kmsg.MetadataRequestTopic{{Topic: &name}}
		found := w.call(req).(*kmsg.MetadataResponse).Topics[0]
		if len(found.Partitions) != 1 || found.Partitions[0].ErrorCode != want {
			t.Errorf("v%d: %+v, want error %d", version, found.Partitions, want)
		}
	}
}
