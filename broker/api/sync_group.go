package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/internal/errcode"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// syncGroup returns a member's assignment, and takes those of all members from the leader.
//
// v5: the protocol's type and name, which are mandatory (KIP-559).
func (h *Handlers) syncGroup(_ context.Context, c *Call, req *kmsg.SyncGroupRequest) network.Answer {
	err := h.checkInstance(req.InstanceID)
	if err == nil && c.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		err = kerr.InconsistentGroupProtocol
	}
	if err == nil {
		err = h.authorize.group(c, acl.Read, req.Group)
	}
	if err != nil {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode, resp.MemberAssignment = errcode.Of(err), []byte{}
		return ready(c, resp)
	}
	return later(c, h.Groups.Sync(req))
}
