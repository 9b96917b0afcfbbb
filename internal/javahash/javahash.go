// Package javahash implements Java's string hash where the protocol depends on it.
package javahash

import "unicode/utf16"

// PartitionFor returns the partition of an internal topic that a key belongs to: Java's String.hashCode over UTF-16
// code units, made non-negative as Utils.abs does, modulo the number of partitions.
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
