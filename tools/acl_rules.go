package tools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// aclResource is a resource pattern, or a filter for resource patterns: without a name it matches all.
type aclResource struct {
	kind    kmsg.ACLResourceType
	name    *string
	pattern kmsg.ACLResourcePatternType
}

var (
	clusterName        = "kafka-cluster"
	clusterACLResource = aclResource{kmsg.ACLResourceTypeCluster, &clusterName, kmsg.ACLResourcePatternTypeLiteral}
	anyACLResource     = aclResource{kmsg.ACLResourceTypeAny, nil, kmsg.ACLResourcePatternTypeAny}
)

// String formats it as the original does.
func (r aclResource) String() string {
	name := "<any>"
	if r.name != nil {
		name = *r.name
	}
	return fmt.Sprintf("ResourcePattern(resourceType=%v, name=%s, patternType=%v)", r.kind, name, r.pattern)
}

func (r aclResource) filter() kmsg.DeleteACLsRequestFilter {
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourceName, f.ResourcePatternType = r.kind, r.name, r.pattern
	return f
}

// aclEntry is a rule for a resource.
type aclEntry struct {
	principal, host string
	operation       kmsg.ACLOperation
	permission      kmsg.ACLPermissionType
}

// String formats it as the original does.
func (e aclEntry) String() string {
	return fmt.Sprintf("(principal=%s, host=%s, operation=%v, permissionType=%v)", e.principal, e.host, e.operation, e.permission)
}

func (e aclEntry) compare(o aclEntry) int {
	return cmp.Or(cmp.Compare(e.principal, o.principal), cmp.Compare(e.permission, o.permission),
		cmp.Compare(e.operation, o.operation), cmp.Compare(e.host, o.host))
}

// entryLines formats entries, one per line.
func entryLines(entries []aclEntry) string {
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = "\t" + e.String()
	}
	return strings.Join(lines, "\n")
}

// aclRules are the entries of one resource, sorted. The original prints sets, in arbitrary order.
type aclRules struct {
	resource aclResource
	entries  []aclEntry
}

// mergeRules adds the entries in more to those of the same resources, whose order is kept. Entries are sorted and
// unique.
func mergeRules(all, more []aclRules) []aclRules {
	merged := slices.Clone(all)
	for _, r := range more {
		i := slices.IndexFunc(merged, func(m aclRules) bool { return m.resource.String() == r.resource.String() })
		if i < 0 {
			i = len(merged)
			merged = append(merged, aclRules{resource: r.resource})
		}
		entries := slices.Concat(merged[i].entries, r.entries)
		slices.SortFunc(entries, aclEntry.compare)
		merged[i].entries = slices.Compact(entries)
	}
	return merged
}

// aclOperations are the operations that rules for a type of resource may have (AclEntry.supportedOperations, 3.9), and
// the word ALL.
var aclOperations = map[kmsg.ACLResourceType][]kmsg.ACLOperation{
	kmsg.ACLResourceTypeTopic: {kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDescribe,
		kmsg.ACLOperationDelete, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationAll},
	kmsg.ACLResourceTypeGroup: {kmsg.ACLOperationRead, kmsg.ACLOperationDescribe, kmsg.ACLOperationDelete, kmsg.ACLOperationAll},
	kmsg.ACLResourceTypeCluster: {kmsg.ACLOperationCreate, kmsg.ACLOperationClusterAction, kmsg.ACLOperationDescribeConfigs,
		kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationIdempotentWrite, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe, kmsg.ACLOperationAll},
	kmsg.ACLResourceTypeTransactionalId: {kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite, kmsg.ACLOperationAll},
	kmsg.ACLResourceTypeDelegationToken: {kmsg.ACLOperationDescribe, kmsg.ACLOperationAll},
	kmsg.ACLResourceTypeUser:            {kmsg.ACLOperationCreateTokens, kmsg.ACLOperationDescribeTokens, kmsg.ACLOperationAll},
}

// patternType returns the value of --resource-pattern-type.
func (o *aclsOptions) patternType() (kmsg.ACLResourcePatternType, error) {
	p, err := kmsg.ParseACLResourcePatternType(*o.pattern)
	if err != nil || p == kmsg.ACLResourcePatternTypeUnknown {
		return 0, fmt.Errorf("cannot parse argument '%s' of option resource-pattern-type", *o.pattern)
	}
	if o.has("add") && p != kmsg.ACLResourcePatternTypeLiteral && p != kmsg.ACLResourcePatternTypePrefixed {
		return 0, usagef("a '--resource-pattern-type' value of '%v' is not valid when adding acls", p)
	}
	return p, nil
}

