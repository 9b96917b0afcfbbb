package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"barnabas/internal/testlog"
	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestReadLimits compares fetches of ten batches, and of two with two records each, with those of Apache Kafka.
func TestReadLimits(t *testing.T) {
	l, _ := newTestLog(t, func(c *Config) { c.IndexIntervalBytes = 300 })
	for range 10 {
		mustProduce(t, l, batchOf(1000, strings.Repeat("x", 95))) // offsets 0..9
	}
	size := int64(len(batchOf(1000, strings.Repeat("x", 95)).MustBuild()))
	mustProduce(t, l, batchOf(1000, "a", "b")) // 10 and 11
	small := l.Size() - 10*size
	for _, tt := range []struct {
		name     string
		offset   int64
		max      int64
		upTo     int64
		whole    bool
		position int64
		size     int64
		code     int16
	}{
		{"all", 0, 1 << 20, 12, true, 0, 10*size + small, 0},
		{"from the middle", 5, 1 << 20, 12, true, 5 * size, 5*size + small, 0},
		{"inside a batch", 11, 1 << 20, 12, true, 10 * size, small, 0},
		{"up to a high watermark", 0, 1 << 20, 4, true, 0, 4 * size, 0},
		{"up to the end of a batch", 3, 1 << 20, 10, true, 3 * size, 7 * size, 0},
		{"at the high watermark", 4, 1 << 20, 4, true, 0, 0, 0},
		{"above the high watermark", 6, 1 << 20, 4, true, 0, 0, 0},
		{"high watermark inside the batch", 10, 1 << 20, 11, true, 0, 0, 0},
		{"at the end", 12, 1 << 20, 12, true, 0, 0, 0},
		{"above the end", 13, 1 << 20, 12, true, 0, 0, 1},
		{"negative", -1, 1 << 20, 12, true, 0, 0, 1},
		{"limit below the first batch", 2, 10, 12, true, 2 * size, size, 0},
		{"limit below the first batch, old versions", 2, 10, 12, false, 2 * size, 10, 0},
		{"one and a bit", 2, size + 10, 12, true, 2 * size, size + 10, 0},
		{"no bytes", 2, 0, 12, true, 2 * size, size, 0},
		{"no bytes, old versions", 2, 0, 12, false, 0, 0, 0},
		{"negative limit", 2, -1 << 31, 12, true, 2 * size, size, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := l.Read(tt.offset, int32(tt.max), tt.upTo, tt.whole)
			if cut := tt.size > 0 && tt.size < size && tt.size != small; r.FirstCut != cut {
				t.Errorf("the first batch is cut: %v", r.FirstCut)
			}
			if codeOf(err) != tt.code || r.Size != tt.size || r.Size > 0 && r.Position != tt.position {
				t.Errorf("%d bytes at %d, %v; want %d at %d, code %d", r.Size, r.Position, err, tt.size, tt.position, tt.code)
			}
			data, err := r.Append(nil)
			if err != nil || int64(len(data)) != tt.size {
				t.Errorf("%d bytes, %v", len(data), err)
			}
			again, err := io.ReadAll(io.NewSectionReader(&r, 0, r.Size))
			if err != nil || string(again) != string(data) {
				t.Errorf("ReadAt gives %d bytes, %v", len(again), err)
			}
			r.Close()
			r.Close()
		})
	}
}

// TestOffsetsByTimeInLargeBatch: a batch is accepted, and can be searched, however large it is when decompressed.
func TestOffsetsByTimeInLargeBatch(t *testing.T) {
	l, c := newTestLog(t, nil)
	w := record.NewBuilder()
	w.Codec = record.Zstd
	base := c.now.UnixMilli()
	for i := range int64(102) {
		w.Add(base+i, nil, make([]byte, 1<<20))
	}
	if _, err := l.AppendLeader(w.MustBuild(), LeaderAppend{ProduceVersion: 9}); err != nil {
		t.Fatal(err)
	}
	if offset, _, _, found, err := l.OffsetForTime(base + 101); offset != 101 || !found || err != nil {
		t.Errorf("offset %d, found %v, %v", offset, found, err)
	}
	if offset, _, _, found, err := l.OffsetOfMaxTimestamp(); offset != 101 || !found || err != nil {
		t.Errorf("largest timestamp: offset %d, found %v, %v", offset, found, err)
	}

	l, _ = newTestLog(t, func(c *Config) { c.Compression = "gzip" }) // it would have to be compressed again
	if _, err := l.AppendLeader(w.MustBuild(), LeaderAppend{ProduceVersion: 9}); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("for a log with another codec: %v", err)
	}
}

