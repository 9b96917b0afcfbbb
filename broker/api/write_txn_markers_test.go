package api

import (
	"context"
	"testing"
	"time"

	"barnabas/broker/group"
	"barnabas/broker/replica"
	"barnabas/config"
	"barnabas/internal/errcode"
	"barnabas/internal/testlog"
	"barnabas/internal/testwait"
	"barnabas/logstore"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMarkerIsReplicatedAfterItsRequest: a marker takes effect on a group's offsets though the request for it has timed
// out when it is replicated at last. An operator's request is not repeated.
func TestMarkerIsReplicatedAfterItsRequest(t *testing.T) {
	tp := logstore.TopicPartition{Topic: offsetsTopic}
	replicas := newReplicas(t)
	p := assignPartition(t, replicas, tp, 1, 0, 1, 2)
	log := testlog.To(t)
	groups := group.New(group.Config{
		CommitTimeout: time.Minute, CommitAcks: -1, LoadBufferBytes: 1 << 20, ValueVersions: group.NewestVersions, MetadataMaxBytes: 100,
		Partition:    func(int32) (group.Partition, bool) { return p, true },
		PartitionFor: func(string) int32 { return 0 }, Logger: log, Now: time.Now,
	})
	defer groups.Close()
	groups.LeadershipChanged(0, 0, true)
	follow := func() {
		t.Helper()
		end := p.Log().LogEndOffset()
		v, err := p.Read(replica.Reader{Replica: 2, Isolation: replica.ReadToEnd}, replica.Position{LeaderEpoch: 0, LastFetchedEpoch: -1, Offset: end})
		if err != nil {
			t.Fatal(err)
		}
		v.Records.Close()
	}
	offsets := []group.Offset{{Partition: logstore.TopicPartition{Topic: "t"}, Offset: 5, LeaderEpoch: -1, CommittedMs: -1, RetentionMs: -1}}
	testwait.See(t, "the commit", func() (error, bool) {
		_, err := groups.Commit(group.Committer{Group: "g", Generation: -1, Txn: &group.Txn{ProducerID: 7}}, offsets)
		return err, err == nil
	})
	cfg, err := config.Parse(map[string]string{"zookeeper.connect": "localhost:2181"})
	if err != nil {
		t.Fatal(err)
	}
	h := &Handlers{Deps: Deps{Config: config.NewDynamic(cfg, log), Replicas: replicas, Groups: groups}}
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = []kmsg.WriteTxnMarkersRequestMarker{{ProducerID: 7, Committed: true,
		Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: offsetsTopic, Partitions: []int32{0}}}}}
	late, cancel := context.WithCancelCause(t.Context())
	cancel(kerr.RequestTimedOut)
	resp := h.writeTxnMarkers(late, &Call{Request: &network.Request{Version: 1}}, req).Wait(late).(*kmsg.WriteTxnMarkersResponse)
	if got := resp.Markers[0].Topics[0].Partitions[0].ErrorCode; got != kerr.RequestTimedOut.Code {
		t.Errorf("error code %d before the marker is replicated", got)
	}
	fetch := func() kmsg.OffsetFetchResponseGroupTopicPartition {
		t.Helper()
		topics, err := groups.FetchOffsets("g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}, true)
		if err != nil {
			t.Fatal(err)
		}
		return topics[0].Partitions[0]
	}
	if got := fetch(); got.ErrorCode != kerr.UnstableOffsetCommit.Code {
		t.Errorf("before the marker is replicated: offset %d, error code %d", got.Offset, got.ErrorCode)
	}
	follow()
	if got := fetch(); got.Offset != 5 || got.ErrorCode != 0 {
		t.Errorf("offset %d, error code %d", got.Offset, got.ErrorCode)
	}
}

// TestMarkersOfNobody: a marker without a producer or an epoch is not written.
func TestMarkersOfNobody(t *testing.T) {
	replicas := newReplicas(t)
	p := assign(t, replicas, 1, 0, 1)
	h := &Handlers{Deps: Deps{Replicas: replicas}}
	for _, m := range []kmsg.WriteTxnMarkersRequestMarker{{ProducerID: -1}, {ProducerID: 7, ProducerEpoch: -1}} {
		if _, _, err := h.writeMarker(&m, "t", 0); errcode.Of(err) != kerr.UnknownServerError.Code || p.Log().LogEndOffset() != 0 {
			t.Errorf("producer %d in epoch %d: %v, %d records", m.ProducerID, m.ProducerEpoch, err, p.Log().LogEndOffset())
		}
	}
}
