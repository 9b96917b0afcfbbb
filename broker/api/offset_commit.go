package api

import (
	"context"
	"fmt"
	"time"
	"unicode/utf16"

	"barnabas/broker/acl"
	"barnabas/broker/group"
	"barnabas/internal/errcode"
	"barnabas/logstore"
	"barnabas/network"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commits collects the offsets of a request that may be committed, and where their errors go.
type commits struct {
	offsets []group.Offset
	codes   []*int16
}

func (c *commits) add(o group.Offset, code *int16) {
	c.offsets = append(c.offsets, o)
	c.codes = append(c.codes, code)
}

// fill gives each offset its own error or the common one.
func (c *commits) fill(h *Handlers, err error) {
	for i, o := range c.offsets {
		if *c.codes[i] = h.codeOf(err); o.Err != nil {
			*c.codes[i] = errcode.Of(o.Err)
		}
	}
}

// storeOffsets commits the collected offsets and answers when they are stored.
func (h *Handlers) storeOffsets(c *Call, by group.Committer, cs *commits, resp kmsg.Response) network.Answer {
	if len(cs.offsets) == 0 {
		return ready(c, resp)
	}
	wait, err := h.Groups.Commit(by, cs.offsets)
	if err != nil || wait == nil {
		cs.fill(h, err)
		return ready(c, resp)
	}
	resp.SetVersion(c.Version)
	return network.Later(func(ctx context.Context) network.Response {
		cs.fill(h, wait(ctx))
		return resp
	})
}

// offsetCommit stores a group's offsets.
//
// v0: in ZooKeeper. v1: in the group's partition of __consumer_offsets, with a timestamp. v2-4: with a retention time.
// v6: with a leader epoch (KIP-320). v7: static members (KIP-345).
func (h *Handlers) offsetCommit(ctx context.Context, c *Call, req *kmsg.OffsetCommitRequest) network.Answer {
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	all := h.authorize.group(c, acl.Read, req.Group)
	if all == nil {
		all = h.checkInstance(req.InstanceID)
	}
	topics := h.authorize.topics(c, acl.Read)
	var cs commits
	for i := range req.Topics {
		t, out := &req.Topics[i], &resp.Topics[i]
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p, outcome := &t.Partitions[j], &out.Partitions[j]
			outcome.Partition = p.Partition
			err := all
			if err == nil {
				err = h.mayUseOffset(&topics, t.Topic, p.Partition)
			}
			switch tp := (logstore.TopicPartition{Topic: t.Topic, Partition: p.Partition}); {
			case err != nil:
				outcome.ErrorCode = errcode.Of(err)
			case c.Version == 0:
				outcome.ErrorCode = h.codeOf(h.commitToZooKeeper(ctx, req.Group, tp, p.Offset, p.Metadata))
			default:
				cs.add(committed(req, tp, p), &outcome.ErrorCode)
			}
		}
	}
	by := group.Committer{Group: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID, Generation: req.Generation}
	return h.storeOffsets(c, by, &cs, resp)
}

// committed returns an offset of the request, with the times that only some versions have.
func committed(req *kmsg.OffsetCommitRequest, tp logstore.TopicPartition, p *kmsg.OffsetCommitRequestTopicPartition) group.Offset {
	o := group.Offset{Partition: tp, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, CommittedMs: -1, RetentionMs: -1}
	if req.Version == 1 {
		o.CommittedMs = p.Timestamp
	}
	if req.Version >= 2 && req.Version <= 4 {
		o.RetentionMs = req.RetentionTimeMillis
	}
	return o
}

// mayUseOffset checks whether the client may read a topic, as it must in order to commit or delete the offset of one of its
// partitions, and whether the cluster has that partition.
func (h *Handlers) mayUseOffset(mayRead *topics, topic string, number int32) error {
	if err := mayRead.check(topic); err != nil {
		return err
	}
	return h.exists(topic, number)
}

// exists returns UNKNOWN_TOPIC_OR_PARTITION unless the cluster has the partition.
func (h *Handlers) exists(topic string, number int32) error {
	if _, ok := h.Metadata.Current().Partition(topic, number); !ok {
		return fmt.Errorf("%s-%d: %w", topic, number, kerr.UnknownTopicOrPartition)
	}
	return nil
}

// zooKeeperTimeout bounds the ZooKeeper operations of a request.
const zooKeeperTimeout = 30 * time.Second

// commitToZooKeeper stores an offset below /consumers, as clients before 0.8.2 did.
func (h *Handlers) commitToZooKeeper(ctx context.Context, groupID string, tp logstore.TopicPartition, offset int64, metadata *string) error {
	if metadata != nil && len(utf16.Encode([]rune(*metadata))) > h.Config.Current().OffsetMetadataMaxBytes {
		return kerr.OffsetMetadataTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, zooKeeperTimeout)
	defer cancel()
	return h.ZK.SetConsumerOffset(ctx, groupID, zkcoord.TopicPartition(tp), offset)
}
