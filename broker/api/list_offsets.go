package api

import (
	"context"
	"fmt"

	"barnabas/broker/acl"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Special timestamps, which name a place in the log.
const (
	latestOffset   = -1
	earliestOffset = -2
	maxTimestamp   = -3 // v7 (KIP-734)
	earliestLocal  = -4 // v8 (KIP-405)
	latestTiered   = -5 // v9 (KIP-1005)
)

// Replica ids of clients.
const (
	consumerReplica  = -1
	debuggingReplica = -2 // may ask any replica
)

// found is a result; if nothing was found, offset, timestamp and epoch are -1.
type found struct {
	offset, timestamp int64
	epoch             int32
}

var nothingFound = found{-1, -1, -1}

// listOffsets finds offsets by time, or the ends of the log. v0: a list of segment starts.
func (h *Handlers) listOffsets(_ context.Context, c *Call, req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(req.Topics))
	topics := h.authorize.topics(c, acl.Describe)
	twice := repeated(req.Topics)
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := &resp.Topics[i]
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p, out := &t.Partitions[j], &topic.Partitions[j]
			out.Default()
			out.Partition = p.Partition
			err := topics.check(t.Topic)
			if err == nil {
				err = h.listOffset(c, req, t.Topic, p, twice, out)
			}
			if err != nil {
				out.ErrorCode, out.Offset, out.Timestamp, out.LeaderEpoch = h.codeOf(err), -1, -1, -1
			}
		}
	}
	return resp
}

// listOffset answers for one partition, unless it returns an error.
func (h *Handlers) listOffset(c *Call, req *kmsg.ListOffsetsRequest, topic string, p *kmsg.ListOffsetsRequestTopicPartition, twice map[logstore.TopicPartition]bool, out *kmsg.ListOffsetsResponseTopicPartition) (err error) {
	switch {
	case c.Version == 0:
		if err = timestampKnown(p.Timestamp, c.Version); err == nil {
			out.OldStyleOffsets, err = h.oldStyleOffsets(req, topic, p)
		}
		return err
	case req.IsolationLevel < 0 || req.IsolationLevel > 1:
		return fmt.Errorf("isolation level %d: %w", req.IsolationLevel, kerr.UnknownServerError)
	case twice[logstore.TopicPartition{Topic: topic, Partition: p.Partition}]:
		return fmt.Errorf("partition %d appears twice in one request: %w", p.Partition, kerr.InvalidRequest)
	}
	f, err := h.findOffset(c, req, topic, p)
	out.Offset, out.Timestamp, out.LeaderEpoch = f.offset, f.timestamp, f.epoch
	return err
}

// repeated returns the partitions that are listed more than once, be it in one list or in two for the same topic.
func repeated(topics []kmsg.ListOffsetsRequestTopic) map[logstore.TopicPartition]bool {
	if len(topics) == 0 || len(topics) == 1 && len(topics[0].Partitions) < 2 {
		return nil
	}
	seen := make(map[logstore.TopicPartition]bool) // true: more than once
	for _, t := range topics {
		for _, p := range t.Partitions {
			tp := logstore.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			_, again := seen[tp]
			seen[tp] = again
		}
	}
	return seen
}

// knownSince returns the version that introduced a special timestamp.
func knownSince(timestamp int64) int16 {
	switch timestamp {
	case latestOffset, earliestOffset:
		return 0
	case maxTimestamp:
		return 7
	case earliestLocal:
		return 8
	case latestTiered:
		return 9
	}
	if timestamp < 0 {
		return 1<<15 - 1
	}
	return 0
}

// timestampKnown checks that a request's version has a meaning for a timestamp.
func timestampKnown(timestamp int64, version int16) error {
	if version < knownSince(timestamp) {
		return fmt.Errorf("timestamp %d in ListOffsets v%d: %w", timestamp, version, kerr.UnsupportedVersion)
	}
	return nil
}

