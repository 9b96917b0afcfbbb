package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// initProducerID gives out a producer id. v3: the producer's current id and epoch (KIP-360).
func (h *Handlers) initProducerID(_ context.Context, _ *Call, req *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := kmsg.NewPtrInitProducerIDResponse()
	id, err := h.newProducerID(req)
	if err != nil {
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = h.codeOf(err), -1, -1
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp
}

func (h *Handlers) newProducerID(req *kmsg.InitProducerIDRequest) (int64, error) {
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "":
		return -1, fmt.Errorf("the transactional id is empty: %w", kerr.InvalidRequest)
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		return -1, fmt.Errorf("producer id %d with epoch %d: %w", req.ProducerID, req.ProducerEpoch, kerr.InvalidRequest)
	case req.TransactionalID != nil:
		return -1, fmt.Errorf("transactional id %q: %w", *req.TransactionalID, kerr.NotCoordinator)
	}
	return h.ProducerIDs.Next()
}
