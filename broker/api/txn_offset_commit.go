package api

import (
	"context"

	"barnabas/broker/group"
	"barnabas/logstore"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnOffsetCommit stores offsets that count when the producer's transaction is committed (KIP-98).
//
// v2: with a leader epoch (KIP-320). v3: by a member of the group, which fences those of older generations (KIP-447).
func (h *Handlers) txnOffsetCommit(_ context.Context, c *Call, req *kmsg.TxnOffsetCommitRequest) network.Answer {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	resp.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(req.Topics))
	var cs commits
	for i := range req.Topics {
		t, out := &req.Topics[i], &resp.Topics[i]
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p, outcome := &t.Partitions[j], &out.Partitions[j]
			outcome.Partition = p.Partition
			if err := h.exists(t.Topic, p.Partition); err != nil {
				outcome.ErrorCode = code(err)
				continue
			}
			cs.add(group.Offset{
				Partition: logstore.TopicPartition{Topic: t.Topic, Partition: p.Partition}, Offset: p.Offset,
				LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, CommittedMs: -1, RetentionMs: -1,
			}, &outcome.ErrorCode)
		}
	}
	by := group.Committer{
		Group: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID, Generation: req.Generation,
		Txn: &group.Txn{ProducerID: req.ProducerID, Epoch: req.ProducerEpoch},
	}
	return h.storeOffsets(c, by, &cs, resp)
}
