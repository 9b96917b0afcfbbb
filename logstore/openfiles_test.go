package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/vfs"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestOpenFilesAreBounded writes to and reads from more segments than may be open.
func TestOpenFilesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := memConfig(vfs.NewMem(time.Now), nil)
		cfg.Now, cfg.MaxOpenFiles = time.Now, 10
		cfg.Default.SegmentBytes, cfg.Default.IndexIntervalBytes = 300, 100
		m := mustOpen(t, cfg)
		m.Start()
		var logs []*Log
		for i := range 15 {
			l, err := m.GetOrCreate(TopicPartition{"t", int32(i)}, [16]byte{7}, cfg.Default, true)
			if err != nil {
				t.Fatal(err)
			}
			for j := range 10 {
				mustProduce(t, l, batchOf(time.Now().UnixMilli(), fmt.Sprint("value ", j)))
			}
			l.SetHighWatermark(l.LogEndOffset())
			logs = append(logs, l)
			synctest.Wait()
			if n := m.env.fs.count.Load(); n > 10 {
				t.Fatalf("%d files are open", n)
			}
		}
		held, err := logs[0].Read(0, 1000, 10, true)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for _, l := range logs {
				if n := len(readAll(t, l, 10)); n != 10 {
					t.Errorf("%d batches", n)
				}
				synctest.Wait()
				if n := m.env.fs.count.Load(); n > 10 {
					t.Fatalf("%d files are open", n)
				}
			}
		}
		if data, err := held.Append(nil); err != nil || len(data) == 0 || held.seg.file.Load() == nil {
			t.Errorf("the file of a reader was closed: %v", err)
		}
		held.Close()
		for _, l := range logs { // and they continue to work
			mustProduce(t, l, batchOf(time.Now().UnixMilli(), "more"))
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if n := m.env.fs.count.Load(); n != 0 {
			t.Errorf("%d files are open after Close", n)
		}
	})
}

// TestOpenFilesUnderLoad appends and reads, with real files, while files are being closed all the time.
func TestOpenFilesUnderLoad(t *testing.T) {
	cfg := memConfig(vfs.OS{}, nil)
	cfg.Dirs, cfg.Now, cfg.MaxOpenFiles = []string{t.TempDir()}, time.Now, 2
	cfg.Default.SegmentBytes, cfg.Default.IndexIntervalBytes = 2000, 100
	m := mustOpen(t, cfg)
	m.Start()
	var work sync.WaitGroup
	for i := range 4 {
		l, err := m.GetOrCreate(TopicPartition{"t", int32(i)}, [16]byte{7}, cfg.Default, true)
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() {
			for j := range int64(300) {
				if _, err := produce(l, batchOf(time.Now().UnixMilli(), fmt.Sprintf("value %100d", j)).MustBuild()); err != nil {
					t.Error(err)
					return
				}
			}
		})
		work.Go(func() {
			for at := int64(0); at < 300; {
				r, err := l.Read(at, 1000, l.LogEndOffset(), true)
				if err != nil {
					t.Error(err)
					return
				}
				if data, err := r.Append(nil); err != nil {
					t.Error(err)
					return
				} else if len(data) > 0 {
					at++
				}
				r.Close()
			}
		})
	}
	work.Wait()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTooManyOpenFiles: reaching the process's limit of open files is not treated as a failure of the disk.
func TestTooManyOpenFiles(t *testing.T) {
	l, _ := newTestLog(t, func(c *Config) { c.SegmentBytes = 200 })
	for range 4 {
		mustProduce(t, l, batchOf(1, "value"))
	}
	fsys := l.env.fs.FS.(*vfs.Mem)
	fsys.SetFault(func(op, _ string) error {
		if op == "open" {
			return &fs.PathError{Op: op, Path: "x", Err: syscall.EMFILE}
		}
		return nil
	})
	var err error
	for range 4 {
		if _, err = produce(l, batchOf(1, "value").MustBuild()); err != nil {
			break
		}
	}
	if !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("%v", err)
	}
	fsys.SetFault(nil)
	mustProduce(t, l, batchOf(1, "value"))
}

