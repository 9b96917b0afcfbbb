package logstore

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// keyMap maps each key in the part of a log that is being compacted to the offset of its last record. Its memory is
// bounded: it keeps a hash of each key in an open-addressing table, and refuses keys when that is full.
type keyMap struct {
	k0, k1 uint64 // random key of the hash
	slots  []keySlot
	used   int
	limit  int // maximum of used
}

// keySlot has 24 bytes, as many as Apache Kafka needs per key.
type keySlot struct {
	hash hash128
	next int64 // offset of the last record plus 1; 0: the slot is free
}

const keySlotSize = 24

// newKeyMap returns a map of at most sizeBytes that may be filled to the given fraction, and is no larger than the
// given number of records may require.
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

// put records that key has a record at offset; offsets ascend. It returns false for a new key if the map is full.
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

// latest returns the offset of the last record of key, or -1.
func (m *keyMap) latest(key []byte) int64 { return m.slot(sipHash(m.k0, m.k1, key)).next - 1 }

// slot returns the slot that holds h, or the free one where it belongs. There is always a free one.
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
