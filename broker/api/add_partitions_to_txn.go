package api

import (
	"context"
	"errors"
	"fmt"

	"barnabas/broker/acl"
	"barnabas/broker/txn"
	"barnabas/internal/errcode"
	"barnabas/logstore"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fencedCode returns the code of an error for a client that may not know PRODUCER_FENCED: versions before since know
// only INVALID_PRODUCER_EPOCH (KIP-588).
func (h *Handlers) fencedCode(err error, version, since int16) int16 {
	if version < since && errors.Is(err, kerr.ProducerFenced) {
		return kerr.InvalidProducerEpoch.Code
	}
	return h.codeOf(err)
}

// addPartitionsToTxn adds partitions to a producer's transaction (KIP-98), either all or none: if one is refused, the
// others are OPERATION_NOT_ATTEMPTED.
//
// v2: PRODUCER_FENCED (KIP-588). v4: from brokers only, several transactions, and verifying without adding (KIP-890).
func (h *Handlers) addPartitionsToTxn(_ context.Context, c *Call, req *kmsg.AddPartitionsToTxnRequest) network.Answer {
	may, err := h.mayAddPartitions(c, req)
	if err != nil {
		resp := kmsg.NewPtrAddPartitionsToTxnResponse()
		resp.ErrorCode = errcode.Of(err)
		return ready(c, resp)
	}
	return network.Later(func(ctx context.Context) network.Response {
		resp := kmsg.NewPtrAddPartitionsToTxnResponse()
		resp.Version = c.Version
		if c.Version < 4 {
			resp.Topics = h.addPartitions(ctx, c, clientsTransaction(req), may)
			return resp
		}
		for _, t := range req.Transactions {
			out := kmsg.NewAddPartitionsToTxnResponseTransaction()
			out.TransactionalID = t.TransactionalID
			for _, topic := range h.addPartitions(ctx, c, t, may) {
				out.Topics = append(out.Topics, brokersTopic(topic))
			}
			resp.Transactions = append(resp.Transactions, out)
		}
		return resp
	})
}

// rightsInTxn is what a client may do in a transaction. The zero value allows everything.
type rightsInTxn struct {
	all    error // why nothing is allowed
	topics map[string]error
}

// mayAddPartitions checks the client's authorization: brokers need an operation on the cluster, without which the whole
// request is refused; clients need one on the transactional id and on each topic. No client may write to the internal
// topics.
func (h *Handlers) mayAddPartitions(c *Call, req *kmsg.AddPartitionsToTxnRequest) (rightsInTxn, error) {
	if c.Version >= 4 {
		return rightsInTxn{}, h.authorize.cluster(c, acl.ClusterAction)
	}
	may := rightsInTxn{all: h.authorize.txnID(c, acl.Write, req.TransactionalID), topics: make(map[string]error)}
	if may.all != nil {
		return may, nil
	}
	for _, t := range req.Topics {
		err := h.authorize.topic(c, acl.Write, t.Topic)
		if isInternal(t.Topic) {
			err = kerr.TopicAuthorizationFailed
		}
		may.topics[t.Topic] = err
	}
	return may, nil
}

// clientsTransaction returns the only transaction of a request before v4.
func clientsTransaction(req *kmsg.AddPartitionsToTxnRequest) kmsg.AddPartitionsToTxnRequestTransaction {
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.ProducerID, t.ProducerEpoch = req.TransactionalID, req.ProducerID, req.ProducerEpoch
	for _, topic := range req.Topics {
		t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: topic.Topic, Partitions: topic.Partitions})
	}
	return t
}

func brokersTopic(t kmsg.AddPartitionsToTxnResponseTopic) kmsg.AddPartitionsToTxnResponseTransactionTopic {
	out := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
	out.Topic = t.Topic
	for _, p := range t.Partitions {
		answer := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
		answer.Partition, answer.ErrorCode = p.Partition, p.ErrorCode
		out.Partitions = append(out.Partitions, answer)
	}
	return out
}

// addPartitions handles one transaction of a request.
func (h *Handlers) addPartitions(ctx context.Context, c *Call, t kmsg.AddPartitionsToTxnRequestTransaction, may rightsInTxn) []kmsg.AddPartitionsToTxnResponseTopic {
	var asked []logstore.TopicPartition
	for _, topic := range t.Topics {
		for _, n := range topic.Partitions {
			asked = append(asked, logstore.TopicPartition{Topic: topic.Topic, Partition: n})
		}
	}
	errs, all := h.unusable(asked, may), may.all
	by := txn.Identity{ID: t.ProducerID, Epoch: t.ProducerEpoch}
	switch {
	case all != nil:
		errs = nil
	case len(errs) > 0:
		all = fmt.Errorf("another partition was refused: %w", kerr.OperationNotAttempted)
	case t.VerifyOnly:
		errs, all = h.Transactions.Verify(t.TransactionalID, by, asked)
	default:
		all = h.Transactions.AddPartitions(ctx, t.TransactionalID, by, asked)
	}
	answer := make([]kmsg.AddPartitionsToTxnResponseTopic, len(t.Topics))
	for i, topic := range t.Topics {
		answer[i].Topic = topic.Topic
		for _, n := range topic.Partitions {
			err := errs[logstore.TopicPartition{Topic: topic.Topic, Partition: n}]
			if err == nil {
				err = all
			}
			out := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			out.Partition, out.ErrorCode = n, h.fencedCode(err, c.Version, 2)
			answer[i].Partitions = append(answer[i].Partitions, out)
		}
	}
	return answer
}

// unusable returns an error for each partition that the client may not write to or that does not exist.
func (h *Handlers) unusable(asked []logstore.TopicPartition, may rightsInTxn) map[logstore.TopicPartition]error {
	errs := make(map[logstore.TopicPartition]error)
	snapshot := h.Metadata.Current()
	for _, tp := range asked {
		if err := may.topics[tp.Topic]; err != nil {
			errs[tp] = err
			continue
		}
		if _, ok := snapshot.Partition(tp.Topic, tp.Partition); !ok {
			errs[tp] = fmt.Errorf("%v: %w", tp, kerr.UnknownTopicOrPartition)
		}
	}
	return errs
}