// TestDescriptorsAreNoticed: when files can be opened again, whoever has been refused a log is told once, and the
// directories of deleted logs are removed after all.
func TestDescriptorsAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan string, 10)
		mem := vfs.NewMem(time.Now)
		cfg := memConfig(mem, newClock())
		logger, lines := newLogLines()
		cfg.Logger, cfg.OnSpaceFreed, cfg.Now = logger, func(dir string) { heard <- dir }, time.Now
		m := mustOpen(t, cfg)
		defer m.Close()
		m.Start()
		l := mustCreate(t, m)
		if err := m.Delete(l.TopicPartition()); err != nil {
			t.Fatal(err)
		}
		var free atomic.Int32 // descriptors
		mem.SetFault(func(op, name string) error {
			if op == "open" && free.Add(-1) < 0 || op == "removeall" {
				return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
			}
			return nil
		})
		for range 3 {
			_, err := m.GetOrCreate(testTP, [16]byte{7}, cfg.Default, true)
			if !errors.Is(err, kerr.KafkaStorageError) || !errors.Is(err, syscall.EMFILE) {
				t.Errorf("a new log: %v", err)
			}
		}
		time.Sleep(10 * time.Second)
		free.Store(spareFiles / 2)
		time.Sleep(10 * time.Second)
		if len(heard) > 0 {
			t.Errorf("notified of free descriptors in %s", <-heard)
		}
		lines.want(t, "level=error", "too many open files: operations fail until some are closed", "dir=/data")
		time.Sleep(cfg.SegmentDeleteDelay)
		mem.SetFault(nil)
		time.Sleep(2 * removeAgainAfter)
		if len(heard) != 1 || <-heard != "/data" {
			t.Error("not notified of free descriptors exactly once")
		}
		lines.want(t, "level=info", "files can be opened again", "dir=/data")
		left, err := mem.ReadDir("/data")
		if err != nil || slices.ContainsFunc(left, func(e fs.DirEntry) bool { return e.IsDir() && e.Name() != testTP.String() }) {
			t.Errorf("%v are left, %v", left, err)
		}
		if _, err := m.GetOrCreate(testTP, [16]byte{7}, cfg.Default, true); err != nil {
			t.Error(err)
		}
	})
}

// TestTruncationWithTooManyOpenFiles: whichever file cannot be opened for a second while the end of a log is removed,
// it is removed, and the directory stays online.
func TestTruncationWithTooManyOpenFiles(t *testing.T) {
	for name, test := range map[string]struct {
		from       int64 // the log's start before
		cut        func(*Log) error
		start, end int64
	}{
		"within a batch":    {0, func(l *Log) error { return l.TruncateTo(5) }, 0, 4},
		"between batches":   {0, func(l *Log) error { return l.TruncateTo(4) }, 0, 4},
		"below the start":   {8, func(l *Log) error { return l.TruncateTo(2) }, 2, 2},
		"of everything":     {0, func(l *Log) error { return l.TruncateFullyAndStartAt(20) }, 20, 20},
		"of nothing at all": {0, func(l *Log) error { return l.TruncateTo(12) }, 0, 12},
	} {
		t.Run(name, func(t *testing.T) {
			for n, reached := 1, true; reached; n++ {
				synctest.Test(t, func(t *testing.T) { reached = truncateAmidFault(t, n, test.from, test.cut, test.start, test.end) })
			}
		})
	}
}

