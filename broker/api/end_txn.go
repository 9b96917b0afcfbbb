package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/broker/txn"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// endTxn commits or aborts a transaction (KIP-98). It answers when the outcome is decided; the markers follow.
//
// v2: PRODUCER_FENCED (KIP-588).
func (h *Handlers) endTxn(_ context.Context, c *Call, req *kmsg.EndTxnRequest) network.Answer {
	denied := h.authorize.txnID(c, acl.Write, req.TransactionalID)
	return network.Later(func(ctx context.Context) network.Response {
		resp := kmsg.NewPtrEndTxnResponse()
		resp.Version = c.Version
		by := txn.Identity{ID: req.ProducerID, Epoch: req.ProducerEpoch}
		err := denied
		if err == nil {
			err = h.Transactions.EndTxn(ctx, req.TransactionalID, by, req.Commit)
		}
		resp.ErrorCode = h.fencedCode(err, c.Version, 2)
		return resp
	})
}
