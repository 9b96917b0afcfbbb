package tools

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// brokersACLs describes and changes ACLs through brokers.
type brokersACLs struct{ cl *kgo.Client }

func (k brokersACLs) describe(ctx context.Context, r aclResource) ([]aclRules, error) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourceName, req.ResourcePatternType = r.kind, r.name, r.pattern
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	resp, err := req.RequestWith(ctx, k.cl)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, err
	}
	found := make([]aclRules, len(resp.Resources))
	for i, r := range resp.Resources {
		found[i].resource = aclResource{r.ResourceType, &resp.Resources[i].ResourceName, r.ResourcePatternType}
		for _, a := range r.ACLs {
			found[i].entries = append(found[i].entries, aclEntry{a.Principal, a.Host, a.Operation, a.PermissionType})
		}
	}
	return found, nil
}

func (k brokersACLs) create(ctx context.Context, r aclRules) error {
	req := kmsg.NewPtrCreateACLsRequest()
	for _, e := range r.entries {
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = r.resource.kind, *r.resource.name, r.resource.pattern
		c.Principal, c.Host, c.Operation, c.PermissionType = e.principal, e.host, e.operation, e.permission
		req.Creations = append(req.Creations, c)
	}
	resp, err := req.RequestWith(ctx, k.cl)
	if err != nil {
		return err
	}
	for _, out := range resp.Results {
		if err := answered(out.ErrorCode, out.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

func (k brokersACLs) delete(ctx context.Context, filters []kmsg.DeleteACLsRequestFilter) error {
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Filters = filters
	resp, err := req.RequestWith(ctx, k.cl)
	if err != nil {
		return err
	}
	for _, out := range resp.Results {
		if err := answered(out.ErrorCode, out.ErrorMessage); err != nil {
			return err
		}
		for _, m := range out.MatchingACLs {
			if err := answered(m.ErrorCode, m.ErrorMessage); err != nil {
				return err
			}
		}
	}
	return nil
}
