package logstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"barnabas/logstore/record"
)

// TestFindAtTheEnd compares the cached positions of the last batches with the file, through appends by leader and
// follower, with gaps, several batches at once, truncations and rolls.
func TestFindAtTheEnd(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l, _ := newTestLog(t, func(c *Config) { c.SegmentBytes = 6 << 10 })
		hits := 0
		for range 400 {
			changeTheEnd(t, rng, l)
			s, end := l.active(), l.LogEndOffset()
			r := s.recent.Load()
			for offset := max(s.base, end-10); offset <= end+1; offset++ {
				position, size, _, err := s.findFrom(0, offset)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if got, gotSize, err := s.find(offset); err != nil || got != position || gotSize != size {
					t.Fatalf("seed %d: offset %d of %d was found at %d with %d bytes (%v), but is at %d with %d", seed, offset, end, got, gotSize, err, position, size)
				}
				if r != nil {
					if _, _, ok := r.find(offset); ok {
						hits++
					}
				}
			}
		}
		if hits < 200 {
			t.Errorf("seed %d: only %d offsets were found without the file", seed, hits)
		}
	}
}

// changeTheEnd appends or, occasionally, truncates.
func changeTheEnd(t *testing.T, rng *rand.Rand, l *Log) {
	t.Helper()
	end := l.LogEndOffset()
	batch := func(base int64) []byte {
		b := record.Batch(batchOf(1000, make([]string, 1+rng.IntN(4))...).MustBuild())
		b.SetLastOffset(base + int64(b.Count()) - 1)
		return b
	}
	switch rng.IntN(20) {
	case 0:
		if err := l.TruncateTo(max(l.LogStartOffset(), end-rng.Int64N(8))); err != nil {
			t.Fatal(err)
		}
	case 1, 2, 3: // as a follower of a log that was compacted
		var data []byte
		for range 1 + rng.IntN(3) {
			b := record.Batch(batch(end + rng.Int64N(3)))
			data, end = append(data, b...), b.LastOffset()+1
		}
		if _, err := l.AppendFollower(data); err != nil {
			t.Fatal(err)
		}
	default:
		if _, err := produce(l, batch(0)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFindWhileAppended looks for batches while others overwrite the cache: a batch that is found is at the position
// where it was put.
func TestFindWhileAppended(t *testing.T) {
	const (
		batches = 200_000
		records = 3
	)
	size := func(n int64) int { return int(100 + n%7) }
	positions := make([]int64, batches+1)
	for n := range int64(batches) {
		positions[n+1] = positions[n] + int64(size(n))
	}
	var r recent
	var readers sync.WaitGroup
	for seed := range uint64(2) {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 2))
			for {
				added := r.added.Load()
				if added == batches {
					return
				}
				n := max(added-recentBatches+rng.Int64N(6), 0) // soon to be overwritten
				position, bytes, ok := r.find(n*records + rng.Int64N(records))
				if ok && (position != positions[n] || bytes != int64(size(n))) {
					t.Errorf("batch %d was found at %d with %d bytes, but is at %d with %d", n, position, bytes, positions[n], size(n))
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for n := range int64(batches) {
		r.add(n*records+records-1, positions[n], size(n))
		for range rng.IntN(40) { // sometimes for as long as a lookup takes
			r.added.Load()
		}
	}
	readers.Wait()
}

// BenchmarkReadAtTheEnd finds the records of a fetch that is a number of batches behind the end, with a high watermark
// one batch before it.
func BenchmarkReadAtTheEnd(b *testing.B) {
	l := benchLog(b)
	batch := payload(b, 1<<10, record.None)
	count := int64(record.Batch(batch).Count())
	data := make([]byte, len(batch))
	for range 4096 {
		copy(data, batch)
		if _, err := l.AppendLeader(data, LeaderAppend{ProduceVersion: 9}); err != nil {
			b.Fatal(err)
		}
	}
	end := l.LogEndOffset()
	for _, behind := range []int64{2, 20, 200} {
		b.Run(fmt.Sprintf("behind=%d", behind), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := l.Read(end-behind*count, 1<<20, end-count, true)
				if err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
		})
	}
}
