package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
)

var codecs = []Codec{None, Gzip, Snappy, Lz4, Zstd}

// sameBytes distinguishes null from empty, and compares large values quickly.
var sameBytes = cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) })

// plain is a record in a form that can be compared.
type plain struct {
	Offset, Timestamp int64
	Key, Value        []byte
	Headers           []Header
}

func recordsOf(t testing.TB, b Batch) []plain {
	t.Helper()
	var records []plain
	err := b.Records(func(r *Record) error {
		records = append(records, plain{r.Offset, r.Timestamp, r.Key, r.Value, r.Headers()})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// assorted returns a batch with a record of every shape.
func assorted() *Builder {
	w := NewBuilder()
	w.Add(1000, nil, []byte("no key"))
	w.Add(2000, []byte("no value"), nil)
	w.Add(500, []byte{}, []byte{})
	w.Add(-1, []byte("k"), []byte("v"), Header{"h", []byte("1")}, Header{"", nil}, Header{"h", []byte{}})
	w.Add(1500, []byte("big"), bytes.Repeat([]byte("barnabas"), 20_000))
	return w
}

func TestBuildAndRead(t *testing.T) {
	want := []plain{
		{7, 1000, nil, []byte("no key"), nil},
		{8, 2000, []byte("no value"), nil, nil},
		{9, 500, []byte{}, []byte{}, nil},
		{10, -1, []byte("k"), []byte("v"), []Header{{"h", []byte("1")}, {"", nil}, {"h", []byte{}}}},
		{11, 1500, []byte("big"), bytes.Repeat([]byte("barnabas"), 20_000), nil},
	}
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			w := assorted()
			w.BaseOffset, w.Codec, w.LeaderEpoch = 7, codec, 3
			b, err := w.Build()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, recordsOf(t, b), sameBytes); diff != "" {
				t.Error(diff)
			}
			if !b.Valid() || b.Codec() != codec || b.MaxTimestamp() != 2000 || b.LastOffset() != 11 || b.Count() != 5 || b.LeaderEpoch() != 3 {
				t.Errorf("header: %v %d %d %d %d", b.Codec(), b.MaxTimestamp(), b.LastOffset(), b.Count(), b.LeaderEpoch())
			}
			copied := NewBuilder()
			copied.BaseOffset = 7
			_ = b.Records(func(r *Record) error { copied.AddRecord(r); return nil })
			if diff := cmp.Diff(want, recordsOf(t, copied.MustBuild()), sameBytes); diff != "" {
				t.Error("copied:", diff)
			}
		})
	}
}

func TestSkimAgreesWithRead(t *testing.T) {
	for _, codec := range codecs[1:] {
		w := assorted()
		w.Codec, w.BaseOffset = codec, 7
		b, err := w.Build()
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.Skim()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range recordsOf(t, b) {
			if !s.Next() || s.Offset != want.Offset || s.Timestamp != want.Timestamp || s.HasKey != (want.Key != nil) {
				t.Errorf("%v: skimmed %d %d %v (%v), want %+v", codec, s.Offset, s.Timestamp, s.HasKey, s.Err(), want.Offset)
			}
		}
		if s.Next() || s.Err() != nil {
			t.Errorf("%v: more than exists (%v)", codec, s.Err())
		}
		s.Close()
	}
}

