package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteGroups removes groups without members, with their offsets (KIP-229).
func (h *Handlers) deleteGroups(_ context.Context, _ *Call, req *kmsg.DeleteGroupsRequest) kmsg.Response {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	answered := make(map[string]bool)
	for _, id := range req.Groups {
		if answered[id] {
			continue
		}
		answered[id] = true
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group, out.ErrorCode = id, h.codeOf(h.Groups.Delete(id))
		resp.Groups = append(resp.Groups, out)
	}
	return resp
}