// truncateAmidFault reports whether an nth file was opened.
func truncateAmidFault(t *testing.T, n int, from int64, cut func(*Log) error, start, end int64) bool {
	cfg := memConfig(vfs.NewMem(time.Now), newClock())
	cfg.Default.SegmentBytes = 200
	m := mustOpen(t, cfg)
	defer m.Close()
	l := mustCreate(t, m)
	for i := range 6 {
		b := sequenced(9, 0, int32(2*i), 2).MustBuild()
		if _, err := l.AppendLeader(b, LeaderAppend{LeaderEpoch: int32(i), ProduceVersion: 9}); err != nil {
			t.Fatal(err)
		}
	}
	l.SetHighWatermark(12)
	if err := errors.Join(l.AdvanceLogStart(from), l.Flush(), l.Roll()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Retain(); err != nil {
		t.Fatal(err)
	}
	for _, s := range *l.segments.Load() {
		l.closeIdle(s)
	}
	calls, until := 0, time.Time{}
	fsys := l.env.fs.FS.(*vfs.Mem)
	fsys.SetFault(func(op, name string) error {
		if op != "open" && op != "readfile" && op != "syncdir" { // each opens something
			return nil
		}
		if calls++; calls == n {
			until = time.Now().Add(time.Second)
		}
		if time.Now().Before(until) {
			return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
		}
		return nil
	})
	err := cut(l)
	fsys.SetFault(nil)
	if err != nil || l.disk.usable() != nil || l.LogStartOffset() != start || l.LogEndOffset() != end {
		t.Errorf("call %d: %d to %d, %v, %v", n, l.LogStartOffset(), l.LogEndOffset(), l.disk.usable(), err)
		return false
	}
	next := batchOf(1, "value", "value")
	if start == 0 {
		next = sequenced(9, 0, int32(end), 2) // is refused if the producer's state is another one
	}
	if info, err := l.AppendLeader(next.MustBuild(), LeaderAppend{LeaderEpoch: 9, ProduceVersion: 9}); err != nil || info.FirstOffset != end {
		t.Errorf("call %d: the next record is at %d, %v", n, info.FirstOffset, err)
	}
	if err := l.Flush(); err != nil {
		t.Error(err)
	}
	cfg.FS = fsys.Crash(nil)
	again := mustOpen(t, cfg)
	defer again.Close()
	if l, err = again.GetOrCreate(testTP, [16]byte{7}, cfg.Default, false); err != nil || l.LogEndOffset() != end+2 {
		t.Errorf("call %d: after a crash, %v", n, err)
	}
	return calls >= n
}

// TestTruncationOfAbortedTransactionsWithTooManyOpenFiles: whichever file cannot be opened at first while an aborted
// transaction is removed with the end of a log, a clean stop and start do not bring it back: consumers would be told to
// skip the records that have taken its place.
func TestTruncationOfAbortedTransactionsWithTooManyOpenFiles(t *testing.T) {
	for n, reached := 1, true; reached; n++ {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem(time.Now)
			cfg := memConfig(mem, newClock())
			m := mustOpen(t, cfg)
			l := mustCreate(t, m)
			for pid := range int64(2) {
				_, err := l.AppendLeader(inTransaction(pid, 0, 0), LeaderAppend{LeaderEpoch: 1, ProduceVersion: 9})
				if err == nil {
					_, err = l.AppendLeader(endMarker(pid, 0, false), LeaderAppend{LeaderEpoch: 1, Origin: Coordinator})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			calls := 0
			mem.SetFault(func(op, name string) error {
				if op == "open" || op == "readfile" || op == "syncdir" {
					if calls++; calls == n {
						return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
					}
				}
				return nil
			})
			if err := l.TruncateTo(2); err != nil {
				t.Fatal(err)
			}
			reached = calls >= n
			mem.SetFault(nil)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			m = mustOpen(t, cfg)
			defer m.Close()
			l, _ = m.Log(testTP)
			if aborted, err := l.AbortedTransactions(0, 10); err != nil || len(aborted) != 1 {
				t.Errorf("call %d: %+v, %v", n, aborted, err)
			}
		})
	}
}
