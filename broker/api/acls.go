package api

import (
	"context"
	"fmt"

	"barnabas/broker/acl"
	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errNoAuthorizer answers every request about ACLs if there is no authorizer.
var errNoAuthorizer = fmt.Errorf("authorizer.class.name is not set: %w", kerr.SecurityDisabled)

// mayACLs checks whether the client may describe or alter ACLs, which are operations on the cluster.
func (h *Handlers) mayACLs(c *Call, op acl.Operation) error {
	if h.Authorizer == nil {
		return errNoAuthorizer
	}
	return h.authorize.cluster(c, op)
}

// describeACLs lists the ACLs that a filter matches. v1: prefixes (KIP-290). v2: flexible. v3: users as resources
// (KIP-373).
func (h *Handlers) describeACLs(_ context.Context, c *Call, req *kmsg.DescribeACLsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeACLsResponse()
	filter := acl.Filter{
		Type: req.ResourceType, Name: req.ResourceName, Pattern: req.ResourcePatternType, Principal: req.Principal, Host: req.Host,
		Operation: req.Operation, Permission: req.PermissionType,
	}
	err := h.mayACLs(c, acl.Describe)
	if err == nil {
		err = filter.Check()
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = errcode.Of(err), message(err)
		return resp
	}
	resp.ErrorMessage = noMessage()
	var last acl.Resource
	for _, b := range h.Authorizer.Bindings(filter) { // sorted by resource
		if len(resp.Resources) == 0 || b.Resource != last {
			r := kmsg.NewDescribeACLsResponseResource()
			r.ResourceType, r.ResourceName, r.ResourcePatternType = b.Type, b.Name, b.Pattern
			resp.Resources = append(resp.Resources, r)
			last = b.Resource
		}
		a := kmsg.NewDescribeACLsResponseResourceACL()
		a.Principal, a.Host, a.Operation, a.PermissionType = b.Principal, b.Host, b.Operation, b.Permission
		r := &resp.Resources[len(resp.Resources)-1]
		r.ACLs = append(r.ACLs, a)
	}
	return resp
}

// createACLs adds ACLs and answers when this broker applies them. Every broker may serve it.
func (h *Handlers) createACLs(ctx context.Context, c *Call, req *kmsg.CreateACLsRequest) kmsg.Response {
	resp := kmsg.NewPtrCreateACLsResponse()
	resp.Results = make([]kmsg.CreateACLsResponseResult, len(req.Creations))
	errs := make([]error, len(req.Creations))
	if denied := h.mayACLs(c, acl.Alter); denied != nil {
		for i := range errs {
			errs[i] = denied
		}
	} else {
		ctx, cancel := context.WithTimeoutCause(ctx, zooKeeperTimeout, kerr.RequestTimedOut)
		defer cancel()
		errs = h.Authorizer.Create(ctx, bindingsOf(req))
	}
	for i, err := range errs {
		resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = h.codeOf(err), messageOrEmpty(err)
	}
	return resp
}

func bindingsOf(req *kmsg.CreateACLsRequest) []acl.Binding {
	bindings := make([]acl.Binding, len(req.Creations))
	for i, a := range req.Creations {
		bindings[i] = acl.Binding{
			Resource: acl.Resource{Type: a.ResourceType, Pattern: a.ResourcePatternType, Name: a.ResourceName},
			Entry:    acl.Entry{Principal: a.Principal, Host: a.Host, Operation: a.Operation, Permission: a.PermissionType},
		}
	}
	return bindings
}

// deleteACLs removes the ACLs that match the filters and answers when this broker no longer applies them. If one filter
// is invalid, the whole request is refused before anything is removed.
func (h *Handlers) deleteACLs(ctx context.Context, c *Call, req *kmsg.DeleteACLsRequest) kmsg.Response {
	resp := kmsg.NewPtrDeleteACLsResponse()
	resp.Results = make([]kmsg.DeleteACLsResponseResult, len(req.Filters))
	filters, err := filtersOf(req)
	if denied := h.mayACLs(c, acl.Alter); denied != nil {
		err = denied
	}
	if err != nil {
		for i := range resp.Results {
			resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = errcode.Of(err), message(err)
		}
		return resp
	}
	ctx, cancel := context.WithTimeoutCause(ctx, zooKeeperTimeout, kerr.RequestTimedOut)
	defer cancel()
	for i, d := range h.Authorizer.Delete(ctx, filters) {
		out := &resp.Results[i]
		out.ErrorCode, out.ErrorMessage = h.codeOf(d.Err), message(d.Err)
		for _, m := range d.Matched {
			out.MatchingACLs = append(out.MatchingACLs, h.deletedACL(m))
		}
	}
	return resp
}

func filtersOf(req *kmsg.DeleteACLsRequest) ([]acl.Filter, error) {
	filters := make([]acl.Filter, len(req.Filters))
	for i, f := range req.Filters {
		filters[i] = acl.FilterOf(f)
		if err := filters[i].Check(); err != nil {
			return nil, err
		}
	}
	return filters, nil
}

func (h *Handlers) deletedACL(d acl.Deletion) kmsg.DeleteACLsResponseResultMatchingACL {
	out := kmsg.NewDeleteACLsResponseResultMatchingACL()
	out.ErrorCode, out.ErrorMessage = h.codeOf(d.Err), message(d.Err)
	out.ResourceType, out.ResourceName, out.ResourcePatternType = d.Type, d.Name, d.Pattern
	out.Principal, out.Host, out.Operation, out.PermissionType = d.Principal, d.Host, d.Operation, d.Permission
	return out
}
