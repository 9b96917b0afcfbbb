package logstore

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"
)

// TestSipHash uses the test vectors of the authors' reference implementation, for the inputs 00, 00 01, ...
func TestSipHash(t *testing.T) {
	for n, want := range map[int]string{0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45",
		2: "8177228da4a45dc7fca38bdef60affe4", 7: "a1f1ebbed8dbc153c0b84aa61ff08239", 8: "3b62a9ba6258f5610f83e264f31497b4"} {
		input := make([]byte, n)
		for i := range input {
			input[i] = byte(i)
		}
		h := sipHash(0x0706050403020100, 0x0f0e0d0c0b0a0908, input)
		got := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, h.lo), h.hi)
		if hex.EncodeToString(got) != want {
			t.Errorf("%d bytes: %x, want %s", n, got, want)
		}
	}
}

func TestKeyMap(t *testing.T) {
	m := newKeyMap(100*keySlotSize, 0.9, 1<<40)
	full := 0
	for i := range 200 {
		if !m.put([]byte(fmt.Sprint("key ", i)), int64(i)) {
			full = i
			break
		}
	}
	if full != 90 || m.used != 90 {
		t.Fatalf("full at %d with %d keys, want 90", full, m.used)
	}
	if !m.put([]byte("key 7"), 500) {
		t.Error("a full map refuses a known key")
	}
	for i := range 200 {
		want := int64(i)
		switch {
		case i == 7:
			want = 500
		case i >= full:
			want = -1
		}
		if got := m.latest([]byte(fmt.Sprint("key ", i))); got != want {
			t.Errorf("key %d is at %d, want %d", i, got, want)
		}
	}
}

func TestKeyMapIsNoLargerThanNeeded(t *testing.T) {
	for _, tt := range []struct {
		size    int64
		load    float64
		records int64
		slots   int
		limit   int
	}{
		{size: 128 << 20, load: 0.9, records: 9, slots: 12, limit: 10},
		{size: 128 << 20, load: 0.9, records: 1 << 50, slots: 5592405, limit: 5033164},
		{size: 0, load: 0.9, records: 100, slots: 2, limit: 1},
		{size: 240, load: 5, records: 100, slots: 10, limit: 9},
		{size: 240, load: 0, records: 100, slots: 10, limit: 1},
	} {
		m := newKeyMap(tt.size, tt.load, tt.records)
		if len(m.slots) != tt.slots || m.limit != tt.limit {
			t.Errorf("%+v: %d slots, limit %d", tt, len(m.slots), m.limit)
		}
	}
}

func BenchmarkKeyMap(b *testing.B) {
	const n = 1 << 18
	m := newKeyMap(64<<20, 0.9, n)
	var key [20]byte
	i := uint64(0)
	for b.Loop() {
		binary.BigEndian.PutUint64(key[12:], i%n)
		m.put(key[:], int64(i))
		i++
	}
}
