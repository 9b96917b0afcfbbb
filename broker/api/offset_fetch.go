package api

import (
	"context"
	"fmt"
	"slices"

	"barnabas/broker/acl"
	"barnabas/internal/errcode"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetFetch returns the committed offsets of groups.
//
// v0: those in ZooKeeper. v2: an error for the request, and all topics if none are named. v5: leader epochs (KIP-320).
// v7: only stable offsets if requested (KIP-447). v8: several groups (KIP-709).
func (h *Handlers) offsetFetch(ctx context.Context, c *Call, req *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetFetchResponse()
	switch {
	case c.Version == 0:
		resp.Topics = h.fetchFromZooKeeper(ctx, c, req)
		return resp
	case c.Version < 8:
		only := h.fetchOffsets(c, req.Group, groupTopics(req.Topics), req.RequireStable)
		if c.Version == 1 && only.ErrorCode != 0 {
			only.Topics = failedTopics(req.Topics, only.ErrorCode)
		}
		resp.ErrorCode, resp.Topics = only.ErrorCode, plainTopics(only.Topics)
		return resp
	}
	for _, g := range req.Groups {
		resp.Groups = append(resp.Groups, h.fetchOffsets(c, g.Group, g.Topics, req.RequireStable))
	}
	return resp
}

// fetchOffsets returns a group's offsets for the requested topics, nil for all. Topics that the client may not describe
// are left out, or refused if the client has named them.
func (h *Handlers) fetchOffsets(c *Call, groupID string, topics []kmsg.OffsetFetchRequestGroupTopic, stable bool) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = groupID
	if err := h.authorize.group(c, acl.Describe, groupID); err != nil {
		out.ErrorCode = errcode.Of(err)
		return out
	}
	describable := h.authorize.topics(c, acl.Describe)
	var refused []kmsg.OffsetFetchResponseGroupTopic
	asked := topics
	if !h.authorize.unrestricted(c) && topics != nil {
		asked = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(topics))
		for _, t := range topics {
			if err := describable.check(t.Topic); err != nil {
				refused = append(refused, failedTopic(t.Topic, t.Partitions, errcode.Of(err)))
				continue
			}
			asked = append(asked, t)
		}
	}
	found, err := h.Groups.FetchOffsets(groupID, asked, stable)
	if err != nil {
		out.ErrorCode = h.codeOf(err)
		out.Topics = found
		return out
	}
	if topics == nil {
		found = slices.DeleteFunc(found, func(t kmsg.OffsetFetchResponseGroupTopic) bool { return describable.check(t.Topic) != nil })
	}
	out.Topics = append(found, refused...)
	return out
}

// groupTopics converts the topics of an old request to the form of version 8; nil, which stands for all, stays nil.
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

// plainTopics converts the topics of a response to the form before version 8.
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
		out[i] = failedTopic(t.Topic, t.Partitions, code)
	}
	return out
}

func failedTopic(topic string, partitions []int32, code int16) kmsg.OffsetFetchResponseGroupTopic {
	out := kmsg.NewOffsetFetchResponseGroupTopic()
	out.Topic = topic
	for _, number := range partitions {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = number, -1, -1, new(string), code
		out.Partitions = append(out.Partitions, p)
	}
	return out
}

// fetchFromZooKeeper reads the offsets that clients before 0.8.2 stored. A partition that is unknown or has no offset
// gets -1 with UNKNOWN_TOPIC_OR_PARTITION.
func (h *Handlers) fetchFromZooKeeper(ctx context.Context, c *Call, req *kmsg.OffsetFetchRequest) []kmsg.OffsetFetchResponseTopic {
	ctx, cancel := context.WithTimeout(ctx, zooKeeperTimeout)
	defer cancel()
	all := h.authorize.group(c, acl.Describe, req.Group)
	topics := h.authorize.topics(c, acl.Describe)
	out := make([]kmsg.OffsetFetchResponseTopic, len(req.Topics))
	for i, t := range req.Topics {
		out[i].Topic = t.Topic
		out[i].Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, len(t.Partitions))
		for j, number := range t.Partitions {
			p := &out[i].Partitions[j]
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = number, -1, -1, new(string)
			offset, err := int64(-1), all
			if err == nil {
				err = topics.check(t.Topic)
			}
			if err == nil {
				offset, err = h.offsetInZooKeeper(ctx, req.Group, logstore.TopicPartition{Topic: t.Topic, Partition: number})
			}
			if err != nil {
				p.ErrorCode = h.codeOf(err)
				continue
			}
			p.Offset = offset
		}
	}
	return out
}

// errNoOffset reports that a partition has no offset, before the protocol had another way to say so.
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
