package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errNoAuthorizer answers every request about ACLs: a broker with authorizer.class.name does not start.
var errNoAuthorizer = fmt.Errorf("authorizer.class.name is not set: %w", kerr.SecurityDisabled)

func (h *Handlers) describeACLs(context.Context, *Call, *kmsg.DescribeACLsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeACLsResponse()
	resp.ErrorCode, resp.ErrorMessage = code(errNoAuthorizer), message(errNoAuthorizer)
	return resp
}

func (h *Handlers) createACLs(_ context.Context, _ *Call, req *kmsg.CreateACLsRequest) kmsg.Response {
	resp := kmsg.NewPtrCreateACLsResponse()
	for range req.Creations {
		out := kmsg.NewCreateACLsResponseResult()
		out.ErrorCode, out.ErrorMessage = code(errNoAuthorizer), message(errNoAuthorizer)
		resp.Results = append(resp.Results, out)
	}
	return resp
}

func (h *Handlers) deleteACLs(_ context.Context, _ *Call, req *kmsg.DeleteACLsRequest) kmsg.Response {
	resp := kmsg.NewPtrDeleteACLsResponse()
	for range req.Filters {
		out := kmsg.NewDeleteACLsResponseResult()
		out.ErrorCode, out.ErrorMessage = code(errNoAuthorizer), message(errNoAuthorizer)
		resp.Results = append(resp.Results, out)
	}
	return resp
}
