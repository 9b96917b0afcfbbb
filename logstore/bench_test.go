package logstore

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"barnabas/internal/testlog"
	"barnabas/logstore/record"
)

// payload returns a batch with records of 100 bytes, of about the given size before compression.
func payload(t testing.TB, size int, codec record.Codec) []byte {
	t.Helper()
	w := record.NewBuilder()
	w.Codec = codec
	value := bytes.Repeat([]byte("barnabas "), 11)[:90]
	for i := 0; w.Count() == 0 || w.Size()+100 < size; i++ {
		w.Add(1790000000000+int64(i), nil, value)
	}
	b, err := w.Build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func benchLog(b *testing.B) *Log {
	b.Helper()
	cfg := DefaultManagerConfig()
	cfg.Dirs, cfg.ClusterID, cfg.Logger = []string{b.TempDir()}, "bench", testlog.Quiet()
	cfg.Now = time.Now
	m, err := Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close() })
	l, err := m.GetOrCreate(TopicPartition{"bench", 0}, [16]byte{1}, cfg.Default, true)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkAppend appends as a leader does, without fsync.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 16 << 10} {
		for _, codec := range []record.Codec{record.None, record.Lz4, record.Zstd} {
			b.Run(fmt.Sprintf("batch=%d/codec=%v", size, codec), func(b *testing.B) {
				l := benchLog(b)
				batch := payload(b, size, codec)
				data := make([]byte, len(batch))
				b.SetBytes(int64(len(batch)))
				b.ReportAllocs()
				for b.Loop() {
					copy(data, batch)
					if _, err := l.AppendLeader(data, LeaderAppend{ProduceVersion: 9}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkRead finds the records for fetches of 1 MiB, in order like a consumer. The bytes themselves are left to
// sendfile.
func BenchmarkRead(b *testing.B) {
	l := benchLog(b)
	batch := payload(b, 16<<10, record.None)
	data := make([]byte, len(batch))
	count := int64(record.Batch(batch).Count())
	for range 4096 {
		copy(data, batch)
		if _, err := l.AppendLeader(data, LeaderAppend{ProduceVersion: 9}); err != nil {
			b.Fatal(err)
		}
	}
	end := l.LogEndOffset()
	step := (1 << 20) / int64(len(batch)) * count
	offset := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		r, err := l.Read(offset, 1<<20, end, true)
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
		if offset += step; offset >= end {
			offset = 0
		}
	}
}

// BenchmarkCompact compacts a log of 64 MiB in which each key occurs four times, with fsync. Bytes are those of the log
// before compaction.
func BenchmarkCompact(b *testing.B) {
	for _, codec := range []record.Codec{record.None, record.Lz4, record.Zstd} {
		for _, size := range []int{100, 1000} {
			b.Run(fmt.Sprintf("record=%d/codec=%v", size, codec), func(b *testing.B) {
				var total int64
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					l := benchLog(b)
					total = fillForCompaction(b, l, 64<<20, size, codec)
					part, err := l.dirtyPart(0, false, time.Now())
					if err != nil {
						b.Fatal(err)
					}
					use := defaultCleanerConfig()
					b.StartTimer()
					ctx, _ := l.cleaning.begin(b.Context())
					if _, stats, err := l.compact(ctx, part, use.share(func(context.Context, int) error { return nil })); err != nil || stats.Kept == 0 {
						b.Fatal(stats, err)
					}
					l.cleaning.end()
				}
				b.SetBytes(total)
			})
		}
	}
}

// fillForCompaction writes batches of about 16 KiB and closes the segment.
func fillForCompaction(b *testing.B, l *Log, total, size int, codec record.Codec) (written int64) {
	b.Helper()
	cfg := l.Config()
	cfg.Compact = true
	l.UpdateConfig(cfg)
	rng := rand.New(rand.NewPCG(1, 2))
	keys := total / size / 4
	value := make([]byte, size-20)
	for plain := 0; plain < total; {
		w := record.NewBuilder()
		w.Codec = codec
		for w.Size() < 16<<10 {
			for i := 0; i < len(value)/2; i++ { // half of the value is compressible
				value[i] = byte(rng.Uint32())
			}
			w.Add(1790000000000, fmt.Appendf(nil, "key-%012d", rng.IntN(keys)), value)
		}
		plain += w.Size()
		batch, err := w.Build()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.AppendLeader(batch, LeaderAppend{ProduceVersion: 9}); err != nil {
			b.Fatal(err)
		}
	}
	l.SetHighWatermark(l.LogEndOffset())
	if err := l.Roll(); err != nil {
		b.Fatal(err)
	}
	return l.Size()
}
