package api

import (
	"context"
	"fmt"

	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Control answers a request that this broker sends to itself: from the controller to its own broker, from a broker to
// its own controller, or from a transaction coordinator to a leader. It is handled like any other request, but without
// being encoded.
func (h *Handlers) Control(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	c := &Call{Request: &network.Request{Key: req.Key(), Version: req.GetVersion()}}
	var resp kmsg.Response
	switch r := req.(type) {
	case *kmsg.LeaderAndISRRequest:
		resp = h.leaderAndISR(ctx, c, r)
	case *kmsg.UpdateMetadataRequest:
		resp = h.updateMetadata(ctx, c, r)
	case *kmsg.StopReplicaRequest:
		resp = h.stopReplica(ctx, c, r)
	case *kmsg.AlterPartitionRequest:
		resp = h.alterPartition(ctx, c, r)
	case *kmsg.AllocateProducerIDsRequest:
		resp = h.allocateProducerIDs(ctx, c, r)
	case *kmsg.ControlledShutdownRequest:
		resp = h.controlledShutdown(ctx, c, r)
	case *kmsg.WriteTxnMarkersRequest:
		resp = h.writeTxnMarkers(ctx, c, r).Wait(ctx).(kmsg.Response)
	default:
		return nil, fmt.Errorf("%s is not a request that a broker sends to itself", kmsg.NameForKey(req.Key()))
	}
	resp.SetVersion(c.Version)
	return resp, nil
}
