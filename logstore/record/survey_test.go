package record

import (
	"math"
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
	for i, b := range surveyed() {
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

// With any bit of the first and the last records changed, Survey accepts nothing that Iter does not.
func TestSurveyOfDamagedBatches(t *testing.T) {
	for _, b := range surveyed() {
		for at := HeaderSize; at < len(b); at++ {
			if at == 400 {
				at = len(b) - 400
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

// compareSurvey compares a Survey with the records.
func compareSurvey(t *testing.T, b Batch, s Survey) {
	t.Helper()
	want := Survey{MinTimestamp: math.MaxInt64, MaxTimestamp: math.MinInt64}
	var r Record
	it := b.Iter(b.Body())
	for it.Next(&r) {
		want.MinTimestamp, want.MaxTimestamp = min(want.MinTimestamp, r.Timestamp), max(want.MaxTimestamp, r.Timestamp)
		want.NullKeys = want.NullKeys || r.Key == nil
	}
	if it.Err() != nil {
		t.Fatalf("a batch is accepted that has: %v", it.Err())
	}
	if s != want {
		t.Errorf("survey %+v, records %+v", s, want)
	}
}

// FuzzSurvey changes bytes: what Survey accepts, Iter accepts too, with the same times and keys.
func FuzzSurvey(f *testing.F) {
	for _, b := range append(surveyed(), passedOver()...) {
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
