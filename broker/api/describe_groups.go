package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// allGroupOperations are those that there are on a group, as bits: READ, DELETE and DESCRIBE.
const allGroupOperations = 1<<3 | 1<<6 | 1<<8

// describeGroups tells of groups and their members.
//
// v3: which operations are allowed (KIP-430).
func (h *Handlers) describeGroups(_ context.Context, c *Call, req *kmsg.DescribeGroupsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	for _, id := range req.Groups {
		g := h.Groups.Describe(id)
		if c.Version >= 3 && req.IncludeAuthorizedOperations && g.ErrorCode == 0 {
			g.AuthorizedOperations = allGroupOperations
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp
}
