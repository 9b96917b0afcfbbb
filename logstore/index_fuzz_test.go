package logstore

import (
	"bytes"
	"slices"
	"testing"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// FuzzIndexes: whatever the index files of a segment contain, starts and reads neither panic nor return anything but
// batches of the log.
func FuzzIndexes(f *testing.F) {
	fsys, cfg, batches := indexedLog(f)
	dir := "/data/" + testTP.String() + "/"
	file := func(suffix string) []byte {
		data, err := fsys.ReadFile(dir + fileName(0, suffix))
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	index, times, txns := file(indexSuffix), file(timeIndexSuffix), file(txnIndexSuffix)
	for _, clean := range []bool{false, true} {
		f.Add(index, times, txns, clean)
		f.Add(index[:len(index)/2], times[:13], txns[:5], clean)
		f.Add([]byte{}, []byte{}, []byte{}, clean)
		f.Add(bytes.Repeat([]byte{0xff}, 64), bytes.Repeat([]byte{0x7f}, 48), make([]byte, 68), clean)
		f.Add(bytes.Repeat([]byte{0, 0, 0, 1}, 10), times, txns, clean)
	}
	content := filesIn(f, fsys, "/data")
	f.Fuzz(func(t *testing.T, index, times, txns []byte, clean bool) {
		mem := vfs.NewMem(cfg.Now)
		if err := mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		write := func(name string, data []byte) {
			if err := vfs.WriteFile(mem, name, data); err != nil {
				t.Fatal(err)
			}
		}
		for name, data := range content {
			if name != "/data/"+lockFile && (clean || name != "/data/"+cleanFile) {
				write(name, data)
			}
		}
		write(dir+fileName(0, indexSuffix), index)
		write(dir+fileName(0, timeIndexSuffix), times)
		write(dir+fileName(0, txnIndexSuffix), txns)
		cfg := cfg
		cfg.FS = mem
		m, err := Open(t.Context(), cfg)
		if err != nil {
			return
		}
		defer func() { _ = m.Close() }()
		if l, ok := m.Log(testTP); ok {
			checkReads(t, l, batches)
		}
	})
}

// indexedLog returns the disk of a broker that was stopped, with a log of several segments, the first of which has
// entries in all of its indexes, and the log's batches.
func indexedLog(t testing.TB) (*vfs.Mem, ManagerConfig, []record.Batch) {
	t.Helper()
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Default.SegmentBytes, cfg.Default.IndexIntervalBytes, cfg.Default.RetentionTime = 1000, 100, Unlimited
	m := mustOpen(t, cfg)
	l := mustCreate(t, m)
	mustProduce(t, l, transactional(5, 0, 2))
	if _, err := l.AppendLeader(mark(5, 0, 0, 0).MustBuild(), LeaderAppend{Origin: Coordinator}); err != nil {
		t.Fatal(err)
	}
	for i := range 25 {
		mustProduce(t, l, batchOf(int64(1000+i), "a", "b"))
	}
	l.SetHighWatermark(l.LogEndOffset())
	batches := readAll(t, l, l.LogEndOffset())
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return fsys.Kill(), cfg, batches
}

// checkReads reads from each offset and looks up times and aborted transactions.
func checkReads(t *testing.T, l *Log, batches []record.Batch) {
	t.Helper()
	for _, want := range batches {
		for offset := want.BaseOffset(); offset <= want.LastOffset() && offset < l.LogEndOffset(); offset++ {
			r, err := l.Read(offset, 1, l.LogEndOffset(), true)
			if err != nil {
				continue
			}
			data, err := r.Append(nil)
			r.Close()
			if err == nil && len(data) > 0 && !slices.ContainsFunc(batches, func(b record.Batch) bool { return b.LastOffset() >= offset && bytes.Equal(b, data) }) {
				t.Fatalf("read of offset %d returns %d bytes that are no batch at or above it", offset, len(data))
			}
		}
	}
	for _, ts := range []int64{0, 1003, 1 << 40} {
		_, _, _, _, _ = l.OffsetForTime(ts) // a wrong time index may give a wrong result, but not a panic
	}
	_, _ = l.AbortedTransactions(0, l.LogEndOffset())
}
