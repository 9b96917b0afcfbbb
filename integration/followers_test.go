package integration

import (
	"context"
	"fmt"
	"testing"

	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestReadingFromFollowers: a consumer with a rack is directed to a replica in that rack that has the records, and
// reads from it (KIP-392), but never to one that is stopping or gone.
func TestReadingFromFollowers(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(3),
		kafkatest.Setting("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
		kafkatest.PerBroker(func(id int) map[string]string { return map[string]string{"broker.rack": fmt.Sprintf("r%d", id)} }))
	newTopic(t, c, "t", 1, 3)
	leader := producedAt(t, c, batch("a", "b"))
	near := (leader + 1) % 3
	from := func(broker int, version int16, rack string) kmsg.FetchResponseTopicPartition {
		req := fetching(version, "t", 0)
		req.Rack, req.MaxWaitMillis = rack, 100
		w := dialWire(t, c.Broker(broker).Addr())
		defer func() { _ = w.conn.Close() }()
		return w.fetch(req)
	}
	until(t, "a consumer is sent to the replica in its rack", func(context.Context) bool {
		p := from(leader, 11, fmt.Sprintf("r%d", near))
		return p.ErrorCode == 0 && p.PreferredReadReplica == int32(near) && len(p.RecordBatches) == 0
	})
	until(t, "also if what it has read before is not in the leader's log", func(context.Context) bool {
		req := fetching(12, "t", 0)
		req.Rack, req.MaxWaitMillis, req.Topics[0].Partitions[0].LastFetchedEpoch = fmt.Sprintf("r%d", near), 100, 99
		w := dialWire(t, c.Broker(leader).Addr())
		defer func() { _ = w.conn.Close() }()
		p := w.fetch(req)
		return p.ErrorCode == 0 && p.HighWatermark == 2 && p.PreferredReadReplica == int32(near)
	})
	until(t, "but not if its leader epoch is wrong", func(context.Context) bool {
		req := fetching(11, "t", 0)
		req.Rack, req.MaxWaitMillis, req.Topics[0].Partitions[0].CurrentLeaderEpoch = fmt.Sprintf("r%d", near), 100, 99
		w := dialWire(t, c.Broker(leader).Addr())
		defer func() { _ = w.conn.Close() }()
		p := w.fetch(req)
		return p.ErrorCode == kerr.UnknownLeaderEpoch.Code && p.PreferredReadReplica == -1
	})
	until(t, "it reads there what the leader has", func(context.Context) bool {
		p := from(near, 11, fmt.Sprintf("r%d", near))
		return p.ErrorCode == 0 && p.HighWatermark == 2 && len(offsets(p.RecordBatches)) == 1
	})
	for name, p := range map[string]kmsg.FetchResponseTopicPartition{
		"in the leader's rack":    from(leader, 11, fmt.Sprintf("r%d", leader)),
		"in a rack of none":       from(leader, 11, "r9"),
		"without a rack":          from(leader, 11, ""),
		"before there were racks": from(leader, 10, ""),
	} {
		if p.PreferredReadReplica != -1 || len(p.RecordBatches) == 0 {
			t.Errorf("%s: directed to %d, %d bytes", name, p.PreferredReadReplica, len(p.RecordBatches))
		}
	}
	c.Broker(near).Stop()
	until(t, "nobody is sent to a broker that has stopped", func(context.Context) bool {
		p := from(leader, 11, fmt.Sprintf("r%d", near))
		return p.PreferredReadReplica == -1 && len(p.RecordBatches) > 0
	})
}

// TestTopicsOfAnOldProtocolHaveNoIDs: with an inter-broker protocol without topic ids clients can use names.
func TestTopicsOfAnOldProtocolHaveNoIDs(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Setting("inter.broker.protocol.version", "2.7"))
	if id := newTopic(t, c, "t", 1, 1); id != ([16]byte{}) {
		t.Errorf("the id of a new topic is %x", id)
	}
	w := dialWire(t, c.Broker(0).Addr())
	w.produce(9, "t", batch("a").MustBuild())
	name := "t"
	for _, version := range []int16{10, 12} {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = version, []kmsg.MetadataRequestTopic{{Topic: &name}}
		if found := w.call(req).(*kmsg.MetadataResponse).Topics[0]; found.ErrorCode != 0 || found.TopicID != ([16]byte{}) || len(found.Partitions) != 1 {
			t.Errorf("Metadata v%d: %+v", version, found)
		}
	}
	if p := w.fetch(fetching(12, "t", 0)); p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("Fetch by name: error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	if p := w.fetch(fetching(13, "", 0)); p.ErrorCode != 100 {
		t.Errorf("Fetch by an id of zeroes: error %d, want 100", p.ErrorCode)
	}
}

// TestCoordinatorsAreInMetadata: a group's coordinator is one of the brokers in the metadata, with the same address.
func TestCoordinatorsAreInMetadata(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(3))
	for asked := range 3 {
		w := dialWire(t, c.Broker(asked).Addr())
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Version, metadata.Topics = 9, []kmsg.MetadataRequestTopic{}
		for _, version := range []int16{0, 2, 3, 4} {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.Version, req.CoordinatorKey, req.CoordinatorKeys = version, "g", []string{"g"}
			await(t, fmt.Sprintf("FindCoordinator v%d at broker %d", version, asked), func(context.Context) (string, bool) {
				resp := w.call(req).(*kmsg.FindCoordinatorResponse)
				code, id, host, port := resp.ErrorCode, resp.NodeID, resp.Host, resp.Port
				if version >= 4 {
					k := resp.Coordinators[0]
					code, id, host, port = k.ErrorCode, k.NodeID, k.Host, k.Port
				}
				if code != 0 {
					return fmt.Sprint("error ", code), false // the topic is being created
				}
				for _, b := range w.call(metadata).(*kmsg.MetadataResponse).Brokers {
					if b.NodeID == id && b.Host == host && b.Port == port {
						return "", true
					}
				}
				t.Fatalf("coordinator %d at %s:%d is not in Metadata", id, host, port)
				return "", false
			})
		}
	}
}
