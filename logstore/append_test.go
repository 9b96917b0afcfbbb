package logstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

// edit changes bytes of a batch and corrects its checksum.
func edit(b record.Batch, change func(record.Batch)) []byte {
	change(b)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

func codeOf(err error) int16 {
	var code *kerr.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return code.Code
	}
	return kerr.UnknownServerError.Code
}

// TestProducedBatches compares responses with those of Apache Kafka 3.9.2 to valid and invalid batches: the error code,
// and whether the response contains the log start offset.
func TestProducedBatches(t *testing.T) {
	plain := func() record.Batch { return batchOf(1000, "v").MustBuild() }
	with := func(change func(record.Batch)) []byte { return edit(plain(), change) }
	put16 := func(at int, v uint16) func(record.Batch) {
		return func(b record.Batch) { binary.BigEndian.PutUint16(b[at:], v) }
	}
	put32 := func(at int, v uint32) func(record.Batch) {
		return func(b record.Batch) { binary.BigEndian.PutUint32(b[at:], v) }
	}
	const noStart, start = -1, 0
	m1 := record.AppendMessage(nil, 1, 0, 5, []byte("k"), []byte("v"))
	m0 := record.AppendMessage(nil, 0, 0, -1, []byte("k"), []byte("v"))
	zstd := batchOf(1000, "v")
	zstd.Codec = record.Zstd
	for _, tt := range []struct {
		name    string
		data    []byte
		version int16
		code    int16
		start   int64
	}{
		{"good", plain(), 9, 0, start},
		{"no bytes", nil, 9, 87, noStart},
		{"no bytes, old version", nil, 1, 87, noStart},
		{"two batches", append(plain(), plain()...), 9, 87, noStart},
		{"two messages", append(m1[:len(m1):len(m1)], m1...), 2, 0, start},
		{"wrong checksum", func() []byte { b := plain(); b[len(b)-1] ^= 1; return b }(), 9, 2, noStart},
		{"cut short", plain()[:len(plain())-5], 9, 87, noStart},
		{"ten bytes behind", append(plain(), make([]byte, 10)...), 9, 0, start},
		{"count above the records", with(put32(57, 3)), 9, 87, start},
		{"count below the records", edit(batchOf(1000, "a", "b").MustBuild(), put32(57, 1)), 9, 87, start},
		{"last offset delta is not count-1", with(put32(23, 5)), 9, 87, start},
		{"no count", with(put32(57, 0)), 9, 87, start},
		{"negative count", with(put32(57, 1<<32-1)), 9, 87, start},
		{"offset delta of a record", with(func(b record.Batch) { b[64] = 6 }), 9, 0, start},
		{"record length", with(func(b record.Batch) { b[61] += 2 }), 9, 87, start},
		{"garbage for gzip", with(put16(21, 1)), 9, -1, start},
		{"unknown codec 5", with(put16(21, 5)), 9, -1, start},
		{"unknown codec 7", with(put16(21, 7)), 9, -1, start},
		{"base offset", with(func(b record.Batch) { b[7] = 55 }), 9, 87, start},
		{"leader epoch of the client", with(put32(12, 77)), 9, 0, start},
		{"magic 3", with(func(b record.Batch) { b[16] = 3 }), 9, 2, noStart},
		{"control bit", with(put16(21, 0x20)), 9, 87, start},
		{"unused attribute bit", with(put16(21, 0x80)), 9, 0, start},
		{"delete horizon bit", with(put16(21, 0x40)), 9, 0, start},
		{"append time bit", with(put16(21, 0x08)), 9, 0, start},
		{"max timestamp", with(put32(39, 99999)), 9, 0, start},
		{"zstd, v3", zstd.MustBuild(), 3, 76, noStart},
		{"zstd, v6", zstd.MustBuild(), 6, 76, noStart},
		{"zstd, v7", zstd.MustBuild(), 7, 0, start},
		{"magic 1, v3", m1, 3, 87, noStart},
		{"magic 1, v9", m1, 9, 87, noStart},
		{"magic 2, v2", plain(), 2, 0, start},
		{"magic 0, v0", m0, 0, 0, start},
		{"magic 1, v1", m1, 1, 0, start},
		{"magic 1 with a wrong checksum", func() []byte { b := append([]byte(nil), m1...); b[len(b)-1] ^= 1; return b }(), 2, 2, noStart},
		{"producer without sequence", sequenced(5, 0, -1, 1).MustBuild(), 9, 87, start},
		{"producer without epoch", sequenced(5, -1, 0, 1).MustBuild(), 9, 0, start},
		{"sequence without producer", sequenced(-1, -1, 3, 1).MustBuild(), 9, 0, start},
		{"timestamp -2", batchOf(-2, "v").MustBuild(), 9, 0, start},
		{"length below a header", func() []byte { b := plain(); b[11] = 20; return b }(), 9, 2, noStart},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newTestLog(t, nil)
			data := append([]byte(nil), tt.data...)
			info, err := l.AppendLeader(data, LeaderAppend{ProduceVersion: tt.version})
			if codeOf(err) != tt.code || info.LogStartOffset != tt.start {
				t.Errorf("code %d, start %d (%v); want %d, %d", codeOf(err), info.LogStartOffset, err, tt.code, tt.start)
			}
			if tt.code != 0 {
				if l.LogEndOffset() != 0 || info.FirstOffset != -1 {
					t.Errorf("something was appended: %+v", info)
				}
				return
			}
			for _, b := range readAll(t, l, l.LogEndOffset()) {
				if !b.Valid() || b.Magic() != 2 || b.LeaderEpoch() != 0 {
					t.Errorf("wrong batch stored: % x", []byte(b))
				}
			}
		})
	}
}

