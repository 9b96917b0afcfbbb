package api

import (
	"context"

	"barnabas/broker/acl"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteGroups removes groups without members, with their offsets (KIP-229).
func (h *Handlers) deleteGroups(_ context.Context, c *Call, req *kmsg.DeleteGroupsRequest) kmsg.Response {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	answered := make(map[string]bool)
	for _, id := range req.Groups {
		if answered[id] {
			continue
		}
		answered[id] = true
		err := h.authorize.group(c, acl.Delete, id)
		if err == nil {
			err = h.Groups.Delete(id)
		}
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group, out.ErrorCode = id, h.codeOf(err)
		resp.Groups = append(resp.Groups, out)
	}
	return resp
}
