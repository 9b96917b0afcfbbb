package api

import (
	"context"
	"slices"

	"barnabas/broker/acl"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listGroups lists the groups that this broker coordinates: all if the client may describe the cluster, otherwise those
// that it may describe.
//
// v4: in some states (KIP-518). v5: of some types (KIP-848).
func (h *Handlers) listGroups(_ context.Context, c *Call, req *kmsg.ListGroupsRequest) kmsg.Response {
	resp := kmsg.NewPtrListGroupsResponse()
	groups, err := h.Groups.List(req.StatesFilter, req.TypesFilter)
	if !h.authorize.quietlyCluster(c, acl.Describe) {
		groups = slices.DeleteFunc(groups, func(g kmsg.ListGroupsResponseGroup) bool {
			return !h.authorize.quietly(c, acl.Describe, acl.Group, g.Group)
		})
	}
	resp.Groups, resp.ErrorCode = groups, h.codeOf(err)
	return resp
}
