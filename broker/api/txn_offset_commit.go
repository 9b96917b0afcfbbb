package api

import (
	"context"
	"errors"
	"fmt"

	"barnabas/broker/acl"
	"barnabas/broker/group"
	"barnabas/broker/txn"
	"barnabas/internal/errcode"
	"barnabas/logstore"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnOffsetCommit stores offsets that take effect when the producer's transaction is committed (KIP-98).
//
// v2: with a leader epoch (KIP-320). v3: by a member of the group, which fences members of older generations (KIP-447).
//
// Before the first offsets of a transaction in a partition, its coordinator is asked, as for Produce (KIP-890, part 1).
func (h *Handlers) txnOffsetCommit(ctx context.Context, c *Call, req *kmsg.TxnOffsetCommitRequest) network.Answer {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	all := h.authorize.txnID(c, acl.Write, req.TransactionalID)
	if all == nil {
		all = h.authorize.group(c, acl.Read, req.Group)
	}
	var noGroup error // the first check after those of topics and partitions
	if req.Group == "" {
		noGroup = kerr.InvalidGroupID
	}
	topics := h.authorize.topics(c, acl.Read)
	resp.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(req.Topics))
	var cs commits
	for i := range req.Topics {
		t, out := &req.Topics[i], &resp.Topics[i]
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p, outcome := &t.Partitions[j], &out.Partitions[j]
			outcome.Partition = p.Partition
			err := all
			if err == nil {
				err = h.mayUseOffset(&topics, t.Topic, p.Partition)
			}
			if err == nil {
				err = noGroup
			}
			if err != nil {
				outcome.ErrorCode = errcode.Of(err)
				continue
			}
			cs.add(group.Offset{
				Partition: logstore.TopicPartition{Topic: t.Topic, Partition: p.Partition}, Offset: p.Offset,
				LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, CommittedMs: -1, RetentionMs: -1,
			}, &outcome.ErrorCode)
		}
	}
	if len(cs.offsets) == 0 {
		return ready(c, resp)
	}
	by := group.Committer{
		Group: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID, Generation: req.Generation,
		Txn: &group.Txn{ProducerID: req.ProducerID, Epoch: req.ProducerEpoch},
	}
	if err := h.verifyOffsets(ctx, req, by.Txn); err != nil {
		cs.fill(h, err)
		return ready(c, resp)
	}
	return h.storeOffsets(c, by, &cs, resp)
}

// verifyOffsets checks that the group's offsets belong to the transaction in which they are committed. Its errors have
// codes that every client knows (GroupCoordinator.handleTxnCommitOffsets, 3.9).
func (h *Handlers) verifyOffsets(ctx context.Context, req *kmsg.TxnOffsetCommitRequest, t *group.Txn) error {
	if !h.Config.Current().TransactionPartitionVerify {
		return nil
	}
	tp := logstore.TopicPartition{Topic: offsetsTopic, Partition: h.offsetsPartition(req.Group)}
	by := txn.Identity{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	var v txnVerification
	h.verifyTransaction(ctx, req.TransactionalID, by, map[logstore.TopicPartition]int32{tp: record.NoSequence}, &v)
	t.Verify, t.Guard = v.verify, v.guards[tp]
	switch err := v.errs[tp]; {
	case errors.Is(err, kerr.ProducerFenced):
		return fmt.Errorf("%v: %w", err, kerr.InvalidProducerEpoch)
	case errors.Is(err, kerr.NetworkException):
		return fmt.Errorf("%v: %w", err, kerr.CoordinatorLoadInProgress)
	case errors.Is(err, kerr.TransactionAbortable) && req.Version < 4, errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("%v: %w", err, kerr.InvalidTxnState)
	default:
		return err
	}
}
