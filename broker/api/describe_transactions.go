package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeTransactions describes transactional ids that this broker coordinates (KIP-664).
func (h *Handlers) describeTransactions(_ context.Context, c *Call, req *kmsg.DescribeTransactionsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	for _, id := range req.TransactionalIDs {
		resp.TransactionStates = append(resp.TransactionStates, h.describeTransaction(c, id))
	}
	return resp
}

func (h *Handlers) describeTransaction(c *Call, id string) kmsg.DescribeTransactionsResponseTransactionState {
	out := kmsg.NewDescribeTransactionsResponseTransactionState()
	out.TransactionalID = id
	if err := h.authorize.txnID(c, acl.Describe, id); err != nil {
		out.ErrorCode = errcode.Of(err)
		return out
	}
	d, err := h.Transactions.Describe(id)
	if err != nil {
		out.ErrorCode = h.codeOf(err)
		return out
	}
	out.State, out.TimeoutMillis, out.StartTimestamp = d.State.String(), int32(d.Timeout.Milliseconds()), d.Started
	out.ProducerID, out.ProducerEpoch = d.ID, d.Epoch
	topics := h.authorize.topics(c, acl.Describe)
	for _, tp := range d.Partitions {
		if topics.check(tp.Topic) != nil {
			continue
		}
		if n := len(out.Topics); n == 0 || out.Topics[n-1].Topic != tp.Topic {
			t := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			t.Topic = tp.Topic
			out.Topics = append(out.Topics, t)
		}
		t := &out.Topics[len(out.Topics)-1]
		t.Partitions = append(t.Partitions, tp.Partition)
	}
	return out
}
