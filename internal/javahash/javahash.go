// Package javahash has Java's hash of strings, where the protocol's other speakers agree on it.
package javahash

import "unicode/utf16"

// PartitionFor is the partition of an internal topic that keeps a key: Java's String.hashCode over UTF-16 units, made
// non-negative as Utils.abs does, modulo the count of partitions.
func PartitionFor(key string, partitions int) int32 {
	var hash int32
	for _, unit := range utf16.Encode([]rune(key)) {
		hash = 31*hash + int32(unit)
	}
	switch {
	case hash == -1<<31:
		hash = 0
	case hash < 0:
		hash = -hash
	}
	return hash % int32(partitions)
}
