package acl

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Create adds ACLs and returns when this authorizer applies them; other brokers are notified. ACLs for the same
// resource are written at once. errs has an error for each ACL that was not added: INVALID_REQUEST if it is invalid.
func (a *Authorizer) Create(ctx context.Context, bindings []Binding) (errs []error) {
	errs = make([]error, len(bindings))
	byResource := make(map[Resource][]int)
	for i, b := range bindings {
		if errs[i] = a.check(b); errs[i] == nil {
			byResource[b.Resource] = append(byResource[b.Resource], i)
		}
	}
	for r, indexes := range byResource {
		err := a.cfg.Store.UpdateACLs(ctx, r, func(entries []Entry) []Entry {
			for _, i := range indexes {
				if e := bindings[i].Entry; !slices.Contains(entries, e) {
					entries = append(entries, e)
				}
			}
			return entries
		})
		for _, i := range indexes {
			errs[i] = err
		}
	}
	if err := a.reread(ctx, slices.Collect(maps.Keys(byResource))); err != nil {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	}
	return errs
}

// check refuses invalid ACLs (AclApis.handleCreateAcls and AclAuthorizer.validateAclBinding, 3.9), including those with
// ANY and MATCH, which Apache Kafka stores but never matches.
func (a *Authorizer) check(b Binding) error {
	switch {
	case b.Type == Cluster && b.Name != ClusterName:
		return fmt.Errorf("the name of the cluster resource is %s, not %q: %w", ClusterName, b.Name, kerr.InvalidRequest)
	case a.cfg.NoPrefixes && b.Pattern == kmsg.ACLResourcePatternTypePrefixed:
		return fmt.Errorf("prefixed ACLs need inter.broker.protocol.version 2.0 or newer: %w", kerr.InvalidRequest)
	}
	if err := b.Resource.Check(); err != nil {
		return err
	}
	return b.Entry.Check()
}

// Deletions is the result of one filter of a Delete.
type Deletions struct {
	Matched []Deletion
	Err     error // ACLs that may match could not be read
}

// Deletion is one ACL that matched.
type Deletion struct {
	Binding
	Err error // why it still exists
}

// Delete removes the ACLs that match any of the filters, and returns when this authorizer no longer applies them. For
// each filter it returns the ACLs that it was the first to match. Resources with ACLs are found in this authorizer's
// snapshot; those that a filter names, in ZooKeeper.
func (a *Authorizer) Delete(ctx context.Context, filters []Filter) []Deletions {
	deleted := make([]Deletions, len(filters))
	resources := a.concerned(filters)
	for _, r := range resources {
		a.deleteFrom(ctx, r, filters, deleted)
	}
	err := a.reread(ctx, resources)
	for i := range deleted {
		matched := deleted[i].Matched
		slices.SortFunc(matched, func(x, y Deletion) int { return x.compare(y.Binding) })
		for j := range matched {
			if matched[j].Err == nil {
				matched[j].Err = err
			}
		}
	}
	return deleted
}

// deleteFrom removes what the filters match on one resource.
func (a *Authorizer) deleteFrom(ctx context.Context, r Resource, filters []Filter, deleted []Deletions) {
	// The index of the first filter that matches. Changes by others, and lost responses, make the store ask again: what
	// matched before and is not there any more counts as deleted, for we may have been the one.
	gone := make(map[Entry]int)
	err := a.cfg.Store.UpdateACLs(ctx, r, func(entries []Entry) []Entry {
		return slices.DeleteFunc(entries, func(e Entry) bool {
			i := slices.IndexFunc(filters, func(f Filter) bool { return f.matchesResource(r) && f.matchesEntry(e) })
			if i >= 0 {
				gone[e] = i
			}
			return i >= 0
		})
	})
	for e, i := range gone {
		deleted[i].Matched = append(deleted[i].Matched, Deletion{Binding{r, e}, err})
	}
	if err == nil || len(gone) > 0 {
		return
	}
	for i := range filters {
		if filters[i].matchesResource(r) {
			deleted[i].Err = err
		}
	}
}

// concerned returns the resources whose ACLs the filters may match.
func (a *Authorizer) concerned(filters []Filter) []Resource {
	found := make(map[Resource]struct{})
	var open []Filter // filters that match more than they name
	for i := range filters {
		for _, r := range filters[i].named() {
			found[r] = struct{}{}
		}
		if !filters[i].closed() {
			open = append(open, filters[i])
		}
	}
	if len(open) == 0 {
		return slices.Collect(maps.Keys(found))
	}
	a.snapshot.Load().each(func(r Resource, _ []Entry) {
		if slices.ContainsFunc(open, func(f Filter) bool { return f.matchesResource(r) }) {
			found[r] = struct{}{}
		}
	})
	return slices.Collect(maps.Keys(found))
}
