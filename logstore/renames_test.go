package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// observedFS calls a function after each rename, and before each look at a directory or a file.
type observedFS struct {
	vfs.FS
	mu      sync.Mutex
	observe func(op, name string)
}

func (o *observedFS) tell(op, name string) {
	o.mu.Lock()
	observe := o.observe
	o.mu.Unlock()
	if observe != nil {
		observe(op, name)
	}
}

func (o *observedFS) set(observe func(op, name string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.observe = observe
}

func (o *observedFS) Rename(from, to string) error {
	err := o.FS.Rename(from, to)
	o.tell("rename", from)
	return err
}

func (o *observedFS) SyncDir(name string) error {
	o.tell("syncdir", name)
	return o.FS.SyncDir(name)
}

// TestReadsAmidRenames: whatever is read of a log right after any rename of a compaction, a deletion of segments or a
// move to another directory is right, and a file that has another name now does not take the log directory offline.
func TestReadsAmidRenames(t *testing.T) {
	for what, change := range map[string]func(m *Manager, l *Log) error{
		"compaction": func(m *Manager, l *Log) error { _, err := compactLog(t, m, l); return err },
		"retention":  func(_ *Manager, l *Log) error { return errors.Join(l.AdvanceLogStart(10), second(l.Retain())) },
	} {
		t.Run(what, func(t *testing.T) {
			fsys := &observedFS{FS: vfs.NewMem(time.Now)}
			m, l := abortedTxns(t, fsys)
			end := l.LogEndOffset()
			var readers sync.WaitGroup
			read := func() { readAround(t, l, end) }
			fsys.set(func(op, _ string) {
				if op != "rename" {
					return
				}
				done := make(chan struct{})
				readers.Go(func() { read(); close(done) })
				select {
				case <-done:
				case <-time.After(2 * time.Millisecond): // it waits for the change to be over
				}
			})
			if err := change(m, l); err != nil {
				t.Error(err)
			}
			fsys.set(nil)
			readers.Wait()
			read()
			if err := l.Usable(); err != nil {
				t.Error(err)
			}
		})
	}
}

// abortedTxns returns a log of several segments with aborted transactions. None of its indexes is in memory.
func abortedTxns(t *testing.T, fsys *observedFS) (*Manager, *Log) {
	t.Helper()
	c := newClock()
	cfg := memConfig(fsys.FS.(*vfs.Mem), c)
	cfg.FS = fsys
	cfg.Default.Compact, cfg.Default.SegmentBytes, cfg.Default.IndexIntervalBytes = true, 700, 50
	m := mustOpen(t, cfg)
	l := mustCreate(t, m)
	for i := range 12 {
		w := record.NewBuilder()
		w.Add(c.now.UnixMilli()+int64(i), []byte(fmt.Sprint("key ", i)), []byte("value"))
		w.ProducerID, w.ProducerEpoch, w.BaseSequence, w.Transactional = 9, 0, int32(i), i%3 == 2
		_, err := l.AppendLeader(w.MustBuild(), LeaderAppend{ProduceVersion: 9})
		if err == nil && i%3 == 2 {
			_, err = l.AppendLeader(endMarker(9, 0, false), LeaderAppend{Origin: Coordinator})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	l.SetHighWatermark(l.LogEndOffset())
	if err := errors.Join(l.Roll(), m.Close()); err != nil {
		t.Fatal(err)
	}
	m = mustOpen(t, cfg)
	t.Cleanup(func() { _ = m.Close() })
	l, _ = m.Log(testTP)
	l.SetHighWatermark(l.LogEndOffset())
	return m, l
}

// readAround reads everything up to end in all ways that use a file.
func readAround(t *testing.T, l *Log, end int64) {
	for offset := l.LogStartOffset(); offset < end; offset++ {
		if r, err := l.Read(offset, 1000, end, true); err != nil && l.LogStartOffset() <= offset {
			t.Errorf("read at %d: %v", offset, err)
		} else {
			r.Close()
		}
	}
	if _, err := l.LegacyOffsetsBefore(Latest, 10); err != nil {
		t.Error(err)
	}
	var last int64
	for _, a := range must(l.AbortedTransactions(l.LogStartOffset(), end)) {
		last = a.LastOffset
	}
	if last != end-1 {
		t.Errorf("the last aborted transaction known ends at %d, not at %d", last, end-1)
	}
}

func second[T any](_ T, err error) error { return err }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestFlushAmidRenames: a flush that finds its directory renamed, because the partition has just been deleted or its
// copy has taken its place, does not take the log directory offline.
func TestFlushAmidRenames(t *testing.T) {
	for what, rename := range map[string]func(x *moveRig) error{
		"deletion": func(x *moveRig) error { return x.m.Delete(testTP) },
		"move": func(x *moveRig) error {
			f, _ := x.m.Future(testTP)
			return f.takePlace()
		},
	} {
		t.Run(what, func(t *testing.T) {
			x := newMoveRig(t)
			x.must(x.m.Close())
			fsys := &observedFS{FS: x.fs}
			x.cfg.FS = fsys
			x.m = mustOpen(t, x.cfg)
			x.l, _ = x.m.Log(testTP)
			x.append(3, 1)
			flushed := x.l
			if what == "move" {
				f, err := x.m.MoveTo(testTP, "/b")
				x.must(err)
				x.must(fill(f, x.l))
				x.must(f.settle(x.l))
				flushed = f
			}
			(*flushed.segments.Load())[0].named.Store(false)
			dir, renamed := flushed.path(), false
			fsys.set(func(op, name string) {
				if op == "syncdir" && filepath.Clean(name) == dir && !renamed {
					renamed = true
					x.must(rename(x))
				}
			})
			err := flushed.flush(flushed.LogEndOffset(), what == "move")
			fsys.set(nil)
			if !renamed || slices.ContainsFunc(x.m.disks, func(v *volume) bool { return v.failed.Load() }) {
				t.Errorf("renamed %v, offline are %v: %v", renamed, x.m.OfflineDirs(), err)
			}
			if what == "move" && err != nil {
				t.Error(err)
			}
			x.must(x.m.Close())
		})
	}
}

// TestFlushThatFailsHalfway: segments whose content was flushed before too many files were open for the others are not
// taken for durable without their names.
func TestFlushThatFailsHalfway(t *testing.T) {
	x := newMoveRig(t)
	x.append(12, 3)
	segments := *x.l.segments.Load()
	if len(segments) < 3 {
		t.Fatalf("%d segments", len(segments))
	}
	segments[0].named.Store(false) // as after the first transaction that was aborted in it
	x.l.closeIdle(segments[1])
	x.fs.SetFault(func(op, name string) error {
		if op == "open" && strings.HasSuffix(name, fileName(segments[1].base, logSuffix)) {
			return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
		}
		return nil
	})
	if err := x.l.Flush(); err == nil {
		t.Fatal("flushed")
	}
	x.fs.SetFault(nil)
	if segments[0].named.Load() {
		t.Error("the names of the first segment's files count as durable")
	}
	x.must(x.m.Close())
}
