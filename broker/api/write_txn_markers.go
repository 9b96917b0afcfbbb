package api

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"barnabas/broker/acl"
	"barnabas/broker/group"
	"barnabas/broker/replica"
	"barnabas/internal/errcode"
	"barnabas/logstore"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// markerWritten is a marker that has been appended but is not yet known to be on all in-sync replicas.
type markerWritten struct {
	partition *replica.Partition
	epoch     int32 // leader epoch
	end       int64
	out       *kmsg.WriteTxnMarkersResponseMarkerTopicPartition
}

// writeTxnMarkers ends transactions in partitions that this broker leads, at the request of their coordinators
// (KIP-98). It answers when all in-sync replicas have the markers. From then on, offsets that a group committed in such
// a transaction are effective.
func (h *Handlers) writeTxnMarkers(_ context.Context, c *Call, req *kmsg.WriteTxnMarkersRequest) network.Answer {
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	resp.Version = c.Version
	resp.Markers = make([]kmsg.WriteTxnMarkersResponseMarker, len(req.Markers))
	var waits []markerWritten
	var denied error
	if !h.authorize.quietlyCluster(c, acl.Alter) {
		denied = h.authorize.cluster(c, acl.ClusterAction)
	}
	for i := range req.Markers {
		waits = append(waits, h.writeMarkers(&req.Markers[i], denied, &resp.Markers[i])...)
	}
	return network.Later(func(ctx context.Context) network.Response {
		h.awaitMarkers(ctx, waits)
		return resp
	})
}

// writeMarkers appends a transaction's markers and returns those whose replication has to be awaited.
func (h *Handlers) writeMarkers(m *kmsg.WriteTxnMarkersRequestMarker, denied error, answer *kmsg.WriteTxnMarkersResponseMarker) (waits []markerWritten) {
	answer.ProducerID = m.ProducerID
	answer.Topics = make([]kmsg.WriteTxnMarkersResponseMarkerTopic, len(m.Topics))
	for i, t := range m.Topics {
		topic := &answer.Topics[i]
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.WriteTxnMarkersResponseMarkerTopicPartition, len(t.Partitions))
		for j, n := range t.Partitions {
			out := &topic.Partitions[j]
			out.Partition = n
			if denied != nil {
				out.ErrorCode = errcode.Of(denied)
				continue
			}
			part, info, err := h.writeMarker(m, t.Topic, n)
			if err != nil {
				out.ErrorCode = h.codeOf(err)
				continue
			}
			waits = append(waits, markerWritten{part, info.LeaderEpoch, info.LastOffset + 1, out})
		}
	}
	return waits
}

func (h *Handlers) writeMarker(m *kmsg.WriteTxnMarkersRequestMarker, topic string, number int32) (*replica.Partition, logstore.AppendInfo, error) {
	part, ok := h.Replicas.Partition(logstore.TopicPartition{Topic: topic, Partition: number})
	if !ok {
		return nil, logstore.AppendInfo{}, fmt.Errorf("%s-%d is not hosted here: %w", topic, number, kerr.UnknownTopicOrPartition)
	}
	if m.ProducerID < 0 || m.ProducerEpoch < 0 { // a marker of nobody's transaction would stay in the log
		return nil, logstore.AppendInfo{}, fmt.Errorf("a marker for producer %d in epoch %d: %w", m.ProducerID, m.ProducerEpoch, kerr.UnknownServerError)
	}
	info, err := part.Append(markerBatch(m, time.Now()), true, logstore.LeaderAppend{Origin: logstore.Coordinator})
	if err == nil && topic == offsetsTopic {
		h.Groups.TxnMarker(number, group.Marker{
			ProducerID: m.ProducerID, Committed: m.Committed, LeaderEpoch: info.LeaderEpoch, End: info.LastOffset + 1,
		})
	}
	return part, info, err
}

// markerBatch returns the control batch that ends a transaction. Its record: key int16 version 0, int16 type (0 abort,
// 1 commit); value int16 version 0, int32 coordinator epoch.
func markerBatch(m *kmsg.WriteTxnMarkersRequestMarker, now time.Time) record.Batch {
	kind := uint16(0)
	if m.Committed {
		kind = 1
	}
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(m.CoordinatorEpoch))
	b := record.NewBuilder()
	b.ProducerID, b.ProducerEpoch = m.ProducerID, m.ProducerEpoch
	b.Transactional, b.Control = true, true
	b.Add(now.UnixMilli(), key, value)
	return b.MustBuild()
}

func (h *Handlers) awaitMarkers(ctx context.Context, waits []markerWritten) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.Config.Current().RequestTimeout, kerr.RequestTimedOut)
	defer cancel()
	for _, w := range waits {
		if err := w.partition.AwaitReplicated(ctx, w.epoch, w.end); err != nil {
			w.out.ErrorCode = errcode.Of(err)
		}
	}
}
