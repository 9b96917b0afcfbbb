package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/broker/txn"
	"barnabas/internal/javahash"
	"barnabas/logstore"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// addOffsetsToTxn adds a group's offsets to a producer's transaction, that is, the partition of the internal topic that
// stores them (KIP-98).
//
// v2: PRODUCER_FENCED (KIP-588).
func (h *Handlers) addOffsetsToTxn(_ context.Context, c *Call, req *kmsg.AddOffsetsToTxnRequest) network.Answer {
	denied := h.authorize.txnID(c, acl.Write, req.TransactionalID)
	if denied == nil {
		denied = h.authorize.group(c, acl.Read, req.Group)
	}
	return network.Later(func(ctx context.Context) network.Response {
		resp := kmsg.NewPtrAddOffsetsToTxnResponse()
		resp.Version = c.Version
		by := txn.Identity{ID: req.ProducerID, Epoch: req.ProducerEpoch}
		offsets := logstore.TopicPartition{Topic: offsetsTopic, Partition: h.offsetsPartition(req.Group)}
		err := denied
		if err == nil {
			err = h.Transactions.AddPartitions(ctx, req.TransactionalID, by, []logstore.TopicPartition{offsets})
		}
		resp.ErrorCode = h.fencedCode(err, c.Version, 2)
		return resp
	})
}

// offsetsPartition returns the partition of the internal topic that stores a group.
func (h *Handlers) offsetsPartition(group string) int32 {
	count := h.Config.Current().OffsetsTopicPartitions
	if t := h.Metadata.Current().Topics[offsetsTopic]; t != nil {
		count = len(t.Partitions)
	}
	return javahash.PartitionFor(group, count)
}
