package acl

import (
	"hash/maphash"
	"iter"
	"maps"
)

// shards is into how many maps the names of resources are divided: a change copies one of them, and the list of all.
const shards = 512

// seed makes who chooses names unable to choose their shard.
var seed = maphash.MakeSeed()

// byName are entries by the name of their resource. It is persistent: with gives another one that shares all shards with it
// but those that were changed, so a change among many names costs little.
type byName struct {
	of *[shards]map[string][]Entry // nil: empty
}

func shardOf(name string) int { return int(maphash.String(seed, name) % shards) }

func (b byName) get(name string) []Entry {
	if b.of == nil {
		return nil
	}
	return b.of[shardOf(name)][name]
}

// all are the names with their entries, in no order.
func (b byName) all() iter.Seq2[string, []Entry] {
	return func(yield func(string, []Entry) bool) {
		if b.of == nil {
			return
		}
		for _, shard := range b.of {
			for name, entries := range shard {
				if !yield(name, entries) {
					return
				}
			}
		}
	}
}

// with gives names other entries; none removes a name.
func (b byName) with(changes map[string][]Entry) byName {
	next := new([shards]map[string][]Entry)
	if b.of != nil {
		*next = *b.of
	}
	var copied [shards]bool
	for name, entries := range changes {
		i := shardOf(name)
		if !copied[i] {
			copied[i] = true
			if next[i] = maps.Clone(next[i]); next[i] == nil {
				next[i] = make(map[string][]Entry)
			}
		}
		if len(entries) == 0 {
			delete(next[i], name)
		} else {
			next[i][name] = entries
		}
	}
	return byName{next}
}
