package zkcoord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ACLResource is what ACLs apply to: one resource of a type or, with a prefixed pattern, all whose names begin with
// Name. The literal name * stands for every resource of the type.
type ACLResource struct {
	Type    kmsg.ACLResourceType
	Pattern kmsg.ACLResourcePatternType // literal or prefixed
	Name    string
}

// ACLEntry is one rule for a resource: who may or may not do what, and from where.
type ACLEntry struct {
	Principal  string // TYPE:NAME; User:* is every user
	Host       string // an address, or *
	Operation  kmsg.ACLOperation
	Permission kmsg.ACLPermissionType // allow or deny
}

// The types of resources, in the order in which their nodes are created, and the patterns.
var (
	aclTypes = []kmsg.ACLResourceType{kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup, kmsg.ACLResourceTypeCluster,
		kmsg.ACLResourceTypeTransactionalId, kmsg.ACLResourceTypeDelegationToken, kmsg.ACLResourceTypeUser}
	aclPatterns = []kmsg.ACLResourcePatternType{kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed}
)

// aclRoot returns the parent of the ACLs with a pattern.
func aclRoot(pattern kmsg.ACLResourcePatternType) string {
	if pattern == kmsg.ACLResourcePatternTypeLiteral {
		return aclPath
	}
	return extendedACLPath + "/prefixed"
}

func aclTypePath(pattern kmsg.ACLResourcePatternType, t kmsg.ACLResourceType) string {
	return aclRoot(pattern) + "/" + pascalCase(t.String())
}

// Path returns the node with the resource's ACLs, relative to the chroot.
func (r ACLResource) Path() string { return aclTypePath(r.Pattern, r.Type) + "/" + r.Name }

// pascalCase converts a word of the protocol to its form in ACL nodes: DescribeConfigs for DESCRIBE_CONFIGS.
func pascalCase(word string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(word, "_") {
		b.WriteString(part[:1])
		b.WriteString(strings.ToLower(part[1:]))
	}
	return b.String()
}

// named finds the value with the given name in pascal case, ignoring case.
func named[T fmt.Stringer](all []T, word string) (T, bool) {
	i := slices.IndexFunc(all, func(v T) bool { return strings.EqualFold(pascalCase(v.String()), word) })
	if i < 0 {
		var none T
		return none, false
	}
	return all[i], true
}

// The operations and permissions that an entry may have.
var (
	aclOperations = []kmsg.ACLOperation{kmsg.ACLOperationAll, kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate,
		kmsg.ACLOperationDelete, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe, kmsg.ACLOperationClusterAction,
		kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationIdempotentWrite, kmsg.ACLOperationCreateTokens,
		kmsg.ACLOperationDescribeTokens}
	aclPermissions = []kmsg.ACLPermissionType{kmsg.ACLPermissionTypeAllow, kmsg.ACLPermissionTypeDeny}
)

// Check returns INVALID_REQUEST for a resource that no node can represent, or that could not be evaluated.
func (r ACLResource) Check() error {
	refuse := func(reason string) error {
		return fmt.Errorf("ACLs of %v %q %s: %w", r.Type, r.Name, reason, kerr.InvalidRequest)
	}
	switch {
	case !slices.Contains(aclTypes, r.Type):
		return refuse("need a type of resource")
	case !slices.Contains(aclPatterns, r.Pattern):
		return refuse("need a literal or a prefixed pattern")
	case r.Name == "":
		return refuse("need a name")
	case r.Name == "." || r.Name == ".." || strings.ContainsFunc(r.Name, noZnodeRune):
		return refuse("cannot be kept: no node of ZooKeeper can have this name")
	}
	return nil
}

// noZnodeRune reports whether a character is not allowed in node names (PathUtils.validatePath of ZooKeeper).
func noZnodeRune(c rune) bool {
	return c == '/' || c <= 0x1f || c >= 0x7f && c <= 0x9f || c >= 0xd800 && c <= 0xf8ff || c >= 0xfff0 && c <= 0xffff
}

// Check returns INVALID_REQUEST for a meaningless entry.
func (e ACLEntry) Check() error {
	kind, _, ok := strings.Cut(e.Principal, ":")
	switch {
	case !ok || kind == "":
		return fmt.Errorf("principal %q of an ACL is not TYPE:NAME: %w", e.Principal, kerr.InvalidRequest)
	case !slices.Contains(aclOperations, e.Operation):
		return fmt.Errorf("an ACL needs an operation that can be allowed, not %v (%d): %w", e.Operation, e.Operation, kerr.InvalidRequest)
	case !slices.Contains(aclPermissions, e.Permission):
		return fmt.Errorf("an ACL needs the permission ALLOW or DENY, not %v (%d): %w", e.Permission, e.Permission, kerr.InvalidRequest)
	}
	return nil
}

type aclEntryJSON struct {
	Principal  string `json:"principal"`
	Permission string `json:"permissionType"`
	Host       string `json:"host"`
	Operation  string `json:"operation"`
}

type aclsJSON struct {
	Entries []aclEntryJSON `json:"acls"`
	Version int            `json:"version"`
}

func encodeACLs(entries []ACLEntry) []byte {
	out := aclsJSON{Version: 1, Entries: make([]aclEntryJSON, len(entries))}
	for i, e := range entries {
		out.Entries[i] = aclEntryJSON{e.Principal, pascalCase(e.Permission.String()), e.Host, pascalCase(e.Operation.String())}
	}
	return marshal(out)
}

