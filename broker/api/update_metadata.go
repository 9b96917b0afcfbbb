package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// updateMetadata takes over the controller's picture of the cluster.
func (h *Handlers) updateMetadata(_ context.Context, _ *Call, req *kmsg.UpdateMetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrUpdateMetadataResponse()
	err := h.checkBrokerEpoch(req.BrokerEpoch)
	if err == nil {
		err = h.Replicas.CheckControllerEpoch(req.ControllerEpoch)
	}
	if err != nil {
		resp.ErrorCode = code(err)
		return resp
	}
	h.Metadata.Update(req)
	return resp
}
