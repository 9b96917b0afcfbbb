package logstore

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"barnabas/logstore/record"
)

// TestRejectionsAreCounted checks the counts of refused batches; the integration test of metrics compares them with
// Apache Kafka's.
func TestRejectionsAreCounted(t *testing.T) {
	plain := func() record.Batch { return batchOf(1000, "v").MustBuild() }
	with := func(at int, v byte) []byte { return edit(plain(), func(b record.Batch) { b[at] = v }) }
	broken := func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)-1] ^= 1
		return b
	}
	m0 := record.AppendMessage(nil, 0, 0, -1, []byte("k"), []byte("v"))
	m1 := record.AppendMessage(nil, 1, 0, 5, []byte("k"), []byte("v"))
	keyless := record.NewBuilder()
	keyless.Add(1000, nil, []byte("a"))
	keyless.Add(1000, nil, []byte("b"))
	wrap := func(inner []byte) []byte {
		value, err := record.Compress(nil, record.Gzip, record.DefaultLevel, inner)
		if err != nil {
			t.Fatal(err)
		}
		w := record.AppendMessage(nil, 1, 0, 5, nil, value)
		w[17] |= byte(record.Gzip)
		binary.BigEndian.PutUint32(w[12:], crc32.ChecksumIEEE(w[16:]))
		return w
	}
	for _, tt := range []struct {
		name    string
		data    []byte
		version int16
		compact bool

		magic, checksum, offset, keyless int64
	}{
		{name: "good", data: plain(), version: 9},
		{name: "wrong checksum", data: broken(plain()), version: 9, checksum: 1},
		{name: "message with a wrong checksum", data: broken(m1), version: 2, checksum: 1},
		{name: "count", data: with(60, 3), version: 9, offset: 1},
		{name: "control", data: with(22, 0x20), version: 9, offset: 1},
		{name: "no sequence", data: sequenced(5, 0, -1, 1).MustBuild(), version: 9, offset: 1},
		{name: "base offset", data: with(7, 55), version: 9},
		{name: "mixed formats", data: append(m1[:len(m1):len(m1)], m0...), version: 2, magic: 1},
		{name: "another format inside", data: wrap(m0), version: 2, magic: 1},
		{name: "wrong checksum inside", data: wrap(broken(m1)), version: 2, checksum: 1},
		{name: "no keys", data: keyless.MustBuild(), version: 9, compact: true, keyless: 2},
		{name: "no keys, rewritten", data: append(record.AppendMessage(nil, 1, 0, 5, nil, []byte("v")), m1...), version: 2, compact: true, keyless: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newTestLog(t, func(c *Config) { c.Compact = tt.compact })
			_, err := l.AppendLeader(tt.data, LeaderAppend{ProduceVersion: tt.version})
			r := &l.env.rejections
			if magic, checksum, offset, keyless := r.Magic.Load(), r.Checksum.Load(), r.Offset.Load(), r.Keyless.Load(); magic != tt.magic ||
				checksum != tt.checksum || offset != tt.offset || keyless != tt.keyless {
				t.Errorf("%v: magic %d, checksum %d, offset %d, keyless %d", err, magic, checksum, offset, keyless)
			}
		})
	}
	l, _ := newTestLog(t, nil)
	if _, err := l.AppendFollower(broken(plain())); err == nil || l.env.rejections.Checksum.Load() != 1 {
		t.Errorf("a follower's batch with a wrong checksum: %v, counted %d times", err, l.env.rejections.Checksum.Load())
	}
}
