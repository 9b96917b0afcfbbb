package record

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rewriteSource returns a batch of six records at offset 100, alternating between values and tombstones, with headers.
func rewriteSource(codec Codec) *Builder {
	w := NewBuilder()
	w.BaseOffset, w.LeaderEpoch, w.Codec = 100, 3, codec
	w.ProducerID, w.ProducerEpoch, w.BaseSequence = 9, 2, 40
	for i := range 6 {
		value := []byte(fmt.Sprint("value ", i))
		if i%2 == 1 {
			value = nil
		}
		w.Add(5000-int64(i)*700, []byte{byte('a' + i)}, value, Header{"h", []byte{byte(i)}})
	}
	return w
}

func build(t testing.TB, w *Builder) Batch {
	t.Helper()
	b, err := w.Build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRewrite(t *testing.T) {
	const horizon = 9_000_000_000_000
	all := []int64{100, 101, 102, 103, 104, 105}
	tests := []struct {
		name      string
		keep      []int64
		keepEmpty bool
		marker    bool
		stamped   bool // a delete horizon is set
		gone      bool
	}{
		{name: "values only", keep: []int64{100, 102, 104}},
		{name: "the last", keep: []int64{104}},
		{name: "a tombstone stays", keep: []int64{101, 104}, stamped: true},
		{name: "all stay, with tombstones", keep: all, stamped: true},
		{name: "a marker that may go later", keep: []int64{100}, marker: true, stamped: true},
		{name: "nothing", gone: true},
		{name: "nothing but the header", keepEmpty: true},
		{name: "not empty", keep: []int64{100}, keepEmpty: true},
	}
	for _, tt := range tests {
		for _, codec := range codecs {
			for _, stamps := range []TimestampType{CreateTime, LogAppendTime} {
				t.Run(fmt.Sprintf("%s/%v/%d", tt.name, codec, stamps), func(t *testing.T) {
					w := rewriteSource(codec)
					w.TimestampType, w.AppendTime = stamps, 8000
					b := build(t, w)
					var want []plain
					for _, r := range recordsOf(t, b) {
						if slices.Contains(tt.keep, r.Offset) {
							want = append(want, r)
						}
					}
					var rw Rewriter
					out, n, err := rw.Append([]byte("before"), b, Rewrite{Keep: func(r *Record) bool { return slices.Contains(tt.keep, r.Offset) },
						KeepEmpty: tt.keepEmpty, Horizon: horizon, Marker: tt.marker})
					if err != nil {
						t.Fatal(err)
					}
					if want := (Rewritten{6, len(tt.keep)}); n != want {
						t.Errorf("counted %+v, want %+v", n, want)
					}
					got := Batch(out[len("before"):])
					if tt.gone {
						if len(got) > 0 {
							t.Errorf("%d bytes are left", len(got))
						}
						return
					}
					checkRewritten(t, got, b, want)
					if h, ok := got.DeleteHorizon(); ok != tt.stamped || ok && h != horizon {
						t.Errorf("delete horizon %d, %v", h, ok)
					}
				})
			}
		}
	}
}

// checkRewritten compares a rewritten batch with the records that should be left, and with what must not change.
func checkRewritten(t *testing.T, got, from Batch, want []plain) {
	t.Helper()
	if size, err := SizeOf(got); err != nil || size != len(got) || !got.Valid() {
		t.Fatalf("size %d of %d, valid %v, %v", size, len(got), got.Valid(), err)
	}
	if diff := cmp.Diff(want, recordsOf(t, got), sameBytes); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	type header struct {
		base, last, pid int64
		leader          int32
		epoch           int16
		first, lastSeq  int32
		stamps          TimestampType
	}
	of := func(b Batch) header {
		return header{b.BaseOffset(), b.LastOffset(), b.ProducerID(), b.LeaderEpoch(), b.ProducerEpoch(), b.BaseSequence(), b.LastSequence(), b.TimestampType()}
	}
	if of(got) != of(from) {
		t.Errorf("header %+v, was %+v", of(got), of(from))
	}
	newest := NoTimestamp
	for _, r := range want {
		newest = max(newest, r.Timestamp)
	}
	if len(want) == 0 {
		newest = from.MaxTimestamp()
	}
	if got.MaxTimestamp() != newest {
		t.Errorf("largest timestamp %d, want %d", got.MaxTimestamp(), newest)
	}
}

// TestRewriteAgain: a rewritten batch can be rewritten again, and its delete horizon does not change.
func TestRewriteAgain(t *testing.T) {
	for _, codec := range codecs {
		b := build(t, rewriteSource(codec))
		var rw Rewriter
		first, _, err := rw.Append(nil, b, Rewrite{Keep: func(*Record) bool { return true }, Horizon: 70_000})
		if err != nil {
			t.Fatal(err)
		}
		second, _, err := rw.Append(nil, first, Rewrite{Keep: func(r *Record) bool { return r.Offset > 102 }, Horizon: 80_000})
		if err != nil {
			t.Fatal(err)
		}
		checkRewritten(t, second, b, recordsOf(t, b)[3:])
		if h, ok := Batch(second).DeleteHorizon(); !ok || h != 70_000 {
			t.Errorf("%v: delete horizon %d, %v; want that of the first time", codec, h, ok)
		}
		third, _, err := rw.Append(nil, second, Rewrite{Keep: func(*Record) bool { return false }, KeepEmpty: true})
		if err != nil {
			t.Fatal(err)
		}
		if e := Batch(third); len(e) != HeaderSize || !e.Valid() || e.Codec() != None || e.Attributes()&attrDeleteHorizon != 0 || e.LastSequence() != b.LastSequence() {
			t.Errorf("%v: empty batch %x", codec, e)
		}
	}
}

func TestRewriteMessages(t *testing.T) {
	for magic := range int8(2) {
		for _, codec := range []Codec{Gzip, Snappy, Lz4} {
			records := []Record{{Offset: 20, Timestamp: 7, Key: []byte("a"), Value: []byte("1")}, {Offset: 21, Timestamp: 9, Key: []byte("b")},
				{Offset: 25, Timestamp: 8, Key: []byte("c"), Value: []byte("3")}}
			wrapper, err := Messages{Magic: magic, Codec: codec, Level: DefaultLevel}.Append(nil, records)
			if err != nil {
				t.Fatal(err)
			}
			before := recordsOf(t, wrapper)
			for _, keep := range [][]int{{0, 1, 2}, {0, 2}, {1}, {}} {
				var want []plain
				for _, i := range keep {
					want = append(want, before[i])
				}
				var rw Rewriter
				out, _, err := rw.Append(nil, wrapper, Rewrite{Keep: func(r *Record) bool {
					return slices.ContainsFunc(want, func(p plain) bool { return p.Offset == r.Offset })
				}})
				if err != nil {
					t.Fatal(err)
				}
				var got []plain
				if len(out) > 0 {
					got = recordsOf(t, out)
				}
				if diff := cmp.Diff(want, got, sameBytes); diff != "" {
					t.Errorf("magic %d, %v, keep %v (-want +got):\n%s", magic, codec, keep, diff)
				}
			}
		}
	}
}

// FuzzRewrite: no input causes a panic, and the result is always a valid batch.
func FuzzRewrite(f *testing.F) {
	for _, codec := range codecs {
		f.Add([]byte(rewriteSource(codec).MustBuild()), uint8(5))
	}
	f.Add(AppendMessage(nil, 1, 4, 5, []byte("k"), []byte("v")), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, mod uint8) {
		walk := Split(data)
		for walk.Next() {
			var rw Rewriter
			out, n, err := rw.Append(nil, walk.Batch(), Rewrite{Keep: func(r *Record) bool { return mod == 0 || r.Offset%int64(mod) != 0 },
				KeepEmpty: mod%2 == 0, Horizon: 1000})
			if err != nil || len(out) == 0 {
				continue
			}
			if size, err := SizeOf(out); err != nil || size != len(out) {
				t.Fatalf("%d bytes, Size says %d, %v", len(out), size, err)
			}
			if n.Kept > n.Records {
				t.Fatalf("kept %d of %d", n.Kept, n.Records)
			}
		}
	})
}