func TestSizeLimits(t *testing.T) {
	size := len(batchOf(1, strings.Repeat("x", 900)).MustBuild())
	for _, tt := range []struct {
		name          string
		max, segment  int32
		compress      bool
		wantCode      int16
		wantStart     int64
		wantCompacted bool
	}{
		{"at max.message.bytes", int32(size), 1 << 20, false, 0, 0, false},
		{"above max.message.bytes", int32(size - 1), 1 << 20, false, 10, -1, false},
		{"compressed below, uncompressed above", 500, 1 << 20, true, 0, 0, false},
		{"above segment.bytes", 1 << 20, int32(size - 1), false, 18, -1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newTestLog(t, func(c *Config) { c.MaxMessageBytes, c.SegmentBytes = tt.max, tt.segment })
			w := batchOf(1, strings.Repeat("x", 900))
			if tt.compress {
				w.Codec = record.Gzip
			}
			info, err := produce(l, w.MustBuild())
			if codeOf(err) != tt.wantCode || info.LogStartOffset != tt.wantStart {
				t.Errorf("code %d, start %d; want %d, %d", codeOf(err), info.LogStartOffset, tt.wantCode, tt.wantStart)
			}
		})
	}
}

func TestManyRecordErrors(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Zstd} {
		l, _ := newTestLog(t, func(c *Config) { c.Compact, c.MaxMessageBytes = true, 1<<30 })
		w := record.NewBuilder()
		w.Codec = codec
		for range 3 * maxRecordErrors {
			w.Add(1, nil, nil)
		}
		info, err := produce(l, w.MustBuild())
		if !errors.Is(err, kerr.InvalidRecord) || len(info.RecordErrors) != maxRecordErrors || l.env.rejections.Keyless.Load() != 3*maxRecordErrors {
			t.Errorf("%v: %d errors, %d records without a key, %v", codec, len(info.RecordErrors), l.env.rejections.Keyless.Load(), err)
		}
	}
}

