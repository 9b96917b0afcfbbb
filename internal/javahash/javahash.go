// Package javahash implements Java's string hash where the behavior of Apache Kafka depends on it.
package javahash

import (
	"slices"
	"unicode/utf16"
)

// PartitionFor returns the partition of an internal topic that a key belongs to: Java's String.hashCode over UTF-16
// code units, made non-negative as Utils.abs does, modulo the number of partitions.
func PartitionFor(key string, partitions int) int32 {
	hash := int32(hashCode(key))
	switch {
	case hash == -1<<31:
		hash = 0
	case hash < 0:
		hash = -hash
	}
	return hash % int32(partitions)
}

func hashCode(key string) (hash uint32) {
	for _, unit := range utf16.Encode([]rune(key)) {
		hash = 31*hash + uint32(unit)
	}
	return hash
}

// MapOrder sorts different keys in the order in which an immutable.HashMap of Scala 2.13 iterates over them. That map
// is a tree: five bits of a hash select one of the 32 places of a node; a node's own keys come before those of its
// child nodes. Keys with equal hashes stay in the order in which they are given.
func MapOrder(keys []string) {
	mapOrder(keys, 0)
}

func mapOrder(keys []string, shift uint) {
	if len(keys) < 2 || shift >= 32 {
		return
	}
	place := func(key string) uint32 { return spread(hashCode(key)) >> shift & 31 }
	var shared [32]int
	for _, key := range keys {
		shared[place(key)]++
	}
	child := func(key string) int { return min(shared[place(key)], 2) }
	slices.SortStableFunc(keys, func(a, b string) int {
		if child(a) != child(b) {
			return child(a) - child(b)
		}
		return int(place(a)) - int(place(b))
	})
	for i := 0; i < len(keys); {
		n := shared[place(keys[i])]
		if n > 1 {
			mapOrder(keys[i:i+n], shift+5)
		}
		i += n
	}
}

// spread is how that map mixes the bits of a hash code.
func spread(h uint32) uint32 {
	h += ^(h << 9)
	h ^= h >> 14
	h += h << 4
	return h ^ h>>10
}