// TestSamplesRoundTrip: batches that Apache Kafka stored, in all codecs as its Java client frames them, can be decoded,
// and uncompressed ones are encoded to the same bytes.
func TestSamplesRoundTrip(t *testing.T) {
	files, err := filepath.Glob("../testdata/logdir/*/*.log")
	if err != nil || len(files) == 0 {
		t.Fatal("no samples", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		walk := Split(data)
		for walk.Next() {
			b := walk.Batch()
			w := NewBuilder()
			w.BaseOffset, w.LeaderEpoch, w.TimestampType = b.BaseOffset(), b.LeaderEpoch(), b.TimestampType()
			w.ProducerID, w.ProducerEpoch, w.BaseSequence = b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
			w.Transactional, w.Control, w.AppendTime = b.Transactional(), b.Control(), b.MaxTimestamp()
			if err := b.Records(func(r *Record) error { w.AddRecord(r); return nil }); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if w.Count() != int(b.Count()) {
				t.Errorf("%s: batch at %d has %d records, header says %d", name, b.BaseOffset(), w.Count(), b.Count())
			}
			_, horizon := b.DeleteHorizon()
			if b.Codec() != None || horizon || b.TimestampType() == LogAppendTime || w.Count() != int(b.LastOffsetDelta())+1 {
				continue // more than one form is right
			}
			if again := w.MustBuild(); !bytes.Equal(again, b) {
				t.Errorf("%s: batch at %d is encoded to other bytes", name, b.BaseOffset())
			}
		}
		if walk.Err() != nil || walk.Position() != len(data) {
			t.Errorf("%s: stopped at %d of %d: %v", name, walk.Position(), len(data), walk.Err())
		}
	}
}

func TestCompressedForms(t *testing.T) {
	src := bytes.Repeat([]byte("the castle "), 9000) // more than one snappy and one lz4 block
	for codec, head := range map[Codec][]byte{
		Gzip:   {0x1f, 0x8b},
		Snappy: {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1},
		Lz4:    {0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82},
		Zstd:   {0x28, 0xb5, 0x2f, 0xfd},
	} {
		for _, level := range []int{DefaultLevel, 1, 5, 9, 17} {
			if codec == Gzip && level > 9 {
				continue
			}
			dst, err := Compress([]byte("x"), codec, level, src)
			if err != nil {
				t.Fatalf("%v at level %d: %v", codec, level, err)
			}
			if !bytes.HasPrefix(dst[1:], head) {
				t.Errorf("%v begins with % x, want % x", codec, dst[1:20], head)
			}
			got, err := decompress([]byte("y"), codec, dst[1:])
			if err != nil || !bytes.Equal(got[1:], src) || got[0] != 'y' {
				t.Errorf("%v at level %d: %d bytes, %v", codec, level, len(got), err)
			}
		}
	}
}

func TestRawSnappyBlock(t *testing.T) {
	raw := []byte{5, 4 << 2, 'h', 'e', 'l', 'l', 'o'} // as librdkafka sends it: without framing
	got, err := decompress(nil, Snappy, raw)
	if err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestDecompressionBombs: a few bytes must not cause a large allocation.
func TestDecompressionBombs(t *testing.T) {
	zeros, err := Compress(nil, Zstd, 1, make([]byte, maxDecompressed+1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decompress(nil, Zstd, zeros); !errors.Is(err, errTooLarge) {
		t.Errorf("zstd: %v", err)
	}
	lying := append([]byte{0xff, 0xff, 0xff, 0xff, 0x07}, make([]byte, 20)...) // it claims to be 2 GB long
	if got, err := decompress(nil, Snappy, lying); err == nil || cap(got) > 1<<20 {
		t.Errorf("snappy: %v, %d bytes", err, cap(got))
	}
	for _, codec := range append(codecs[1:], 5, 7) {
		if _, err := decompress(nil, codec, []byte("garbage")); err == nil {
			t.Errorf("%v accepts garbage", codec)
		}
	}
}

// edited returns a batch of one record with one byte changed and a correct checksum.
func edited(at int, value byte) Batch {
	w := NewBuilder()
	w.Add(1000, []byte("key"), []byte("value"), Header{"h", []byte("v")})
	b := w.MustBuild()
	b[at] = value
	b.seal()
	return b
}

func TestWrongRecords(t *testing.T) {
	// The record is: length, attributes, timestamp delta, offset delta, key length, key, value length, value, header
	// count, header key length, header key, header value length, header value.
	for _, tt := range []struct {
		name string
		b    Batch
	}{
		{"length above the batch", edited(61, 0x7e)},
		{"length below the content", edited(61, 2)},
		{"negative length", edited(61, 1)},
		{"key length", edited(65, 0x7e)},
		{"value length", edited(69, 0x7e)},
		{"header count", edited(75, 0x20)},
		{"negative header count", edited(75, 1)},
		{"null header key", edited(76, 1)},
		{"header value length", edited(78, 0x7e)},
		{"count", edited(60, 2)},
		{"negative count", edited(57, 0x80)},
		{"unfinished varint", edited(64, 0xff)},
	} {
		var r Record
		it := tt.b.Iter(tt.b.Body())
		for it.Next(&r) {
		}
		if _, accepted := tt.b.Survey(); accepted || !errors.Is(it.Err(), kerr.InvalidRecord) {
			t.Errorf("%s: %v, accepted by the survey %v", tt.name, it.Err(), accepted)
		}
	}
}

// padded returns a batch of one record whose field at the position in the record is encoded in width bytes.
func padded(codec Codec, at, width int) Batch {
	w := NewBuilder()
	w.Codec = codec
	w.Add(1000, []byte("key"), []byte("value"), Header{"h", []byte("v")})
	r := w.records
	field := append([]byte{r[at] | 0x80}, bytes.Repeat([]byte{0x80}, width-2)...)
	field = append(field, 0)
	if at > 0 {
		r[0] += 2 * byte(width-1) // the record's length, as a zig-zag varint
	}
	w.records = slices.Replace(r, at, at+1, field...)
	return w.MustBuild()
}

// A number in more bytes than its type can have is refused: Java consumers would fail on the record again and again.
func TestLongVarints(t *testing.T) {
	fields := map[string]int{"length": 0, "timestamp delta": 2, "offset delta": 3, "key length": 4, "value length": 8, "header count": 14,
		"header key length": 15, "header value length": 17}
	for name, at := range fields {
		most := binary.MaxVarintLen32
		if name == "timestamp delta" {
			most = binary.MaxVarintLen64
		}
		for codec := None; codec <= Zstd; codec++ {
			for width := 2; width <= most+1; width++ {
				b := padded(codec, at, width)
				err := eachRecord(b, func(int64, int64, bool) {})
				errRead := b.Records(func(*Record) error { return nil })
				_, surveyed := b.Survey()
				if width <= most && (err != nil || errRead != nil) {
					t.Errorf("%s of %d bytes, %v: %v, %v", name, width, codec, err, errRead)
				}
				if width > most && (!errors.Is(err, kerr.InvalidRecord) || !errors.Is(errRead, kerr.InvalidRecord) || surveyed) {
					t.Errorf("%s of %d bytes, %v: %v, %v, accepted by the survey: %v", name, width, codec, err, errRead, surveyed)
				}
			}
		}
	}
}

func TestSplit(t *testing.T) {
	b := []byte(edited(60, 1))
	v1 := AppendMessage(nil, 1, 9, 5, []byte("k"), nil)
	head := func(length uint32, magic byte) []byte {
		h := make([]byte, 80)
		binary.BigEndian.PutUint32(h[8:], length)
		h[16] = magic
		return h
	}
	for _, tt := range []struct {
		name    string
		data    []byte
		batches int
		corrupt bool
	}{
		{"none", nil, 0, false},
		{"two", append(b[:len(b):len(b)], v1...), 2, false},
		{"cut short", b[:len(b)-1], 0, false},
		{"cut in the second header", append(b[:len(b):len(b)], b[:11]...), 1, false},
		{"cut before the magic", append(b[:len(b):len(b)], b[:16]...), 1, false},
		{"zeroes behind", append(b[:len(b):len(b)], make([]byte, 12)...), 1, true},
		{"negative length", head(1<<31, 2), 0, true},
		{"length below a message", head(13, 0), 0, true},
		{"length below a magic 1 message", head(21, 1), 0, true},
		{"length below a batch", head(48, 2), 0, true},
		{"magic 3", head(60, 3), 0, true},
		{"magic -1", head(60, 255), 0, true},
	} {
		n := 0
		walk := Split(tt.data)
		for walk.Next() {
			n++
		}
		if n != tt.batches || errors.Is(walk.Err(), kerr.CorruptMessage) != tt.corrupt {
			t.Errorf("%s: %d batches, %v; want %d, corrupt %v", tt.name, n, walk.Err(), tt.batches, tt.corrupt)
		}
	}
}

func TestSetMaxTimestamp(t *testing.T) {
	b := edited(22, 0x80) // an attribute bit without a meaning
	crc := b.CRC()
	b.SetMaxTimestamp(CreateTime, 1000)
	if b.CRC() != crc || b.Attributes() != 0x80 {
		t.Error("it was changed without need")
	}
	b.SetMaxTimestamp(LogAppendTime, 5)
	if !b.Valid() || b.TimestampType() != LogAppendTime || b.MaxTimestamp() != 5 || b.Attributes() != 0x08 {
		t.Errorf("attributes %#x, max timestamp %d, valid %v", b.Attributes(), b.MaxTimestamp(), b.Valid())
	}
	if r := recordsOf(t, b)[0]; r.Timestamp != 5 {
		t.Errorf("record has timestamp %d", r.Timestamp)
	}
}

func TestAddSequence(t *testing.T) {
	for _, tt := range []struct{ seq, n, want int32 }{{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}, {math.MaxInt32, 0, math.MaxInt32}} {
		if got := AddSequence(tt.seq, tt.n); got != tt.want {
			t.Errorf("%d after %d is %d, want %d", tt.n, tt.seq, got, tt.want)
		}
	}
}

// TestDownConvert converts a batch of assorted records, behind which are a control batch, which old consumers do not
// know, an old message, and the beginning of another batch.
func TestDownConvert(t *testing.T) {
	for _, magic := range []int8{0, 1} {
		for _, codec := range codecs {
			if codec != Zstd {
				t.Run(fmt.Sprintf("magic %d, %v", magic, codec), func(t *testing.T) { checkDownConvert(t, magic, codec) })
			}
		}
	}
}

func assortedBatch(t *testing.T, codec Codec) Batch {
	t.Helper()
	w := assorted()
	w.BaseOffset, w.Codec = 7, codec
	b, err := w.Build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func checkDownConvert(t *testing.T, magic int8, codec Codec) {
	b := assortedBatch(t, codec)
	control := NewBuilder()
	control.Control, control.BaseOffset = true, 12
	control.Add(0, []byte{0, 0, 0, 1}, make([]byte, 6))
	data := append(slices.Clone([]byte(b)), control.MustBuild()...)
	data = AppendMessage(data, 0, 13, -1, []byte("old"), []byte("message"))
	out, err := DownConvert(append(slices.Clone(data), b[:30]...), magic, 9)
	if err != nil {
		t.Fatal(err)
	}
	var got []plain
	walk := Split(out)
	for walk.Next() {
		if m := walk.Batch(); m.Magic() > magic || !m.Valid() {
			t.Errorf("magic %d, valid %v", m.Magic(), m.Valid())
		}
		got = append(got, recordsOf(t, walk.Batch())...)
	}
	want := []plain{{7, 1000, nil, []byte("no key"), nil}, {8, 2000, []byte("no value"), nil, nil},
		{9, 500, []byte{}, []byte{}, nil}, {10, -1, []byte("k"), []byte("v"), nil},
		{11, 1500, []byte("big"), bytes.Repeat([]byte("barnabas"), 20_000), nil}, {13, -1, []byte("old"), []byte("message"), nil}}
	if codec == None { // only these become messages of their own, of which those below the offset are left out
		want = want[2:]
	}
	if magic == 0 {
		for i := range want {
			want[i].Timestamp = -1
		}
	}
	if diff := cmp.Diff(want, got, sameBytes); diff != "" {
		t.Error(diff)
	}

	damaged := slices.Clone(b)
	for i := HeaderSize; i < len(damaged); i++ {
		damaged[i] = 0xff
	}
	if again, err := DownConvert(append(slices.Clone(data), damaged...), magic, 9); err != nil || !bytes.Equal(again, out) {
		t.Errorf("before a damaged batch: %d bytes, %v; want %d", len(again), err, len(out))
	}
	if _, err := DownConvert(damaged, magic, 7); err == nil {
		t.Error("a damaged batch was converted")
	}
}

// TestDownConvertOfZstd: consumers that need older formats do not know zstd. They get what is before it.
func TestDownConvertOfZstd(t *testing.T) {
	b := assortedBatch(t, Zstd)
	for _, magic := range []int8{0, 1} {
		if _, err := DownConvert(b, magic, 9); !errors.Is(err, kerr.UnsupportedCompressionType) {
			t.Errorf("magic %d: %v", magic, err)
		}
		before := AppendMessage(nil, 0, 6, -1, nil, []byte("before"))
		if out, err := DownConvert(append(slices.Clone(before), b...), magic, 6); err != nil || len(out) != len(before) {
			t.Errorf("magic %d, before the zstd batch: %d bytes, %v", magic, len(out), err)
		}
	}
}

// TestDownConvertToLimit: the result is no larger than what it is made of, except for the first batch.
func TestDownConvertToLimit(t *testing.T) {
	var data []byte
	for offset := int64(0); offset < 1000; offset += 100 {
		w := NewBuilder()
		w.BaseOffset = offset
		for range 100 {
			w.Add(1, nil, nil)
		}
		data = append(data, w.MustBuild()...)
	}
	one, err := DownConvert(data[:len(data)/10], 1, 0)
	if err != nil || len(one) <= len(data)/10 {
		t.Fatalf("one batch of %d bytes has become %d, %v", len(data)/10, len(one), err)
	}
	all, err := DownConvert(data, 1, 0)
	if err != nil || len(all) != len(data) || !bytes.HasPrefix(all, one) {
		t.Errorf("%d bytes have become %d, %v", len(data), len(all), err)
	}
	walk := Split(all)
	for want := int64(0); walk.Next(); want++ {
		if got := walk.Batch().BaseOffset(); got != want {
			t.Fatalf("offset %d follows %d", got, want-1)
		}
	}
	if err := walk.Err(); err != nil {
		t.Error(err)
	}
}

// TestDownConvertAppendTime: what the broker has stamped is still marked as such.
func TestDownConvertAppendTime(t *testing.T) {
	for _, codec := range []Codec{None, Gzip} {
		w := NewBuilder()
		w.Codec, w.TimestampType, w.AppendTime = codec, LogAppendTime, 1234
		w.Add(1, nil, []byte("a"))
		w.Add(2, nil, []byte("b"))
		for magic, want := range []struct {
			kind TimestampType
			time int64
		}{{CreateTime, NoTimestamp}, {LogAppendTime, 1234}} {
			out, err := DownConvert(w.MustBuild(), int8(magic), 0)
			if err != nil {
				t.Fatal(err)
			}
			for walk := Split(out); walk.Next(); {
				m := walk.Batch()
				if m.TimestampType() != want.kind || m.MaxTimestamp() != want.time {
					t.Errorf("magic %d, %v: time %d of type %d", magic, codec, m.MaxTimestamp(), m.TimestampType())
				}
				for _, r := range recordsOf(t, m) {
					if r.Timestamp != want.time {
						t.Errorf("magic %d, %v: a record has time %d", magic, codec, r.Timestamp)
					}
				}
			}
		}
	}
}

// TestZstdSingleSegment: such a frame, which libraries write whose input is one piece, has no window of its own.
func TestZstdSingleSegment(t *testing.T) {
	w, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, pooledWindow+1)
	if got, err := decompress(nil, Zstd, w.EncodeAll(content, nil)); err != nil || len(got) != len(content) {
		t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
	}
}

// TestLargeWindows: a frame of a few bytes may demand the largest window, but only some at a time get it.
func TestLargeWindows(t *testing.T) {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (27 - 10) << 3, 0x03, 0, 0, 'x'} // window 2^27, one last block of a repeated x
	var open []reader
	for range cap(largeWindows) {
		r, err := newReader(Zstd, frame)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	select {
	case largeWindows <- struct{}{}:
		t.Fatal("decoders with the largest window are not counted")
	default:
	}
	done := make(chan error)
	go func() {
		_, err := decompress(nil, Zstd, frame)
		done <- err
	}()
	for _, r := range open {
		r.close()
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := decompress(nil, Zstd, frame[:8]); err == nil {
		t.Error("a frame that is cut short was decompressed")
	}
	if len(largeWindows) != 0 {
		t.Errorf("%d decoders are still counted", len(largeWindows))
	}
}

// TestOldLz4Checksum: old clients included the magic number in the header checksum of an lz4 frame.
func TestOldLz4Checksum(t *testing.T) {
	inner := AppendMessage(nil, 0, 0, -1, []byte("k"), []byte("v"))
	value, err := Compress(nil, Lz4, DefaultLevel, inner)
	if err != nil {
		t.Fatal(err)
	}
	value[6] = byte(xxh32(value[:6]) >> 8)
	m := Batch(appendMessage(nil, 0, byte(Lz4), 0, -1, nil, value))
	if got := recordsOf(t, m); len(got) != 1 || string(got[0].Value) != "v" {
		t.Errorf("%+v", got)
	}
}

func TestWrongMessages(t *testing.T) {
	wrap := func(magic int8, codec Codec, set []byte) Batch {
		value, err := Compress(nil, codec, DefaultLevel, set)
		if err != nil {
			t.Fatal(err)
		}
		return appendMessage(nil, magic, byte(codec), 5, 1000, nil, value)
	}
	message := AppendMessage(nil, 1, 0, 1000, []byte("k"), []byte("v"))
	broken := append([]byte(nil), message...)
	broken[len(broken)-1]++
	short := append([]byte(nil), message...)
	short = short[:len(short)-1]
	for name, m := range map[string]Batch{
		"inner checksum":        wrap(1, Gzip, broken),
		"inner magic":           wrap(0, Gzip, message),
		"nested":                wrap(1, Gzip, wrap(1, Gzip, message)),
		"empty wrapper":         wrap(1, Gzip, nil),
		"cut inner message":     wrap(1, Gzip, short),
		"wrapper with no value": appendMessage(nil, 1, byte(Gzip), 5, 1000, nil, nil),
		"key length": func() Batch {
			b := append([]byte(nil), message...)
			binary.BigEndian.PutUint32(b[26:], 1000)
			binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
			return b
		}(),
	} {
		if err := m.Records(func(*Record) error { return nil }); !errors.Is(err, kerr.InvalidRecord) && !errors.Is(err, kerr.CorruptMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWrappers: what is accepted inside of a compressed message.
func TestWrappers(t *testing.T) {
	inner := func(offsets ...int64) (set []byte) {
		for _, o := range offsets {
			set = AppendMessage(set, 1, o, 1000, nil, []byte("v"))
		}
		return set
	}
	for _, tt := range []struct {
		name   string
		codec  Codec
		offset int64 // of the wrapper
		set    []byte
		want   []int64 // offsets of the records, nil: an error
	}{
		{"relative offsets", Gzip, 11, inner(0, 1), []int64{10, 11}},
		{"no offsets", Gzip, 11, inner(0, 0), []int64{10, 11}},
		{"gaps", Snappy, 13, inner(0, 3), []int64{10, 13}},
		{"the wrapper's offset is that of the last", Lz4, 13, inner(10, 13), []int64{10, 13}},
		{"the wrapper's offset is below that of the last", Lz4, 12, inner(10, 13), nil},
		{"the last is cut off", Lz4, 11, inner(0, 1, 2)[:90], []int64{10, 11}},
		{"nothing", Gzip, 11, []byte{}, nil},
		{"nothing whole", Gzip, 11, inner(0)[:20], nil},
		{"zstd", Zstd, 11, inner(0, 1), nil},
	} {
		value, err := Compress(nil, tt.codec, DefaultLevel, tt.set)
		if err != nil {
			t.Fatal(err)
		}
		b := Batch(appendMessage(nil, 1, byte(tt.codec), tt.offset, 1000, nil, value))
		var got []int64
		err = b.Records(func(r *Record) error { got = append(got, r.Offset); return nil })
		if tt.want == nil && !errors.Is(err, kerr.InvalidRecord) || tt.want != nil && err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: offsets %v, %v; want %v", tt.name, got, err, tt.want)
		}
	}
}

func TestCheckProduce(t *testing.T) {
	b := []byte(edited(60, 1))
	for _, tt := range []struct {
		name    string
		data    []byte
		version int16
		code    int16
	}{
		{"one batch", b, 9, 0},
		{"two batches", append(b[:len(b):len(b)], b...), 9, 87},
		{"two batches, old", append(b[:len(b):len(b)], b...), 2, 0},
		{"none", nil, 9, 87},
		{"none, old", nil, 0, 87},
		{"empty", []byte{}, 9, 87},
		{"empty, old", []byte{}, 2, 0},
		{"cut short", b[:40], 9, 87},
		{"magic 3", edited(16, 3), 9, 2},
		{"surplus bytes", append(b[:len(b):len(b)], 1, 2, 3), 9, 0},
	} {
		var code *kerr.Error
		if err := CheckProduce(tt.data, tt.version); errors.As(err, &code) != (tt.code != 0) || code != nil && code.Code != tt.code {
			t.Errorf("%s: %v, want %d", tt.name, err, tt.code)
		}
	}
}

func TestParseCodec(t *testing.T) {
	for _, c := range codecs {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	if _, err := ParseCodec("lzo"); err == nil {
		t.Error("lzo is accepted as a codec")
	}
}

// FuzzRecords: no input makes reading panic or allocate more memory than its size justifies; what can be read as a
// plain batch is encoded to a batch that reads the same.
func FuzzRecords(f *testing.F) {
	for _, codec := range codecs {
		w := NewBuilder()
		w.Codec = codec
		w.Add(1000, []byte("key"), []byte("value"), Header{"h", nil})
		w.Add(1001, nil, []byte(strings.Repeat("v", 100)))
		b, err := w.Build()
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(b))
		if codec != Zstd {
			old, err := DownConvert(b, 1, 0)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(old)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		walk := Split(data)
		for walk.Next() {
			b := walk.Batch()
			_ = b.Valid()
			w := NewBuilder()
			w.BaseOffset = b.BaseOffset()
			n := 0
			err := b.Records(func(r *Record) error {
				if n++; n > 1000 {
					return errors.New("enough")
				}
				w.AddRecord(r)
				return nil
			})
			if b.Magic() == 2 && b.Codec() != None {
				if s, err := b.Skim(); err == nil {
					for s.Next() {
					}
					s.Close()
				}
			}
			if err != nil || n == 0 || b.TimestampType() == LogAppendTime {
				continue
			}
			again := recordsOf(t, w.MustBuild())
			if diff := cmp.Diff(recordsOf(t, b), again, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(plain{}, "Offset")); diff != "" {
				t.Error(diff)
			}
		}
	})
}