func TestRecordErrors(t *testing.T) {
	c := newClock()
	now := c.now.UnixMilli()
	mixed := func(keys ...string) *record.Builder {
		w := record.NewBuilder()
		for _, k := range keys {
			var key []byte
			if k != "" {
				key = []byte(k)
			}
			w.Add(now, key, []byte("v"))
		}
		return w
	}
	old := record.NewBuilder()
	old.Add(now, []byte("k"), nil)
	old.Add(now-60_000, []byte("k"), nil)
	old.Add(now, []byte("k"), nil)
	stamped := batchOf(now, "v").MustBuild()
	stamped = edit(stamped, func(b record.Batch) { b[22] |= 8 })
	for _, tt := range []struct {
		name   string
		change func(*Config)
		data   []byte
		code   int16
		at     []int32
	}{
		{"keys on a compacted topic", func(c *Config) { c.Compact = true }, mixed("a", "", "b", "").MustBuild(), 87, []int32{1, 3}},
		{"with keys", func(c *Config) { c.Compact = true }, mixed("a", "b").MustBuild(), 0, nil},
		{"one is too old", func(c *Config) { c.TimestampBeforeMax = time.Second }, old.MustBuild(), 32, []int32{1}},
		{"too new", func(c *Config) { c.TimestampAfterMax = time.Second }, batchOf(now+60_000, "v").MustBuild(), 32, []int32{0}},
		{"no timestamp", func(c *Config) { c.TimestampBeforeMax = time.Second }, batchOf(-1, "v").MustBuild(), 0, nil},
		{"append time set by the client", func(c *Config) { c.TimestampType = record.LogAppendTime }, stamped, 32, []int32{0}},
	} {
		for _, codec := range []record.Codec{record.None, record.Lz4} {
			t.Run(tt.name+", "+codec.String(), func(t *testing.T) {
				l, _ := newTestLog(t, tt.change)
				data := append([]byte(nil), tt.data...)
				if codec != record.None {
					data = recompress(t, data, codec)
				}
				info, err := produce(l, data)
				var at []int32
				for _, e := range info.RecordErrors {
					at = append(at, e.Index)
				}
				if codeOf(err) != tt.code || !cmp.Equal(at, tt.at) || (info.Message != "") != (tt.at != nil) {
					t.Errorf("code %d, records %v, message %q; want %d, %v", codeOf(err), at, info.Message, tt.code, tt.at)
				}
				if err != nil && (info.LogStartOffset != 0 || l.LogEndOffset() != 0) {
					t.Errorf("log start %d, log end %d", info.LogStartOffset, l.LogEndOffset())
				}
			})
		}
	}
}

// recompress returns a batch with its records compressed.
func recompress(t *testing.T, b record.Batch, codec record.Codec) []byte {
	t.Helper()
	out, err := record.Compress(append([]byte(nil), b[:record.HeaderSize]...), codec, record.DefaultLevel, b.Body())
	if err != nil {
		t.Fatal(err)
	}
	return edit(out, func(b record.Batch) {
		b[22] |= byte(codec)
		binary.BigEndian.PutUint32(b[8:], uint32(len(b)-record.Overhead))
	})
}

func TestLogAppendTime(t *testing.T) {
	l, c := newTestLog(t, func(c *Config) { c.TimestampType = record.LogAppendTime })
	info := mustProduce(t, l, batchOf(5, "v"))
	if want := c.now.UnixMilli(); info.LogAppendTime != want {
		t.Errorf("append time %d, want %d", info.LogAppendTime, want)
	}
	b := readAll(t, l, 1)[0]
	if b.TimestampType() != record.LogAppendTime || b.MaxTimestamp() != c.now.UnixMilli() || b.BaseTimestamp() != 5 || !b.Valid() {
		t.Errorf("stored batch: type %d, max %d, base %d", b.TimestampType(), b.MaxTimestamp(), b.BaseTimestamp())
	}
}

func TestTopicCompression(t *testing.T) {
	for name, want := range map[string]record.Codec{"producer": record.Lz4, "gzip": record.Gzip, "uncompressed": record.None,
		"snappy": record.Snappy, "zstd": record.Zstd, "lz4": record.Lz4} {
		t.Run(name, func(t *testing.T) {
			l, _ := newTestLog(t, func(c *Config) { c.Compression = name })
			w := batchOf(1000, "a", "b", "c")
			w.Codec = record.Lz4
			mustProduce(t, l, w)
			b := readAll(t, l, 3)[0]
			var values []string
			if err := b.Records(func(r *record.Record) error { values = append(values, string(r.Value)); return nil }); err != nil {
				t.Fatal(err)
			}
			if b.Codec() != want || !cmp.Equal(values, []string{"a", "b", "c"}) || b.MaxTimestamp() != 1002 {
				t.Errorf("stored with %v, values %v, max timestamp %d", b.Codec(), values, b.MaxTimestamp())
			}
		})
	}
}

