package acl

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// snapshot is the state of all ACLs at one time. It is immutable: with returns a modified copy.
type snapshot struct {
	types map[ResourceType]*rules
}

// rules are the ACLs for one type of resource.
type rules struct {
	literal  byName         // by the resource's name
	anything []Entry        // for *, which apply to every resource
	prefixed byName         // by prefix
	lengths  []prefixLength // ascending: only prefixes of these lengths need to be looked up
}

// prefixLength is the number of prefixes of a length.
type prefixLength struct{ length, count int }

// newSnapshot creates the snapshot of the given ACLs. The slices must not be modified any more.
func newSnapshot(all map[Resource][]Entry) *snapshot { return new(snapshot).with(all) }

// with returns the snapshot after the entries of resources were replaced; a resource without entries is removed. The
// cost depends on what changes, not on the size of the snapshot.
func (sn *snapshot) with(changes map[Resource][]Entry) *snapshot {
	next := &snapshot{types: maps.Clone(sn.types)}
	if next.types == nil {
		next.types = make(map[ResourceType]*rules)
	}
	type kind struct {
		of      ResourceType
		pattern Pattern
	}
	sorted := make(map[kind]map[string][]Entry)
	for r, entries := range changes {
		k := kind{r.Type, r.Pattern}
		if sorted[k] == nil {
			sorted[k] = make(map[string][]Entry)
		}
		sorted[k][r.Name] = entries
	}
	for k, named := range sorted {
		next.types[k.of] = next.types[k.of].with(k.pattern, named)
	}
	return next
}

func (s *rules) with(pattern Pattern, changes map[string][]Entry) *rules {
	var next rules
	if s != nil {
		next = *s
	}
	if pattern != kmsg.ACLResourcePatternTypePrefixed {
		next.literal = next.literal.with(changes)
		next.anything = next.literal.get(wildcard)
		return &next
	}
	counts := make(map[int]int)
	for prefix, entries := range changes {
		switch was, is := len(next.prefixed.get(prefix)) > 0, len(entries) > 0; {
		case is && !was:
			counts[len(prefix)]++
		case was && !is:
			counts[len(prefix)]--
		}
	}
	next.lengths = counted(next.lengths, counts)
	next.prefixed = next.prefixed.with(changes)
	return &next
}

// counted returns the lengths of prefixes after some were added and removed.
func counted(lengths []prefixLength, change map[int]int) []prefixLength {
	total := maps.Clone(change)
	for _, l := range lengths {
		total[l.length] += l.count
	}
	var next []prefixLength
	for _, length := range slices.Sorted(maps.Keys(total)) {
		if total[length] > 0 {
			next = append(next, prefixLength{length, total[length]})
		}
	}
	return next
}

// outcome is what the ACLs say about an operation.
type outcome int

const (
	unmentioned outcome = iota // there are no ACLs for the resource
	refused                    // there are ACLs, and none allows it
	allowed
	denied // an ACL denies it, whatever others allow
)

// decide examines only the entries for the resource's name, for all resources of the type, and for prefixes of the
// name. A denial takes precedence over any permission (AclAuthorizer.authorizeAction, 3.9).
func (sn *snapshot) decide(who Subject, op Operation, t ResourceType, name string) outcome {
	s := sn.types[t]
	if s == nil {
		return unmentioned
	}
	found := consider(s.anything, who, op, unmentioned)
	if name != wildcard {
		found = consider(s.literal.get(name), who, op, found)
	}
	for _, n := range s.lengths {
		if n.length > len(name) || found == denied {
			break
		}
		found = consider(s.prefixed.get(name[:n.length]), who, op, found)
	}
	return found
}

// consider combines entries with the outcome so far.
func consider(entries []Entry, who Subject, op Operation, so outcome) outcome {
	for i := range entries {
		so = max(so, refused)
		e := &entries[i]
		if !concerns(e, who) {
			continue
		}
		switch e.Permission {
		case kmsg.ACLPermissionTypeDeny:
			if names(e.Operation, op) {
				return denied
			}
		case kmsg.ACLPermissionTypeAllow:
			if grants(e.Operation, op) {
				so = max(so, allowed)
			}
		}
	}
	return so
}

// decideSomewhere reports whether an operation may be allowed on some resource of a type (KIP-679): a permission counts
// unless a denial for the same name or for a prefix of it covers everything that it permits. Operations do not imply
// others here: only the operation itself and All count (AclAuthorizer.authorizeByResourceType, 3.9). In the worst case
// it examines all entries of the type.
func (sn *snapshot) decideSomewhere(who Subject, op Operation, t ResourceType) outcome {
	s := sn.types[t]
	if s == nil {
		return unmentioned
	}
	asked := exactMatch{who, op}
	switch {
	case asked.in(s.anything, kmsg.ACLPermissionTypeDeny):
		return denied
	case asked.in(s.anything, kmsg.ACLPermissionTypeAllow):
		return allowed
	}
	deniedNames, deniedPrefixes := asked.denied(s.literal), asked.denied(s.prefixed)
	for prefix, entries := range s.prefixed.all() {
		if asked.in(entries, kmsg.ACLPermissionTypeAllow) && !s.covered(prefix, deniedPrefixes) {
			return allowed
		}
	}
	for name, entries := range s.literal.all() {
		if asked.in(entries, kmsg.ACLPermissionTypeAllow) && !deniedNames[name] && !s.covered(name, deniedPrefixes) {
			return allowed
		}
	}
	return refused
}

// exactMatch matches entries that apply to a subject and name exactly an operation, or All.
type exactMatch struct {
	who Subject
	op  Operation
}

func (m exactMatch) in(entries []Entry, p Permission) bool {
	for i := range entries {
		if e := &entries[i]; e.Permission == p && names(e.Operation, m.op) && concerns(e, m.who) {
			return true
		}
	}
	return false
}

// denied returns the names with a matching denial.
func (m exactMatch) denied(of byName) map[string]bool {
	var found map[string]bool
	for name, entries := range of.denied() {
		if m.in(entries, kmsg.ACLPermissionTypeDeny) {
			if found == nil {
				found = make(map[string]bool)
			}
			found[name] = true
		}
	}
	return found
}

// covered reports whether one of the prefixes is a prefix of the name.
func (s *rules) covered(name string, prefixes map[string]bool) bool {
	if len(prefixes) == 0 {
		return false
	}
	for _, n := range s.lengths {
		if n.length <= len(name) && prefixes[name[:n.length]] {
			return true
		}
	}
	return false
}

// each calls f for every resource in no particular order.
func (sn *snapshot) each(f func(Resource, []Entry)) {
	for t, s := range sn.types {
		for name, entries := range s.literal.all() {
			f(Resource{Type: t, Pattern: kmsg.ACLResourcePatternTypeLiteral, Name: name}, entries)
		}
		for name, entries := range s.prefixed.all() {
			f(Resource{Type: t, Pattern: kmsg.ACLResourcePatternTypePrefixed, Name: name}, entries)
		}
	}
}

// entries returns the entries of a resource.
func (sn *snapshot) entries(r Resource) []Entry {
	s := sn.types[r.Type]
	switch {
	case s == nil:
		return nil
	case r.Pattern == kmsg.ACLResourcePatternTypePrefixed:
		return s.prefixed.get(r.Name)
	}
	return s.literal.get(r.Name)
}

// count returns the number of entries.
func (sn *snapshot) count() int {
	n := 0
	sn.each(func(_ Resource, entries []Entry) { n += len(entries) })
	return n
}