// TestOffsetsByTimeInDamagedBatch: records that cannot be decompressed fail the search, but not the log directory.
func TestOffsetsByTimeInDamagedBatch(t *testing.T) {
	for _, codec := range []record.Codec{record.Gzip, record.Snappy, record.Lz4, record.Zstd} {
		l, c := newTestLog(t, nil)
		w := record.NewBuilder()
		w.Codec = codec
		w.Add(c.now.UnixMilli(), nil, make([]byte, 1000))
		b := w.MustBuild()
		for i := record.HeaderSize + 8; i < len(b); i++ {
			b[i] ^= 0xff
		}
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
		if _, err := l.AppendFollower(b); err != nil {
			t.Fatal(err)
		}
		if _, _, _, _, err := l.OffsetForTime(c.now.UnixMilli()); err == nil || errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("%v: %v", codec, err)
		}
		if err := l.readable(); err != nil {
			t.Errorf("%v: after the search: %v", codec, err)
		}
	}
}

// TestOffsetsByTime compares results of ListOffsets with those of Apache Kafka.
func TestOffsetsByTime(t *testing.T) {
	l, c := newTestLog(t, func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 200, 0 })
	if _, _, _, found, err := l.OffsetForTime(5); found || err != nil {
		t.Errorf("empty log: found, %v", err)
	}
	if _, _, _, found, err := l.OffsetOfMaxTimestamp(); found || err != nil {
		t.Errorf("empty log: found, %v", err)
	}
	base := c.now.UnixMilli()
	for i, at := range []int64{0, 1000, 3000, 2000, 4000} {
		w := record.NewBuilder()
		w.Add(base+at, nil, []byte("v"))
		w.Add(base+at+100, nil, []byte("v"))
		if _, err := l.AppendLeader(w.MustBuild(), LeaderAppend{LeaderEpoch: int32(i / 2), ProduceVersion: 9}); err != nil {
			t.Fatal(err)
		}
	}
	type answer struct {
		offset, after int64
		epoch         int32
	}
	for ts, want := range map[int64]answer{
		-base: {0, 0, 0}, 0: {0, 0, 0}, 1: {1, 100, 0}, 100: {1, 100, 0}, 101: {2, 1000, 0}, 1000: {2, 1000, 0}, 1500: {4, 3000, 1}, 3000: {4, 3000, 1},
		2100: {4, 3000, 1}, 2050: {4, 3000, 1}, 3101: {8, 4000, 2}, 4100: {9, 4100, 2},
	} {
		offset, timestamp, epoch, found, err := l.OffsetForTime(base + ts)
		if got := (answer{offset, timestamp - base, epoch}); err != nil || !found || got != want {
			t.Errorf("ts+%d: %+v, %v, %v; want %+v", ts, got, found, err, want)
		}
	}
	if offset, timestamp, epoch, found, err := l.OffsetForTime(base + 4101); err != nil || found || offset != -1 || timestamp != -1 || epoch != -1 {
		t.Errorf("after all timestamps: %d, %d, %d", offset, timestamp, epoch)
	}
	if offset, timestamp, epoch, found, err := l.OffsetOfMaxTimestamp(); err != nil || !found || offset != 9 || timestamp != base+4100 || epoch != 2 {
		t.Errorf("max timestamp: %d, %d, %d, %v", offset, timestamp-base, epoch, err)
	}
	for offset, want := range map[int64]int32{0: 0, 3: 0, 4: 1, 8: 2, 9: 2, 100: 2} {
		if got := l.epochs.at(offset); got != want {
			t.Errorf("epoch at %d is %d, want %d", offset, got, want)
		}
	}
}