// TestOldClients: message sets are stored as one batch of magic 2; the messages in a wrapper whose inner offsets are
// all 0, as old clients send them, are counted correctly.
func TestOldClients(t *testing.T) {
	var inner []byte
	for range 5 {
		inner = record.AppendMessage(inner, 1, 0, 1000, []byte("k"), []byte("v"))
	}
	value, err := record.Compress(nil, record.Lz4, record.DefaultLevel, inner)
	if err != nil {
		t.Fatal(err)
	}
	wrapper := record.AppendMessage(nil, 1, 0, 1000, nil, value)
	wrapper[17] = byte(record.Lz4)
	binary.BigEndian.PutUint32(wrapper[12:], crc32.ChecksumIEEE(wrapper[16:]))
	l, _ := newTestLog(t, nil)
	info, err := l.AppendLeader(wrapper, LeaderAppend{ProduceVersion: 2})
	if err != nil || info.FirstOffset != 0 || info.LastOffset != 4 {
		t.Fatalf("%+v, %v; want offsets 0 to 4", info, err)
	}
	if next := mustProduce(t, l, batchOf(1, "v")); next.FirstOffset != 5 {
		t.Errorf("next append at %d, want 5", next.FirstOffset)
	}
}

func TestIdempotentProducer(t *testing.T) {
	type step struct {
		name  string
		pid   int64
		epoch int16
		seq   int32
		n     int
		code  int16
		first int64 // offset
		dup   bool
	}
	for name, steps := range map[string][]step{
		"sequences": {
			{"first", 1, 0, 0, 3, 0, 0, false},
			{"next", 1, 0, 3, 1, 0, 3, false},
			{"last again", 1, 0, 3, 1, 0, 3, true},
			{"older one again", 1, 0, 0, 3, 0, 0, true},
			{"gap", 1, 0, 9, 1, 45, -1, false},
			{"lower, no such batch", 1, 0, 1, 1, 45, -1, false},
			{"overlap", 1, 0, 3, 2, 45, -1, false},
			{"4", 1, 0, 4, 1, 0, 4, false}, {"5", 1, 0, 5, 1, 0, 5, false}, {"6", 1, 0, 6, 1, 0, 6, false},
			{"7", 1, 0, 7, 1, 0, 7, false}, {"8", 1, 0, 8, 1, 0, 8, false}, {"9", 1, 0, 9, 1, 0, 9, false},
			{"older than five batches", 1, 0, 3, 1, 45, -1, false},
			{"fifth last again", 1, 0, 5, 1, 0, 5, true},
			{"new epoch", 1, 1, 0, 1, 0, 10, false},
			{"old epoch", 1, 0, 10, 1, 47, -1, false},
			{"new epoch, not from 0", 1, 2, 5, 1, 45, -1, false},
			{"unknown producer, not from 0", 2, 0, 7, 1, 0, 11, false},
			{"unknown producer, no such epoch", 3, -2, 0, 1, 47, -1, false},
		},
		"wrap": {
			{"before", 1, 0, math.MaxInt32 - 1, 1, 0, 0, false},
			{"over", 1, 0, math.MaxInt32, 2, 0, 1, false},
			{"over again", 1, 0, math.MaxInt32, 2, 0, 1, true},
			{"after", 1, 0, 1, 1, 0, 3, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newTestLog(t, nil)
			for _, s := range steps {
				info, err := produce(l, sequenced(s.pid, s.epoch, s.seq, s.n).MustBuild())
				if codeOf(err) != s.code || info.FirstOffset != s.first || info.Duplicate != s.dup {
					t.Errorf("%s: code %d, %+v; want %d, offset %d, duplicate %v", s.name, codeOf(err), info, s.code, s.first, s.dup)
				}
				if info.LogStartOffset != 0 {
					t.Errorf("%s: log start %d", s.name, info.LogStartOffset)
				}
				if s.dup && info.LogAppendTime != 1_790_000_000_000 {
					t.Errorf("%s: append time %d", s.name, info.LogAppendTime)
				}
			}
		})
	}
}

