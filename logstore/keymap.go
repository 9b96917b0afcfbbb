package logstore

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// keyMap holds for each key of the part of a log that is being compacted the offset of its last record. Its memory is
// bounded: it keeps a hash of each key in an open-addressed table, and refuses keys when that is full.
type keyMap struct {
	k0, k1 uint64 // of the hash, random
	slots  []keySlot
	used   int
	limit  int // of used
}

// keySlot is 24 bytes, as much as Apache Kafka takes for a key.
type keySlot struct {
	hash hash128
	next int64 // offset of the last record, plus 1; 0: the slot is free
}

const keySlotSize = 24

// newKeyMap is a map of at most sizeBytes that fills to the given part, and no larger than the given number of records can need.
func newKeyMap(sizeBytes int64, load float64, records int64) *keyMap {
	load = min(max(load, 0.01), 0.99)
	slots := sizeBytes / keySlotSize
	if needed := float64(records)/load + 2; needed < float64(slots) {
		slots = int64(needed)
	}
	slots = min(max(slots, 2), math.MaxInt32)
	return &keyMap{k0: rand.Uint64(), k1: rand.Uint64(), slots: make([]keySlot, slots),
		limit: int(max(1, min(int64(float64(slots)*load), slots-1)))}
}

// put notes that key has a record at offset; offsets rise. It is false for a new key when the map is full.
func (m *keyMap) put(key []byte, offset int64) bool {
	h := sipHash(m.k0, m.k1, key)
	s := m.slot(h)
	if s.next == 0 {
		if m.used == m.limit {
			return false
		}
		m.used++
		s.hash = h
	}
	s.next = offset + 1
	return true
}

// latest is the offset of the last record of key, or -1.
func (m *keyMap) latest(key []byte) int64 { return m.slot(sipHash(m.k0, m.k1, key)).next - 1 }

// slot is the one that holds h, or the free one where it belongs. There is always a free one.
func (m *keyMap) slot(h hash128) *keySlot {
	at, _ := bits.Mul64(h.lo, uint64(len(m.slots)))
	for {
		if s := &m.slots[at]; s.next == 0 || s.hash == h {
			return s
		}
		if at++; at == uint64(len(m.slots)) {
			at = 0
		}
	}
}