// TestMaxTimestampOfNone: of records without timestamps, the first has the largest one.
func TestMaxTimestampOfNone(t *testing.T) {
	l, _ := newTestLog(t, nil)
	for range 2 {
		if _, err := produce(l, batchOf(record.NoTimestamp, "a").MustBuild()); err != nil {
			t.Fatal(err)
		}
	}
	if offset, timestamp, _, found, err := l.OffsetOfMaxTimestamp(); offset != 0 || timestamp != record.NoTimestamp || !found || err != nil {
		t.Errorf("offset %d, timestamp %d, %v, %v", offset, timestamp, found, err)
	}
}

// TestMaxTimestampOfMagicZero: in a log whose format was raised, the messages of magic 0 count for nothing.
func TestMaxTimestampOfMagicZero(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip} {
		l, _ := newTestLog(t, nil)
		old := record.AppendMessage(nil, 0, 0, 0, nil, []byte("a"))
		if codec != record.None {
			var err error
			records := []record.Record{{Offset: 0, Timestamp: record.NoTimestamp, Value: []byte("a")}}
			if old, err = (record.Messages{Magic: 0, Codec: codec, Level: record.DefaultLevel}).Append(nil, records); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.AppendFollower(old); err != nil {
			t.Fatal(err)
		}
		if offset, timestamp, _, found, err := l.OffsetOfMaxTimestamp(); offset != -1 || timestamp != -1 || found || err != nil {
			t.Errorf("%v: offset %d, timestamp %d, %v, %v", codec, offset, timestamp, found, err)
		}
		if _, err := produce(l, batchOf(5, "b").MustBuild()); err != nil {
			t.Fatal(err)
		}
		if offset, timestamp, _, _, err := l.OffsetOfMaxTimestamp(); offset != 1 || timestamp != 5 || err != nil {
			t.Errorf("%v: with a batch: offset %d, timestamp %d, %v", codec, offset, timestamp, err)
		}
	}
}

func TestLegacyOffsets(t *testing.T) {
	l, c := segmented(t, 3, func(*Config) {}) // written at 0, 1 and 2 minutes; it is 3 minutes now
	written := c.now.Add(-3 * time.Minute).UnixMilli()
	for _, tt := range []struct {
		ts    int64
		limit int
		want  []int64
	}{
		{Latest, 1, []int64{3}}, {Latest, 9, []int64{3, 2, 1, 0}}, {Earliest, 9, []int64{0}},
		{written + 60_000, 9, []int64{1, 0}}, {written - 1, 9, nil}, {written + 180_000, 2, []int64{3, 2}}, {Latest, 0, nil},
	} {
		if got, err := l.LegacyOffsetsBefore(tt.ts, tt.limit); err != nil || !cmp.Equal(got, tt.want) {
			t.Errorf("%d, %d: %v, %v; want %v", tt.ts, tt.limit, got, err, tt.want)
		}
	}
}

// mark returns the marker that ends a transaction.
func mark(pid int64, epoch int16, coordinatorEpoch byte, commit byte) *record.Builder {
	w := record.NewBuilder()
	w.Transactional, w.Control = true, true
	w.ProducerID, w.ProducerEpoch = pid, epoch
	w.Add(1000, []byte{0, 0, 0, commit}, []byte{0, 0, 0, 0, 0, coordinatorEpoch})
	return w
}

func transactional(pid int64, seq int32, n int) *record.Builder {
	w := sequenced(pid, 0, seq, n)
	w.Transactional = true
	return w
}

