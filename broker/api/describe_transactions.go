package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeTransactions tells about transactional ids that this broker coordinates (KIP-664).
func (h *Handlers) describeTransactions(_ context.Context, _ *Call, req *kmsg.DescribeTransactionsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	for _, id := range req.TransactionalIDs {
		resp.TransactionStates = append(resp.TransactionStates, h.describeTransaction(id))
	}
	return resp
}

func (h *Handlers) describeTransaction(id string) kmsg.DescribeTransactionsResponseTransactionState {
	out := kmsg.NewDescribeTransactionsResponseTransactionState()
	out.TransactionalID = id
	d, err := h.Transactions.Describe(id)
	if err != nil {
		out.ErrorCode = h.codeOf(err)
		return out
	}
	out.State, out.TimeoutMillis, out.StartTimestamp = d.State.String(), int32(d.Timeout.Milliseconds()), d.Started
	out.ProducerID, out.ProducerEpoch = d.ID, d.Epoch
	for _, tp := range d.Partitions {
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
