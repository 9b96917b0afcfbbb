package record

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
)

// surveyed are batches that Survey accepts.
func surveyed() []Batch {
	plain, keyed, late := NewBuilder(), NewBuilder(), NewBuilder()
	for i := range int64(70) {
		plain.Add(1_790_000_000_000+i, nil, make([]byte, 100))
		keyed.Add(1_790_000_000_000-i, make([]byte, i), make([]byte, 3*i+4))
	}
	for i := range int64(2) {
		late.Add(1_790_000_000_000+(1<<20-1)*i, []byte{}, make([]byte, 20_000))
	}
	return []Batch{plain.MustBuild(), keyed.MustBuild(), late.MustBuild()}
}

// surveyedCompressed are compressed batches that it accepts, with records that cross pieces and others that are unusual.
func surveyedCompressed() (batches []Batch) {
	for codec := Gzip; codec <= Zstd; codec++ {
		one, many, mixed, gap := NewBuilder(), NewBuilder(), NewBuilder(), NewBuilder()
		one.Add(5, nil, nil)
		for i := range int64(700) {
			many.Add(1_790_000_000_000+i%9, nil, fmt.Append(nil, "value of some more bytes than it has sense ", i))
		}
		for i := range int64(9) {
			mixed.Add(1_790_000_000_000-i<<21, []byte("key"), bytes.Repeat([]byte("long"), int(i*700)))
			mixed.AddRecord(&Record{Offset: 2*i + 1, Timestamp: 1_790_000_000_000, headerCount: 1, headers: []byte{2, 'k', 2, 'v'}})
		}
		gap.AddRecord(&Record{Offset: 0, Timestamp: 5})
		gap.AddRecord(&Record{Offset: 2, Timestamp: 5})
		for _, b := range []*Builder{one, many, mixed, gap} {
			b.Codec = codec
			batches = append(batches, b.MustBuild())
		}
	}
	return batches
}

// passedOver are batches that it leaves to Iter.
func passedOver() []Batch {
	tiny, empty, headers, slow, large, stamped := NewBuilder(), NewBuilder(), NewBuilder(), NewBuilder(), NewBuilder(), NewBuilder()
	tiny.Add(5, nil, nil)
	headers.AddRecord(&Record{Timestamp: 5, Value: []byte("value"), headerCount: 1, headers: []byte{2, 'k', 2, 'v'}})
	slow.Add(5, nil, []byte("value"))
	slow.Add(5+1<<20, nil, []byte("value"))
	large.Add(5, nil, make([]byte, 1<<20))
	stamped.Add(5, nil, []byte("value"))
	appended := Batch(stamped.MustBuild())
	appended.SetMaxTimestamp(LogAppendTime, 9)
	return []Batch{tiny.MustBuild(), empty.MustBuild(), headers.MustBuild(), slow.MustBuild(), large.MustBuild(), appended}
}

func TestSurvey(t *testing.T) {
	for i, b := range append(surveyed(), surveyedCompressed()...) {
		s, ok := b.Survey()
		if !ok {
			t.Errorf("batch %d is passed over", i)
		}
		compareSurvey(t, b, s)
	}
	for i, b := range passedOver() {
		if _, ok := b.Survey(); ok {
			t.Errorf("batch %d of the unusual is not passed over", i)
		}
	}
}

// With any bit of the first and the last records changed, Survey accepts nothing that Iter and Skim do not.
func TestSurveyOfDamagedBatches(t *testing.T) {
	for _, b := range append(surveyed(), surveyedCompressed()...) {
		for at := HeaderSize; at < len(b); at++ {
			if at == 400 {
				at = max(at, len(b)-400)
			}
			for bit := range 8 {
				b[at] ^= 1 << bit
				if s, ok := b.Survey(); ok {
					compareSurvey(t, b, s)
				}
				b[at] ^= 1 << bit
			}
		}
	}
}

// compareSurvey compares a Survey with the records, one by one.
func compareSurvey(t *testing.T, b Batch, s Survey) {
	t.Helper()
	want := Survey{MinTimestamp: math.MaxInt64, MaxTimestamp: math.MinInt64, Consecutive: true}
	next := b.BaseOffset()
	add := func(offset, timestamp int64, hasKey bool) {
		want.MinTimestamp, want.MaxTimestamp = min(want.MinTimestamp, timestamp), max(want.MaxTimestamp, timestamp)
		want.NullKeys = want.NullKeys || !hasKey
		want.Consecutive = want.Consecutive && offset == next
		next++
	}
	if err := eachRecord(b, add); err != nil {
		t.Fatalf("a batch is accepted that has: %v", err)
	}
	if s != want {
		t.Errorf("survey %+v, records %+v", s, want)
	}
}

// eachRecord decodes a batch by Iter or Skim.
func eachRecord(b Batch, add func(offset, timestamp int64, hasKey bool)) error {
	if b.Codec() == None {
		var r Record
		it := b.Iter(b.Body())
		for it.Next(&r) {
			add(r.Offset, r.Timestamp, r.Key != nil)
		}
		return it.Err()
	}
	skim, err := b.Skim()
	if err != nil {
		return err
	}
	defer skim.Close()
	for skim.Next() {
		add(skim.Offset, skim.Timestamp, skim.HasKey)
	}
	return skim.Err()
}

// FuzzSurvey changes bytes: what Survey accepts, Iter and Skim accept too, with the same times, keys and offsets.
func FuzzSurvey(f *testing.F) {
	for _, b := range slices.Concat(surveyed(), surveyedCompressed(), passedOver()) {
		if len(b) < 16<<10 {
			f.Add([]byte(b), uint16(HeaderSize), byte(1))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint16, flip byte) {
		if len(data) < HeaderSize {
			return
		}
		b := Batch(data)
		b[int(at)%len(b)] ^= flip
		if b.TimestampType() == LogAppendTime || b.BaseTimestamp() < 0 {
			return
		}
		if s, ok := b.Survey(); ok {
			compareSurvey(t, b, s)
		}
	})
}
