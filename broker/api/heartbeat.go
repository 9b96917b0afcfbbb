package api

import (
	"context"

	"barnabas/broker/acl"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// heartbeat keeps a member's session alive; REBALANCE_IN_PROGRESS tells the member to rejoin.
func (h *Handlers) heartbeat(_ context.Context, c *Call, req *kmsg.HeartbeatRequest) kmsg.Response {
	resp := kmsg.NewPtrHeartbeatResponse()
	err := h.checkInstance(req.InstanceID)
	if err == nil {
		err = h.authorize.group(c, acl.Read, req.Group)
	}
	if err == nil {
		err = h.Groups.Heartbeat(req)
	}
	resp.ErrorCode = h.codeOf(err)
	return resp
}
