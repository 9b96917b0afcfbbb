package logstore

import (
	"encoding/binary"
	"math/bits"
)

// hash128 is a hash of a record key, wide enough to represent it.
type hash128 struct{ lo, hi uint64 }

// sipHash is SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012) under the key k0, k1.
//
// The cleaner treats keys with the same hash as equal, so a collision loses a record. With a random hash key nobody can
// search for collisions, and among n keys the probability of one by chance is n²/2¹²⁹. It takes a few nanoseconds for a
// short key; MD5, which Apache Kafka uses for this purpose without a key, takes several times as long.
func sipHash(k0, k1 uint64, key []byte) hash128 {
	s := sipState{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	tail := uint64(len(key)) << 56
	for ; len(key) >= 8; key = key[8:] {
		s.compress(binary.LittleEndian.Uint64(key))
	}
	for i, c := range key {
		tail |= uint64(c) << (8 * i)
	}
	s.compress(tail)
	s.v2 ^= 0xee
	s.rounds(4)
	h := hash128{lo: s.v0 ^ s.v1 ^ s.v2 ^ s.v3}
	s.v1 ^= 0xdd
	s.rounds(4)
	h.hi = s.v0 ^ s.v1 ^ s.v2 ^ s.v3
	return h
}

type sipState struct{ v0, v1, v2, v3 uint64 }

func (s *sipState) compress(m uint64) {
	s.v3 ^= m
	s.rounds(2)
	s.v0 ^= m
}

func (s *sipState) rounds(n int) {
	v0, v1, v2, v3 := s.v0, s.v1, s.v2, s.v3
	for range n {
		v0 += v1
		v2 += v3
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v1
		v0 += v3
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 = bits.RotateLeft64(v2, 32)
	}
	s.v0, s.v1, s.v2, s.v3 = v0, v1, v2, v3
}
