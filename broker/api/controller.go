package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The requests of this file are the controller's to answer; the handlers pass them on.

func (h *Handlers) controlledShutdown(ctx context.Context, _ *Call, req *kmsg.ControlledShutdownRequest) kmsg.Response {
	return h.Controller.ControlledShutdown(ctx, req)
}

func (h *Handlers) alterPartition(ctx context.Context, _ *Call, req *kmsg.AlterPartitionRequest) kmsg.Response {
	return h.Controller.AlterPartition(ctx, req)
}

func (h *Handlers) allocateProducerIDs(ctx context.Context, _ *Call, req *kmsg.AllocateProducerIDsRequest) kmsg.Response {
	return h.Controller.AllocateProducerIDs(ctx, req)
}

func (h *Handlers) alterPartitionReassignments(ctx context.Context, _ *Call, req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	resp := h.Controller.AlterPartitionReassignments(ctx, req)
	if resp.ErrorCode == 0 {
		resp.ErrorMessage = noMessage()
	}
	return resp
}

func (h *Handlers) listPartitionReassignments(ctx context.Context, _ *Call, req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	resp := h.Controller.ListPartitionReassignments(ctx, req)
	if resp.ErrorCode == 0 {
		resp.ErrorMessage = noMessage()
	}
	return resp
}

func (h *Handlers) updateFeatures(ctx context.Context, _ *Call, req *kmsg.UpdateFeaturesRequest) kmsg.Response {
	return h.Controller.UpdateFeatures(ctx, req)
}

// waiting gives a context that ends, with REQUEST_TIMED_OUT as its cause, when the request's time is up.
func (c *Call) waiting(ctx context.Context, timeoutMillis int32) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(ctx, c.Arrived.Add(time.Duration(timeoutMillis)*time.Millisecond), kerr.RequestTimedOut)
}
