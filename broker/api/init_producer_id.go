package api

import (
	"context"
	"fmt"
	"time"

	"barnabas/broker/acl"
	"barnabas/broker/txn"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// initProducerID assigns a producer id, or the next epoch of a transactional producer (KIP-98).
//
// v3: the producer's current id and epoch (KIP-360). v4: PRODUCER_FENCED (KIP-588).
func (h *Handlers) initProducerID(_ context.Context, c *Call, req *kmsg.InitProducerIDRequest) network.Answer {
	var denied error
	if req.TransactionalID != nil {
		denied = h.authorize.txnID(c, acl.Write, *req.TransactionalID)
	} else {
		denied = h.authorize.idempotentWrite(c)
	}
	return network.Later(func(ctx context.Context) network.Response {
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.Version = c.Version
		given, err := txn.Identity{}, denied
		if err == nil {
			given, err = h.newProducerID(ctx, req)
		}
		if err != nil {
			resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = h.fencedCode(err, c.Version, 4), -1, -1
			return resp
		}
		resp.ProducerID, resp.ProducerEpoch = given.ID, given.Epoch
		return resp
	})
}

func (h *Handlers) newProducerID(ctx context.Context, req *kmsg.InitProducerIDRequest) (txn.Identity, error) {
	if (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
		return txn.Identity{}, fmt.Errorf("producer id %d with epoch %d: %w", req.ProducerID, req.ProducerEpoch, kerr.InvalidRequest)
	}
	if req.TransactionalID == nil {
		id, err := h.ProducerIDs.Wait(ctx)
		return txn.Identity{ID: id}, err
	}
	var have *txn.Identity
	if req.ProducerID != -1 {
		have = &txn.Identity{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	}
	timeout := time.Duration(req.TransactionTimeoutMillis) * time.Millisecond
	return h.Transactions.InitProducerID(ctx, *req.TransactionalID, timeout, have)
}