func (h *Handlers) findOffset(c *Call, req *kmsg.ListOffsetsRequest, topic string, p *kmsg.ListOffsetsRequestTopicPartition) (found, error) {
	if err := timestampKnown(p.Timestamp, c.Version); err != nil {
		return nothingFound, err // also for a partition that does not exist, as in Apache Kafka
	}
	part, err := h.partition(topic, p.Partition)
	if err != nil {
		return nothingFound, err
	}
	if err := part.Check(p.CurrentLeaderEpoch, req.ReplicaID != debuggingReplica); err != nil {
		return nothingFound, err
	}
	epoch, unknown := part.State().LeaderEpoch, part.EndKnown() // before the high watermark is read
	var f found
	err = part.ReadLog(func(log *logstore.Log) error {
		f, err = findInLog(log, epoch, req, p.Timestamp)
		return err
	})
	if unknown != nil && err == nil && req.ReplicaID == consumerReplica && dependsOnEnd(p.Timestamp, f) {
		return nothingFound, endNotKnown(unknown, c.Version)
	}
	return f, err
}

// dependsOnEnd reports whether a result may be another one when the high watermark is known.
func dependsOnEnd(timestamp int64, f found) bool {
	switch timestamp {
	case latestOffset:
		return true
	case earliestOffset, earliestLocal, latestTiered:
		return false
	}
	return f == nothingFound
}

// endNotKnown returns LEADER_NOT_AVAILABLE instead of OFFSET_NOT_AVAILABLE to clients that do not know that.
func endNotKnown(err error, version int16) error {
	if version < 5 {
		return fmt.Errorf("%v: %w", err, kerr.LeaderNotAvailable)
	}
	return err
}

func findInLog(log *logstore.Log, leaderEpoch int32, req *kmsg.ListOffsetsRequest, timestamp int64) (found, error) {
	limit := visibleEnd(log, req)
	switch timestamp {
	case latestOffset:
		return found{limit, -1, leaderEpoch}, nil
	case earliestOffset:
		return found{log.LogStartOffset(), -1, log.EarliestEpoch()}, nil
	}
	if magic := log.Config().Magic; magic < 1 {
		return nothingFound, fmt.Errorf("%v has message format %d, which has no timestamps: %w", log.TopicPartition(), magic, kerr.UnsupportedForMessageFormat)
	}
	switch timestamp {
	case earliestLocal:
		return found{log.LogStartOffset(), -1, log.EarliestEpoch()}, nil
	case latestTiered:
		return nothingFound, nil // nothing is tiered
	case maxTimestamp:
		offset, ts, epoch, ok, err := log.OffsetOfMaxTimestamp()
		return visible(offset, ts, epoch, ok, limit), err
	}
	offset, ts, epoch, ok, err := log.OffsetForTime(timestamp)
	return visible(offset, ts, epoch, ok, limit), err
}

// visibleEnd returns where the requester's view ends: for consumers according to their isolation level, for replicas and
// debugging clients at the log end.
func visibleEnd(log *logstore.Log, req *kmsg.ListOffsetsRequest) int64 {
	switch {
	case req.ReplicaID != consumerReplica:
		return log.LogEndOffset()
	case req.IsolationLevel == 1:
		return log.LastStableOffset()
	}
	return log.HighWatermark()
}

func visible(offset, ts int64, epoch int32, ok bool, limit int64) found {
	if !ok || offset >= limit {
		return nothingFound
	}
	return found{offset, ts, epoch}
}

func (h *Handlers) oldStyleOffsets(req *kmsg.ListOffsetsRequest, topic string, p *kmsg.ListOffsetsRequestTopicPartition) ([]int64, error) {
	part, err := h.partition(topic, p.Partition)
	if err != nil {
		return nil, err
	}
	if err := part.Check(-1, req.ReplicaID != debuggingReplica); err != nil {
		return nil, err
	}
	var offsets []int64
	err = part.ReadLog(func(log *logstore.Log) error {
		offsets, err = log.LegacyOffsetsBefore(p.Timestamp, int(p.MaxNumOffsets))
		return err
	})
	if err != nil || req.ReplicaID != consumerReplica {
		return offsets, err
	}
	// A consumer must not see beyond the high watermark.
	hw := part.Log().HighWatermark()
	for len(offsets) > 0 && offsets[0] > hw {
		offsets = offsets[1:]
		if len(offsets) == 0 || offsets[0] < hw {
			offsets = append([]int64{hw}, offsets...)
		}
	}
	return offsets, nil
}