func TestTransactions(t *testing.T) {
	l, _ := newTestLog(t, nil)
	const none = -1
	end := func(w *record.Builder) {
		t.Helper()
		if _, err := l.AppendLeader(w.MustBuild(), LeaderAppend{Origin: Coordinator}); err != nil {
			t.Fatal(err)
		}
	}
	stable := func(what string, want int64) {
		t.Helper()
		l.SetHighWatermark(l.LogEndOffset())
		if got := l.LastStableOffset(); got != want {
			t.Errorf("%s: last stable offset %d, want %d", what, got, want)
		}
	}
	mustProduce(t, l, transactional(1, 0, 2)) // 0, 1
	stable("one open", 0)
	mustProduce(t, l, transactional(2, 0, 1)) // 2
	if _, err := produce(l, sequenced(2, 0, 1, 1).MustBuild()); codeOf(err) != kerr.InvalidTxnState.Code {
		t.Errorf("non-transactional batch within a transaction: %v", err)
	}
	end(mark(1, 0, 3, 1)) // 3
	l.SetHighWatermark(3)
	if got := l.LastStableOffset(); got != 0 {
		t.Errorf("marker above the high watermark: last stable offset %d, want 0", got)
	}
	stable("first committed", 2)
	end(mark(2, 0, 3, 0)) // 4
	stable("second aborted", 5)
	if _, err := l.AppendLeader(mark(2, 0, 2, 0).MustBuild(), LeaderAppend{Origin: Coordinator}); codeOf(err) != kerr.TransactionCoordinatorFenced.Code {
		t.Errorf("marker of an older coordinator: %v", err)
	}
	if _, err := produce(l, mark(2, 0, 3, 0).MustBuild()); codeOf(err) != kerr.InvalidRecord.Code {
		t.Errorf("marker sent by a client: %v", err)
	}
	if aborted, err := l.AbortedTransactions(0, 5); err != nil || !cmp.Equal(aborted, []AbortedTxn{{2, 2, 4, 5}}) {
		t.Errorf("aborted: %+v, %v", aborted, err)
	}
	if aborted, _ := l.AbortedTransactions(0, 2); len(aborted) != 0 {
		t.Errorf("aborted transactions below its first record: %+v", aborted)
	}
	mustProduce(t, l, transactional(1, 2, 1)) // 5
	want := []ProducerState{
		{1, 0, 2, 1_790_000_000_000, 3, 5},
		{2, 0, 0, 1000, 3, none},
	}
	if diff := cmp.Diff(want, l.ActiveProducers()); diff != "" {
		t.Error(diff)
	}
	if err := l.TruncateTo(5); err != nil {
		t.Fatal(err)
	}
	stable("truncated", 5)
}

// TestFlushesAreTold: OnFlushed is called once for each segment that was flushed.
func TestFlushesAreTold(t *testing.T) {
	c, told := newClock(), 0
	cfg := memConfig(vfs.NewMem(c.Now), c)
	cfg.OnFlushed = func(time.Duration) { told++ }
	m := mustOpen(t, cfg)
	t.Cleanup(func() { _ = m.Close() })
	l := mustCreate(t, m)
	for i, want := range []int{1, 2} {
		mustProduce(t, l, sequenced(7, 0, int32(i), 1))
		for range 2 { // the second time there is nothing to do
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if told != want {
			t.Errorf("%d flushes are told, want %d", told, want)
		}
	}
}

// TestIdleTransactions: of the open transactions the one that has been idle longest counts, by the last record of its
// producer.
func TestIdleTransactions(t *testing.T) {
	l, _ := newTestLog(t, nil)
	last := time.UnixMilli(1_790_000_000_000) // timestamp of the records
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := l.TransactionIdle(last.Add(10 * time.Minute)); got != want {
			t.Errorf("%s: idle for %v, want %v", what, got, want)
		}
	}
	mustProduce(t, l, sequenced(7, 0, 0, 1))
	expect("none open", 0)
	mustProduce(t, l, transactional(1, 0, 2))
	expect("one open", 10*time.Minute)
	if n := l.ProducerCount(); n != 2 {
		t.Errorf("%d producers, want 2", n)
	}
	if _, err := l.AppendLeader(mark(1, 0, 3, 1).MustBuild(), LeaderAppend{Origin: Coordinator}); err != nil {
		t.Fatal(err)
	}
	expect("it has ended", 0)
}

