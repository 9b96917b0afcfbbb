package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeGroups describes groups and their members.
//
// v3: authorized operations (KIP-430).
func (h *Handlers) describeGroups(_ context.Context, c *Call, req *kmsg.DescribeGroupsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	for _, id := range req.Groups {
		if err := h.authorize.group(c, acl.Describe, id); err != nil {
			g := kmsg.NewDescribeGroupsResponseGroup()
			g.Group, g.ErrorCode = id, errcode.Of(err)
			resp.Groups = append(resp.Groups, g)
			continue
		}
		g := h.Groups.Describe(id)
		if c.Version >= 3 && req.IncludeAuthorizedOperations && g.ErrorCode == 0 {
			g.AuthorizedOperations = h.authorize.operations(c, acl.Group, id)
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp
}
