package acl

import (
	"hash/maphash"
	"iter"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fanOut is the number of branches of the root, and of lists in a branch: one for each value of a byte of a name's
// hash. So lists stay short even with hundreds of thousands of names.
const fanOut = 256

// seed prevents clients from choosing names that end up in the same list.
var seed = maphash.MakeSeed()

// byName maps the names of resources to entries. It is persistent: with returns a modified copy that shares all
// unchanged branches, so a small change among many names is cheap.
type byName struct {
	root *[fanOut]*branch // nil: empty
}

type branch struct {
	denials int // names with an entry that denies
	lists   [fanOut][]named
}

type named struct {
	hash    uint64
	name    string
	entries []Entry
}

func (b byName) get(name string) []Entry {
	if b.root == nil {
		return nil
	}
	hash := maphash.String(seed, name)
	br := b.root[byte(hash)]
	if br == nil {
		return nil
	}
	list := br.lists[byte(hash>>8)]
	for i := range list {
		if n := &list[i]; n.hash == hash && n.name == name {
			return n.entries
		}
	}
	return nil
}

// all iterates over the names and their entries in no particular order.
func (b byName) all() iter.Seq2[string, []Entry] { return b.in(func(*branch) bool { return true }) }

// denied iterates over at least those names that have an entry which denies, in no particular order. In the usual case,
// without denials, it costs next to nothing.
func (b byName) denied() iter.Seq2[string, []Entry] {
	return b.in(func(br *branch) bool { return br.denials > 0 })
}

func (b byName) in(wanted func(*branch) bool) iter.Seq2[string, []Entry] {
	return func(yield func(string, []Entry) bool) {
		if b.root == nil {
			return
		}
		for _, br := range b.root {
			if br != nil && wanted(br) && !br.each(yield) {
				return
			}
		}
	}
}

func (br *branch) each(yield func(string, []Entry) bool) bool {
	for _, list := range br.lists {
		for i := range list {
			if !yield(list[i].name, list[i].entries) {
				return false
			}
		}
	}
	return true
}

// with returns a copy in which names have other entries; a name without entries is removed.
func (b byName) with(changes map[string][]Entry) byName {
	root := new([fanOut]*branch)
	if b.root != nil {
		*root = *b.root
	}
	var copied [fanOut]bool
	for name, entries := range changes {
		hash := maphash.String(seed, name)
		i := byte(hash)
		if !copied[i] {
			copied[i] = true
			own := new(branch)
			if root[i] != nil {
				*own = *root[i]
			}
			root[i] = own
		}
		root[i].set(named{hash, name, entries})
	}
	return byName{root}
}

// set replaces a name's entries in a new list, since other copies may share the old one.
func (br *branch) set(n named) {
	list := &br.lists[byte(n.hash>>8)]
	next := make([]named, 0, len(*list)+1)
	for _, other := range *list {
		if other.name != n.name {
			next = append(next, other)
		} else if denies(other.entries) {
			br.denials--
		}
	}
	if len(n.entries) > 0 {
		next = append(next, n)
	}
	if denies(n.entries) {
		br.denials++
	}
	*list = next
}

func denies(entries []Entry) bool {
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.Permission == kmsg.ACLPermissionTypeDeny })
}
