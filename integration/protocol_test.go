package integration

import (
	"encoding/binary"
	"slices"
	"testing"

	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAnswersOfApiVersions: the response header is never flexible, and an unknown version is answered in version 0.
func TestAnswersOfApiVersions(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	for version := range int16(5) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "test", "1"
		resp := dialWire(t, c.Broker(0).Addr()).call(req).(*kmsg.ApiVersionsResponse)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != 62 {
			t.Errorf("v%d: error %d, %d keys", version, resp.ErrorCode, len(resp.ApiKeys))
		}
	}
	w := dialWire(t, c.Broker(0).Addr())
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 5
	w.send(req)
	body, err := w.frame()
	want := []byte{0, 0, 0, 1 /* correlation */, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4}
	if err != nil || !slices.Equal(body, want) {
		t.Errorf("v5: %x, %v; want %x", body, err, want)
	}
}

// TestClientIDNullAndEmpty: in a flexible request tagged fields follow a null as well as an empty client id.
func TestClientIDNullAndEmpty(t *testing.T) {
	t.Parallel()
	w := dialWire(t, kafkatest.Run(t).Broker(0).Addr())
	for range 2 {
		for _, id := range []*string{new(string), nil} {
			w.clientID = id
			req := kmsg.NewPtrMetadataRequest()
			req.Version, req.Topics = 9, []kmsg.MetadataRequestTopic{}
			if resp := w.call(req).(*kmsg.MetadataResponse); len(resp.Brokers) != 1 {
				t.Errorf("%d brokers", len(resp.Brokers))
			}
		}
	}
}

// TestUnsupportedVersionsCloseTheConnection: also of APIs whose handlers work in two steps; the broker stays up.
func TestUnsupportedVersionsCloseTheConnection(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.JoinGroup, kmsg.OffsetCommit, kmsg.Fetch} {
		w := dialWire(t, c.Broker(0).Addr())
		b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 40}, uint16(key.Int16()))
		b = append(binary.BigEndian.AppendUint16(b, 99), make([]byte, 36)...)
		_, _ = w.conn.Write(b)
		w.closed()
	}
	dialWire(t, c.Broker(0).Addr()).call(kmsg.NewPtrApiVersionsRequest())
}

// TestCorrelationIDs: any 32 bits are returned, in the order of the requests.
func TestCorrelationIDs(t *testing.T) {
	t.Parallel()
	w := dialWire(t, kafkatest.Run(t).Broker(0).Addr())
	ids := []int32{7, -1, 1<<31 - 1, 0}
	var all []byte
	for _, id := range ids {
		all = append(all, kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), id)...)
	}
	if _, err := w.conn.Write(all); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		body, err := w.frame()
		if err != nil || int32(binary.BigEndian.Uint32(body)) != id {
			t.Fatalf("answer %x, %v; want correlation id %d", body, err, id)
		}
	}
}

// TestHugeCounts: arrays that announce more than the frame can contain close the connection and cost no memory.
func TestHugeCounts(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	for name, body := range map[string][]byte{
		"Metadata v1, int32 count":    {0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff},
		"Metadata v9, compact count":  {0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0x07},
		"Produce v3, null topic list": {0, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 3, 0xe8, 0xff, 0xff, 0xff, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			w := dialWire(t, c.Broker(0).Addr())
			frame := append([]byte{0, 0, 0, byte(len(body) + 50)}, body...)
			_, _ = w.conn.Write(append(frame, make([]byte, 50)...))
			w.closed()
		})
	}
}

// TestNullAndEmptyTopicLists: which list stands for all topics depends on the version.
func TestNullAndEmptyTopicLists(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "a", 1, 1)
	newTopic(t, c, "b", 1, 1)
	for _, test := range []struct {
		version int16
		topics  []kmsg.MetadataRequestTopic
		want    int
	}{{0, []kmsg.MetadataRequestTopic{}, 2}, {1, nil, 2}, {1, []kmsg.MetadataRequestTopic{}, 0}, {9, []kmsg.MetadataRequestTopic{}, 0}, {12, nil, 2}} {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = test.version, test.topics
		resp := dialWire(t, c.Broker(0).Addr()).call(req).(*kmsg.MetadataResponse)
		if len(resp.Topics) != test.want {
			t.Errorf("v%d, null %v: %d topics, want %d", test.version, test.topics == nil, len(resp.Topics), test.want)
		}
	}
}

// TestTaggedStructsInFetch: each struct ends with its own tagged fields, and the size includes them (wire.call compares
// sizes).
func TestTaggedStructsInFetch(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(2))
	id := newTopic(t, c, "t", 1, 1)
	leader := producedAt(t, c, batch("a", "b"))
	addr, other := c.Broker(leader).Addr(), c.Broker(1-leader).Addr()
	w := dialWire(t, addr)
	diverging := fetching(12, "t", 50)
	diverging.Topics[0].Partitions[0].LastFetchedEpoch = 0
	if p := w.fetch(diverging); p.DivergingEpoch.Epoch != 0 || p.DivergingEpoch.EndOffset != 2 {
		t.Errorf("error %d, diverging epoch %+v", p.ErrorCode, p.DivergingEpoch)
	}
	moved := fetching(16, "t", 0)
	moved.Topics[0].TopicID = id
	resp := dialWire(t, other).call(moved).(*kmsg.FetchResponse)
	for resp.Topics[0].Partitions[0].ErrorCode == 100 { // that broker has not been told of the topic yet
		resp = dialWire(t, other).call(moved).(*kmsg.FetchResponse)
	}
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 6 || p.CurrentLeader.LeaderID < 0 || len(resp.Brokers) != 1 {
		t.Errorf("at the other broker: error %d, leader %+v, %d endpoints", p.ErrorCode, p.CurrentLeader, len(resp.Brokers))
	}
}
