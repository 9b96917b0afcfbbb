package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listGroups lists the groups that this broker coordinates.
//
// v4: in some states (KIP-518). v5: of some types (KIP-848).
func (h *Handlers) listGroups(_ context.Context, _ *Call, req *kmsg.ListGroupsRequest) kmsg.Response {
	resp := kmsg.NewPtrListGroupsResponse()
	groups, err := h.Groups.List(req.StatesFilter, req.TypesFilter)
	resp.Groups, resp.ErrorCode = groups, h.codeOf(err)
	return resp
}
