package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaveGroup removes members from a group.
//
// v3: several members, also by instance (KIP-345). v5: reasons (KIP-800).
func (h *Handlers) leaveGroup(_ context.Context, c *Call, req *kmsg.LeaveGroupRequest) kmsg.Response {
	resp := kmsg.NewPtrLeaveGroupResponse()
	if err := h.authorize.group(c, acl.Read, req.Group); err != nil {
		resp.ErrorCode = errcode.Of(err)
		return resp
	}
	members := req.Members
	if c.Version < 3 {
		only := kmsg.NewLeaveGroupRequestMember()
		only.MemberID = req.MemberID
		members = []kmsg.LeaveGroupRequestMember{only}
	}
	errs, err := h.Groups.Leave(req.Group, members)
	switch {
	case err != nil:
		resp.ErrorCode = h.codeOf(err)
		return resp
	case c.Version < 3:
		resp.ErrorCode = h.codeOf(errs[0])
		return resp
	}
	resp.Members = make([]kmsg.LeaveGroupResponseMember, len(members))
	for i, m := range members {
		resp.Members[i].MemberID, resp.Members[i].InstanceID = m.MemberID, m.InstanceID
		resp.Members[i].ErrorCode = h.codeOf(errs[i])
	}
	return resp
}
