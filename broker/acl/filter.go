package acl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Binding is one ACL: a resource and one of its entries.
type Binding struct {
	Resource
	Entry
}

// compare orders by resource, then by entry, so that lists are stable.
func (b Binding) compare(o Binding) int {
	return cmp.Or(
		cmp.Compare(b.Type, o.Type), cmp.Compare(b.Pattern, o.Pattern), cmp.Compare(b.Name, o.Name),
		cmp.Compare(b.Principal, o.Principal), cmp.Compare(b.Permission, o.Permission),
		cmp.Compare(b.Operation, o.Operation), cmp.Compare(b.Host, o.Host))
}

// Filter matches ACLs. The code ANY, and nil, match everything.
type Filter struct {
	Type       ResourceType
	Name       *string
	Pattern    Pattern // MATCH: all that apply to the resource Name, by literal name, prefix or *
	Principal  *string
	Host       *string
	Operation  Operation
	Permission Permission
}

// FilterOf returns the filter that a request has.
func FilterOf(f kmsg.DeleteACLsRequestFilter) Filter {
	return Filter{
		Type: f.ResourceType, Name: f.ResourceName, Pattern: f.ResourcePatternType, Principal: f.Principal, Host: f.Host,
		Operation: f.Operation, Permission: f.PermissionType,
	}
}

// Check returns INVALID_REQUEST for a filter with codes that no ACL can have.
func (f *Filter) Check() error {
	refuse := func(what string, code int8) error {
		return fmt.Errorf("an ACL filter has the unknown %s %d: %w", what, code, kerr.InvalidRequest)
	}
	switch {
	case f.Type < kmsg.ACLResourceTypeAny || f.Type > kmsg.ACLResourceTypeUser:
		return refuse("resource type", int8(f.Type))
	case f.Pattern < kmsg.ACLResourcePatternTypeAny || f.Pattern > kmsg.ACLResourcePatternTypePrefixed:
		return refuse("pattern type", int8(f.Pattern))
	case f.Operation < kmsg.ACLOperationAny || f.Operation > kmsg.ACLOperationDescribeTokens:
		return refuse("operation", int8(f.Operation))
	case f.Permission < kmsg.ACLPermissionTypeAny || f.Permission > kmsg.ACLPermissionTypeAllow:
		return refuse("permission", int8(f.Permission))
	}
	return nil
}

// matchesResource reports whether the filter matches a resource (ResourcePatternFilter.matches, 3.9).
func (f *Filter) matchesResource(r Resource) bool {
	if f.Type != kmsg.ACLResourceTypeAny && f.Type != r.Type {
		return false
	}
	byName := f.Name == nil || *f.Name == r.Name
	switch f.Pattern {
	case kmsg.ACLResourcePatternTypeAny:
		return byName
	case kmsg.ACLResourcePatternTypeMatch:
		if r.Pattern == kmsg.ACLResourcePatternTypePrefixed {
			return f.Name == nil || strings.HasPrefix(*f.Name, r.Name)
		}
		return byName || r.Name == wildcard
	}
	return f.Pattern == r.Pattern && byName
}

func (f *Filter) matchesEntry(e Entry) bool {
	return (f.Principal == nil || *f.Principal == e.Principal) && (f.Host == nil || *f.Host == e.Host) &&
		(f.Operation == kmsg.ACLOperationAny || f.Operation == e.Operation) &&
		(f.Permission == kmsg.ACLPermissionTypeAny || f.Permission == e.Permission)
}

// named returns the resources that the filter names explicitly, whether they have ACLs or not.
func (f *Filter) named() []Resource {
	if f.Name == nil || f.Type == kmsg.ACLResourceTypeAny {
		return nil
	}
	literal := Resource{Type: f.Type, Pattern: kmsg.ACLResourcePatternTypeLiteral, Name: *f.Name}
	prefixed := Resource{Type: f.Type, Pattern: kmsg.ACLResourcePatternTypePrefixed, Name: *f.Name}
	switch f.Pattern {
	case kmsg.ACLResourcePatternTypeLiteral:
		return keepable(literal)
	case kmsg.ACLResourcePatternTypePrefixed:
		return keepable(prefixed)
	case kmsg.ACLResourcePatternTypeAny:
		return keepable(literal, prefixed)
	}
	return nil
}

// closed reports whether the filter matches only resources that it names explicitly.
func (f *Filter) closed() bool {
	return f.Name != nil && f.Type != kmsg.ACLResourceTypeAny && f.Pattern != kmsg.ACLResourcePatternTypeMatch
}

// keepable removes resources that cannot have ACLs.
func keepable(all ...Resource) []Resource {
	return slices.DeleteFunc(all, func(r Resource) bool { return r.Check() != nil })
}