// DecodeACLs decodes the entries of a node below /kafka-acl or /kafka-acl-extended. What cannot be decoded is an error
// rather than left out, since it may be a denial. An empty node has no entries, as in Apache Kafka (AclEntry.fromBytes,
// 3.9).
func DecodeACLs(data []byte) ([]ACLEntry, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var in aclsJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("ACLs: %w", err)
	}
	if in.Version != 1 {
		return nil, fmt.Errorf("ACLs: version %d is not known", in.Version)
	}
	entries := make([]ACLEntry, 0, len(in.Entries))
	for _, a := range in.Entries {
		operation, known := named(aclOperations, a.Operation)
		if !known {
			return nil, fmt.Errorf("ACLs: operation %q is not known", a.Operation)
		}
		permission, known := named(aclPermissions, a.Permission)
		if !known {
			return nil, fmt.Errorf("ACLs: permission %q is not known", a.Permission)
		}
		e := ACLEntry{a.Principal, a.Host, operation, permission}
		if err := e.Check(); err != nil {
			return nil, fmt.Errorf("ACLs: %w", err)
		}
		if !slices.Contains(entries, e) {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// EnsureACLNodes creates the parents of ACLs and of the notifications about them.
func (c *Client) EnsureACLNodes(ctx context.Context) error {
	paths := []string{aclChangesPath, extendedACLChangesPath}
	for _, pattern := range aclPatterns {
		for _, t := range aclTypes {
			paths = append(paths, aclTypePath(pattern, t))
		}
	}
	return c.parallel(ctx, len(paths), func(ctx context.Context, i int) error { return c.ensurePath(ctx, paths[i]) })
}

// ErrUnreadableACLs reports a node whose ACLs cannot be decoded.
type ErrUnreadableACLs struct {
	Resource ACLResource
	Why      error
}

// Error names the node.
func (e *ErrUnreadableACLs) Error() string {
	return fmt.Sprintf("the ACLs in %s cannot be read: %v", e.Resource.Path(), e.Why)
}

// Unwrap returns the reason.
func (e *ErrUnreadableACLs) Unwrap() error { return e.Why }

// ACLs reads the entries of a resource, which has none if there is no node. Errors: *ErrUnreadableACLs.
func (c *Client) ACLs(ctx context.Context, r ACLResource) ([]ACLEntry, error) {
	n, _, err := c.find(ctx, r.Path())
	if err != nil {
		return nil, err
	}
	entries, err := DecodeACLs(n.data)
	if err != nil {
		return nil, &ErrUnreadableACLs{r, err}
	}
	return entries, nil
}

// AllACLs reads the entries of all resources. Those that cannot be decoded are missing, and the error joins an
// *ErrUnreadableACLs for each of them; with any other error nothing is returned.
func (c *Client) AllACLs(ctx context.Context) (map[ACLResource][]ACLEntry, error) {
	resources, err := c.aclResources(ctx)
	if err != nil {
		return nil, err
	}
	found := make([][]ACLEntry, len(resources))
	unreadable := make([]error, len(resources))
	err = c.parallel(ctx, len(resources), func(ctx context.Context, i int) error {
		var err error
		found[i], err = c.ACLs(ctx, resources[i])
		var bad *ErrUnreadableACLs
		if errors.As(err, &bad) {
			unreadable[i], err = bad, nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make(map[ACLResource][]ACLEntry, len(resources))
	for i, r := range resources {
		if unreadable[i] == nil && len(found[i]) > 0 {
			all[r] = found[i]
		}
	}
	return all, errors.Join(unreadable...)
}

// aclResources lists the resources that have a node.
func (c *Client) aclResources(ctx context.Context) ([]ACLResource, error) {
	var resources []ACLResource
	for _, pattern := range aclPatterns {
		for _, t := range aclTypes {
			names, err := c.children(ctx, aclTypePath(pattern, t))
			if ignoreNoNode(err) != nil {
				return nil, err
			}
			for _, name := range names {
				resources = append(resources, ACLResource{t, pattern, name})
			}
		}
	}
	return resources, nil
}

// UpdateACLs replaces a resource's entries with the result of change, if that differs, and notifies all brokers. A node
// without entries is removed. After a concurrent change, change is called again with the newer entries; after too many
// attempts the error is ErrConflict.
func (c *Client) UpdateACLs(ctx context.Context, r ACLResource, change func([]ACLEntry) []ACLEntry) error {
	return c.rewrite(ctx, r.Path(), r.notifications(), encodeACLChange(r), func(n node, found bool) (decision, error) {
		old, err := DecodeACLs(n.data)
		if err != nil {
			return decision{}, &ErrUnreadableACLs{r, err}
		}
		next := change(slices.Clone(old))
		if sameEntries(old, next) {
			return decision{}, errAsItIs
		}
		return decision{data: encodeACLs(next), remove: len(next) == 0}, nil
	})
}

// sameEntries compares entries as sets.
func sameEntries(a, b []ACLEntry) bool {
	has := func(all []ACLEntry) func(ACLEntry) bool {
		return func(e ACLEntry) bool { return !slices.Contains(all, e) }
	}
	return !slices.ContainsFunc(a, has(b)) && !slices.ContainsFunc(b, has(a))
}
