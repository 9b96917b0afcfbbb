package record

import "testing"

// benchBatch returns a batch of 16 KiB, whose bytes are counted.
func benchBatch(b *testing.B) Batch {
	w := NewBuilder()
	for i := range 140 {
		w.Add(1_790_000_000_000+int64(i), nil, make([]byte, 100))
	}
	batch := Batch(w.MustBuild())
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	return batch
}

// BenchmarkIter checks the records of a batch as a leader does with those that are unusual.
func BenchmarkIter(b *testing.B) {
	batch := benchBatch(b)
	var r Record
	for b.Loop() {
		it := batch.Iter(batch.Body())
		for it.Next(&r) {
		}
		if it.Err() != nil {
			b.Fatal(it.Err())
		}
	}
}

// BenchmarkSurvey does the same for all records together.
func BenchmarkSurvey(b *testing.B) {
	batch := benchBatch(b)
	for b.Loop() {
		if _, ok := batch.Survey(); !ok {
			b.Fatal("not surveyed")
		}
	}
}