// TestMissingIndexOfEmptySegment: the missing index of an empty active segment does not cause a scan.
func TestMissingIndexOfEmptySegment(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	m := mustOpen(t, cfg)
	l, err := m.GetOrCreate(testTP, [16]byte{1}, cfg.Default, true)
	if err != nil {
		t.Fatal(err)
	}
	mustProduce(t, l, batchOf(1000, "v"))
	if err := errors.Join(l.Roll(), m.Close()); err != nil {
		t.Fatal(err)
	}
	_ = fsys.Remove("/data/t-0/" + fileName(1, indexSuffix)) // it may not exist
	fsys.SetFault(func(op, name string) error {
		if op == "read" && strings.HasSuffix(name, logSuffix) {
			return fmt.Errorf("%s was read", name)
		}
		return nil
	})
	m = mustOpen(t, cfg)
	l, _ = m.Log(testTP)
	if l == nil || l.LogEndOffset() != 1 || len(m.OfflineDirs()) > 0 {
		t.Fatalf("not loaded: %v", m.OfflineDirs())
	}
	fsys.SetFault(nil)
	mustProduce(t, l, batchOf(1000, "w"))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReadersBesideAppends: readers see whole batches in order while a leader appends, segments are rolled and old ones
// deleted.
func TestReadersBesideAppends(t *testing.T) {
	cfg := DefaultManagerConfig()
	cfg.Dirs, cfg.ClusterID, cfg.Logger = []string{t.TempDir()}, "test", testlog.Quiet()
	cfg.Default.SegmentBytes, cfg.Default.IndexIntervalBytes = 4000, 200
	cfg.Default.RetentionBytes, cfg.Default.FileDeleteDelay = 20_000, 0
	m := mustOpen(t, cfg)
	m.Start()
	l, err := m.GetOrCreate(testTP, [16]byte{1}, cfg.Default, true)
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for offset := int64(0); !done.Load(); {
				next, err := follow(l, offset)
				if errors.Is(err, kerr.OffsetOutOfRange) {
					next, err = l.LogStartOffset(), nil
				}
				if err != nil {
					t.Errorf("at %d: %v", offset, err)
					return
				}
				offset = next
			}
		})
	}
	for i := range 1500 {
		mustProduce(t, l, batchOf(int64(i), "a", "b", "c"))
		l.SetHighWatermark(l.LogEndOffset())
		if i%100 == 0 {
			if _, err := l.Retain(); err != nil {
				t.Fatal(err)
			}
			if _, _, _, _, err := l.OffsetForTime(int64(i) - 5); err != nil {
				t.Fatal(err)
			}
		}
	}
	done.Store(true)
	wg.Wait()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// follow reads once at offset and returns the offset after what it got.
func follow(l *Log, offset int64) (int64, error) {
	r, err := l.Read(offset, 1000, l.HighWatermark(), true)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	data, err := r.Append(nil)
	if err != nil {
		return 0, err
	}
	walk := record.Split(data)
	for walk.Next() {
		b := walk.Batch()
		if !b.Valid() || offset < b.BaseOffset() || offset > b.LastOffset() {
			return 0, fmt.Errorf("got a batch of %d to %d, valid %v", b.BaseOffset(), b.LastOffset(), b.Valid())
		}
		offset = b.LastOffset() + 1
	}
	return offset, walk.Err()
}

// FuzzSnapshot: no input makes reading a producer snapshot panic, and a snapshot that can be read is written back
// unchanged.
func FuzzSnapshot(f *testing.F) {
	t := newProducerTable(0)
	for pid := range int64(3) {
		w := transactional(pid, 5, 2)
		if _, _, err := t.apply(w.MustBuild()); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(t.encode())
	f.Add(newProducerTable(0).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		table := newProducerTable(0)
		if err := table.decode(data, 10, time.UnixMilli(0)); err != nil {
			return
		}
		again := newProducerTable(0)
		if err := again.decode(table.encode(), 10, time.UnixMilli(0)); err != nil || !cmp.Equal(again.states(), table.states()) {
			t.Errorf("encoding does not return the same bytes: %v", err)
		}
	})
}
