package record

import (
	"math/rand/v2"
	"strings"
	"testing"
)

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

// BenchmarkCompressed decompresses and checks a batch of 16 KiB of text in lines of 60 bytes, by Survey and by Skim.
func BenchmarkCompressed(b *testing.B) {
	for codec := Gzip; codec <= Zstd; codec++ {
		w := NewBuilder()
		w.Codec = codec
		words := strings.Fields("the log of a broker has many records of which most are much alike but none are quite the same")
		random := rand.New(rand.NewPCG(1, 2))
		for size := 0; size < 16<<10; size += 68 {
			var line []byte
			for len(line) < 60 {
				line = append(append(line, words[random.IntN(len(words))]...), ' ')
			}
			w.Add(1_790_000_000_000, nil, line)
		}
		batch := Batch(w.MustBuild())
		b.Run(codec.String()+"/survey", func(b *testing.B) {
			b.SetBytes(16 << 10)
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := batch.Survey(); !ok {
					b.Fatal("not surveyed")
				}
			}
		})
		b.Run(codec.String()+"/skim", func(b *testing.B) {
			b.SetBytes(16 << 10)
			b.ReportAllocs()
			for b.Loop() {
				if err := eachRecord(batch, func(int64, int64, bool) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