// resources returns those that the options name, possibly none.
func (o *aclsOptions) resources() ([]aclResource, error) {
	pattern, err := o.patternType()
	if err != nil {
		return nil, err
	}
	var all []aclResource
	for _, of := range []struct {
		kind  kmsg.ACLResourceType
		names []string
	}{
		{kmsg.ACLResourceTypeTopic, *o.topics}, {kmsg.ACLResourceTypeGroup, *o.groups}, {kmsg.ACLResourceTypeTransactionalId, *o.txnIDs},
		{kmsg.ACLResourceTypeDelegationToken, *o.tokens}, {kmsg.ACLResourceTypeUser, *o.users},
	} {
		for _, name := range of.names {
			all = append(all, aclResource{of.kind, kmsg.StringPtr(strings.TrimSpace(name)), pattern})
		}
	}
	if pattern == kmsg.ACLResourcePatternTypeLiteral && (o.has("cluster") || o.has("idempotent")) {
		all = append(all, clusterACLResource)
	}
	return all, nil
}

// rules returns the rules that the options describe. Without principals they have no entries, which stands for all of
// them.
func (o *aclsOptions) rules() ([]aclRules, error) {
	resources, err := o.resources()
	if err != nil {
		return nil, err
	}
	if len(resources) == 0 {
		return nil, usagef("you must provide at least one resource: --topic <topic> or --cluster or --group <group> or --delegation-token <Delegation Token ID>")
	}
	var all []aclRules
	for _, r := range resources {
		for _, operations := range o.operationsOf(r.kind) {
			entries, err := o.entries(operations)
			if err != nil {
				return nil, err
			}
			all = mergeRules(all, []aclRules{{r, entries}})
		}
	}
	for _, r := range all {
		for _, e := range r.entries {
			if valid := aclOperations[r.resource.kind]; !slices.Contains(valid, e.operation) {
				return nil, usagef("ResourceType %v only supports operations %s", r.resource.kind, operationNames(valid))
			}
		}
	}
	return all, nil
}

// operationsOf returns the operations on a type of resource: those of the given roles, or of --operation. A role omits
// resources that it does not involve.
func (o *aclsOptions) operationsOf(kind kmsg.ACLResourceType) [][]kmsg.ACLOperation {
	if !o.has("producer") && !o.has("consumer") {
		return [][]kmsg.ACLOperation{o.givenOperations()}
	}
	var all [][]kmsg.ACLOperation
	if o.has("producer") {
		switch kind {
		case kmsg.ACLResourceTypeTopic:
			all = append(all, []kmsg.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe, kmsg.ACLOperationCreate})
		case kmsg.ACLResourceTypeTransactionalId:
			all = append(all, []kmsg.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe})
		case kmsg.ACLResourceTypeCluster:
			if o.has("idempotent") {
				all = append(all, []kmsg.ACLOperation{kmsg.ACLOperationIdempotentWrite})
			}
		}
	}
	if o.has("consumer") {
		switch kind {
		case kmsg.ACLResourceTypeTopic:
			all = append(all, []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationDescribe})
		case kmsg.ACLResourceTypeGroup:
			all = append(all, []kmsg.ACLOperation{kmsg.ACLOperationRead})
		}
	}
	return all
}

// givenOperations returns those of --operation. An invalid word becomes the unknown operation, which no resource
// supports.
func (o *aclsOptions) givenOperations() []kmsg.ACLOperation {
	if !o.has("operation") {
		return []kmsg.ACLOperation{kmsg.ACLOperationAll}
	}
	all := make([]kmsg.ACLOperation, len(*o.operations))
	for i, name := range *o.operations {
		all[i], _ = kmsg.ParseACLOperation(strings.TrimSpace(name))
	}
	return all
}

// entries returns all combinations of principals, hosts and operations.
func (o *aclsOptions) entries(operations []kmsg.ACLOperation) ([]aclEntry, error) {
	var all []aclEntry
	for _, side := range []struct {
		permission        kmsg.ACLPermissionType
		principals, hosts []string
	}{{kmsg.ACLPermissionTypeAllow, *o.allow, *o.allowHosts}, {kmsg.ACLPermissionTypeDeny, *o.deny, *o.denyHosts}} {
		principals, err := parsePrincipals(side.principals)
		if err != nil {
			return nil, err
		}
		if len(side.hosts) == 0 {
			side.hosts = []string{"*"}
		}
		for _, p := range principals {
			for _, host := range side.hosts {
				for _, op := range operations {
					all = append(all, aclEntry{p, strings.TrimSpace(host), op, side.permission})
				}
			}
		}
	}
	return all, nil
}

// parsePrincipals checks that each item is TYPE:NAME.
func parsePrincipals(list []string) ([]string, error) {
	var all []string
	for _, p := range list {
		p = strings.TrimSpace(p)
		if kind, _, ok := strings.Cut(p, ":"); !ok || kind == "" {
			return nil, fmt.Errorf("expected a string in format principalType:principalName but got %s", p)
		}
		all = append(all, p)
	}
	return all, nil
}

// operationNames lists operations by their usual names: DescribeConfigs.
func operationNames(list []kmsg.ACLOperation) string {
	names := make([]string, len(list))
	for i, op := range list {
		for word := range strings.SplitSeq(op.String(), "_") {
			names[i] += word[:1] + strings.ToLower(word[1:])
		}
	}
	return strings.Join(names, ", ")
}
