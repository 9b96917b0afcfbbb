package api

import (
	"context"
	"fmt"

	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetFetch tells which offsets groups have committed.
//
// v0: those in ZooKeeper. v2: an error for the request, and all topics when none are named. v5: leader epochs (KIP-320).
// v7: only stable offsets when asked so (KIP-447). v8: several groups (KIP-709).
func (h *Handlers) offsetFetch(ctx context.Context, c *Call, req *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetFetchResponse()
	switch {
	case c.Version == 0:
		resp.Topics = h.fetchFromZooKeeper(ctx, req)
		return resp
	case c.Version < 8:
		only := h.fetchOffsets(req.Group, groupTopics(req.Topics), req.RequireStable)
		if c.Version == 1 && only.ErrorCode != 0 {
			only.Topics = failedTopics(req.Topics, only.ErrorCode)
		}
		resp.ErrorCode, resp.Topics = only.ErrorCode, plainTopics(only.Topics)
		return resp
	}
	for _, g := range req.Groups {
		resp.Groups = append(resp.Groups, h.fetchOffsets(g.Group, g.Topics, req.RequireStable))
	}
	return resp
}

func (h *Handlers) fetchOffsets(groupID string, topics []kmsg.OffsetFetchRequestGroupTopic, stable bool) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	found, err := h.Groups.FetchOffsets(groupID, topics, stable)
	out.Group, out.Topics, out.ErrorCode = groupID, found, h.codeOf(err)
	return out
}

// groupTopics brings the topics of an old request into the form of version 8; nil stays nil, it stands for all.
func groupTopics(topics []kmsg.OffsetFetchRequestTopic) []kmsg.OffsetFetchRequestGroupTopic {
	if topics == nil {
		return nil
	}
	out := make([]kmsg.OffsetFetchRequestGroupTopic, len(topics))
	for i, t := range topics {
		out[i].Topic, out[i].Partitions = t.Topic, t.Partitions
	}
	return out
}

// plainTopics brings the topics of an answer into the form of before version 8.
func plainTopics(topics []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseTopic {
	out := make([]kmsg.OffsetFetchResponseTopic, len(topics))
	for i, t := range topics {
		out[i].Topic = t.Topic
		out[i].Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, len(t.Partitions))
		for j, p := range t.Partitions {
			q := &out[i].Partitions[j]
			q.Partition, q.Offset, q.LeaderEpoch, q.Metadata, q.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
		}
	}
	return out
}

// failedTopics answers each partition with the request's error, for which version 1 has no field.
func failedTopics(topics []kmsg.OffsetFetchRequestTopic, code int16) []kmsg.OffsetFetchResponseGroupTopic {
	out := make([]kmsg.OffsetFetchResponseGroupTopic, len(topics))
	for i, t := range topics {
		out[i].Topic = t.Topic
		for _, number := range t.Partitions {
			p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = number, -1, -1, new(string), code
			out[i].Partitions = append(out[i].Partitions, p)
		}
	}
	return out
}

// fetchFromZooKeeper reads the offsets that clients before 0.8.2 stored. A partition that is unknown or has none gets
// offset -1 with UNKNOWN_TOPIC_OR_PARTITION.
func (h *Handlers) fetchFromZooKeeper(ctx context.Context, req *kmsg.OffsetFetchRequest) []kmsg.OffsetFetchResponseTopic {
	ctx, cancel := context.WithTimeout(ctx, zooKeeperTimeout)
	defer cancel()
	out := make([]kmsg.OffsetFetchResponseTopic, len(req.Topics))
	for i, t := range req.Topics {
		out[i].Topic = t.Topic
		out[i].Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, len(t.Partitions))
		for j, number := range t.Partitions {
			p := &out[i].Partitions[j]
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = number, -1, -1, new(string)
			offset, err := h.offsetInZooKeeper(ctx, req.Group, logstore.TopicPartition{Topic: t.Topic, Partition: number})
			if err != nil {
				p.ErrorCode = h.codeOf(err)
				continue
			}
			p.Offset = offset
		}
	}
	return out
}

// errNoOffset is how a partition without an offset looked before there was another way to say it.
var errNoOffset = fmt.Errorf("no offset is stored: %w", kerr.UnknownTopicOrPartition)

func (h *Handlers) offsetInZooKeeper(ctx context.Context, groupID string, tp logstore.TopicPartition) (int64, error) {
	if err := h.exists(tp.Topic, tp.Partition); err != nil {
		return -1, err
	}
	offset, found, err := h.ZK.ConsumerOffset(ctx, groupID, zkcoord.TopicPartition(tp))
	if err == nil && !found {
		err = errNoOffset
	}
	return offset, err
}