// TestNothingWholeFromAnOldClient: what has no complete message is accepted from an old client, and nothing is appended.
func TestNothingWholeFromAnOldClient(t *testing.T) {
	message := record.AppendMessage(nil, 1, 0, 1000, nil, []byte("v"))
	for version := range int16(3) {
		for name, data := range map[string][]byte{"empty": {}, "a part of a message": message[:20]} {
			l, _ := newTestLog(t, nil)
			info, err := l.AppendLeader(data, LeaderAppend{ProduceVersion: version})
			if err != nil || info.FirstOffset != -1 || info.LastOffset != -1 || l.LogEndOffset() != 0 {
				t.Errorf("%s in Produce v%d: %+v, %v", name, version, info, err)
			}
		}
	}
}

// TestFollowerStartsInsideABatch: a log that is empty begins with the whole batch that its start offset is in; what does
// not reach that offset is rejected.
func TestFollowerStartsInsideABatch(t *testing.T) {
	for _, tt := range []struct {
		name           string
		start          int64
		before         bool // the log has records already
		wantStart, end int64
	}{
		{"at the first record", 10, false, 10, 13},
		{"inside", 11, false, 10, 13},
		{"at the last record", 12, false, 10, 13},
		{"above", 13, false, 13, 13},
		{"not empty", 11, true, 11, 12},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newTestLog(t, nil)
			if err := l.TruncateFullyAndStartAt(tt.start); err != nil {
				t.Fatal(err)
			}
			at := func(offset int64, values ...string) []byte {
				w := batchOf(1000, values...)
				w.BaseOffset, w.LeaderEpoch = offset, 3
				return w.MustBuild()
			}
			if tt.before {
				if _, err := l.AppendFollower(at(tt.start, "x")); err != nil {
					t.Fatal(err)
				}
			}
			info, err := l.AppendFollower(at(10, "a", "b", "c"))
			if rejected := tt.before || tt.start == 13; (err != nil) != rejected {
				t.Errorf("%+v, %v", info, err)
			}
			if l.LogStartOffset() != tt.wantStart || l.LogEndOffset() != tt.end {
				t.Errorf("the log goes from %d to %d, want from %d to %d", l.LogStartOffset(), l.LogEndOffset(), tt.wantStart, tt.end)
			}
		})
	}
}

func TestFollowerKeepsOffsets(t *testing.T) {
	at := func(offset int64, epoch int32, values ...string) []byte {
		w := batchOf(1000, values...)
		w.BaseOffset, w.LeaderEpoch = offset, epoch
		return w.MustBuild()
	}
	l, _ := newTestLog(t, nil)
	data := append(at(10, 3, "a", "b"), at(20, 5, "c")...)
	info, err := l.AppendFollower(append(data, at(30, 5, "cut")[:40]...))
	if err != nil || info.FirstOffset != 10 || info.LastOffset != 20 || l.LogEndOffset() != 21 {
		t.Fatalf("%+v, %v, log end %d", info, err, l.LogEndOffset())
	}
	for _, tt := range []struct {
		name string
		data []byte
	}{
		{"below the end", at(20, 5, "x")},
		{"not rising", append(at(40, 5, "x"), at(39, 5, "x")...)},
		{"wrong checksum", func() []byte { b := at(40, 5, "x"); b[len(b)-1]++; return b }()},
	} {
		if _, err := l.AppendFollower(tt.data); err == nil || l.LogEndOffset() != 21 {
			t.Errorf("%s: accepted (%v), log end %d", tt.name, err, l.LogEndOffset())
		}
	}
	for _, tt := range []struct {
		epoch, found int32
		end          int64
	}{{2, 2, 10}, {3, 3, 20}, {4, 3, 20}, {5, 5, 21}, {6, -1, -1}, {-1, -1, -1}} {
		if found, end := l.EndOffsetForEpoch(tt.epoch); found != tt.found || end != tt.end {
			t.Errorf("end of epoch %d: %d, %d; want %d, %d", tt.epoch, found, end, tt.found, tt.end)
		}
	}
}
