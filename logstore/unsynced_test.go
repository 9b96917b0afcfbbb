package logstore

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"barnabas/internal/vfs"

	"github.com/google/go-cmp/cmp"
)

// unsyncedRig is a log of ten records whose checkpoints say that the first five are replicated, flushed and compacted.
type unsyncedRig struct {
	*testing.T
	fs  *vfs.Mem
	cfg ManagerConfig
	m   *Manager
	l   *Log
}

func newUnsyncedRig(t *testing.T) *unsyncedRig {
	c := newClock()
	r := &unsyncedRig{T: t, fs: vfs.NewMem(c.Now)}
	r.cfg = memConfig(r.fs, c)
	r.m = mustOpen(t, r.cfg)
	l, err := r.m.GetOrCreate(testTP, [16]byte{7}, r.cfg.Default, true)
	r.l = l
	r.must(err)
	for range 10 {
		mustProduce(t, l, batchOf(1000, "v"))
	}
	l.SetHighWatermark(5)
	l.recovery.Store(5)
	r.must(r.m.checkpointOffsets(r.m.disks[0]), r.m.checkpointHighWatermarks(r.m.disks[0]), r.m.setCleanedTo(l, 5))
	return r
}

func (r *unsyncedRig) must(errs ...error) {
	r.Helper()
	if err := errors.Join(errs...); err != nil {
		r.Fatal(err)
	}
}

// unsynced calls write, which writes a file but cannot open the directory to sync it.
func (r *unsyncedRig) unsynced(write func() error) {
	r.Helper()
	r.fs.SetFault(func(op, name string) error {
		if op == "syncdir" {
			return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
		}
		return nil
	})
	err := write()
	r.fs.SetFault(nil)
	if !errors.Is(err, syscall.EMFILE) {
		r.Fatalf("written without syncing: %v", err)
	}
}

func (r *unsyncedRig) stored(file string, want int64) {
	r.Helper()
	offsets, err := readCheckpoint(r.fs, "/data/"+file)
	if err != nil || offsets[testTP] != want {
		r.Errorf("%s has offset %d, want %d: %v", file, offsets[testTP], want, err)
	}
}

// TestUnsyncedCheckpoints: a checkpoint that was renamed into place, but whose directory could not be synced, has another
// content than the broker remembers. It is written again even if what is to be stored is what is remembered.
func TestUnsyncedCheckpoints(t *testing.T) {
	t.Run(highWatermarkFile, func(t *testing.T) {
		r := newUnsyncedRig(t)
		v := r.m.disks[0]
		r.l.SetHighWatermark(8)
		r.unsynced(func() error { return r.m.checkpointHighWatermarks(v) })
		r.must(r.l.TruncateTo(5), r.m.checkpointHighWatermarks(v))
		r.stored(highWatermarkFile, 5)
	})
	t.Run(recoveryPointFile, func(t *testing.T) {
		r := newUnsyncedRig(t)
		v := r.m.disks[0]
		r.l.recovery.Store(8)
		r.unsynced(func() error { return r.m.checkpointRecoveryPoints(v) })
		r.must(r.m.lowerRecoveryPoint(v, testTP, 6))
		r.stored(recoveryPointFile, 5)
	})
	t.Run(cleanerFile, func(t *testing.T) {
		r := newUnsyncedRig(t)
		r.unsynced(func() error { return r.m.setCleanedTo(r.l, 8) })
		r.must(r.l.TruncateTo(6))
		r.stored(cleanerFile, 5)
	})
	t.Run("deleted log", func(t *testing.T) {
		r := newUnsyncedRig(t)
		other := TopicPartition{"other", 0}
		l, err := r.m.GetOrCreate(other, [16]byte{8}, r.cfg.Default, true)
		r.must(err)
		mustProduce(t, l, batchOf(1000, "v"))
		l.recovery.Store(1)
		r.unsynced(func() error { return r.m.checkpointRecoveryPoints(r.m.disks[0]) })
		r.fs.SetFault(func(op, name string) error {
			if op == "open" {
				return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
			}
			return nil
		})
		r.must(r.m.Delete(other))
		r.fs.SetFault(nil)
		_, err = r.m.GetOrCreate(other, [16]byte{9}, r.cfg.Default, true)
		r.must(err)
		offsets, err := readCheckpoint(r.fs, "/data/"+recoveryPointFile)
		if at, ok := offsets[other]; ok || err != nil {
			t.Errorf("the new log counts as flushed up to %d: %v", at, err)
		}
	})
	t.Run(epochFile, func(t *testing.T) {
		mem := vfs.NewMem(newClock().Now)
		r := &unsyncedRig{T: t, fs: mem}
		r.must(mem.MkdirAll("/d"))
		c := newEpochs(mem, "/d")
		r.must(c.assign(4, 0))
		r.unsynced(func() error { return c.assign(6, 100) })
		r.must(c.assign(4, 100), c.flush())
		again := newEpochs(mem, "/d")
		r.must(again.load())
		if d := cmp.Diff(c.mu.entries, again.mu.entries, cmp.AllowUnexported(epochEntry{})); d != "" {
			t.Errorf("epochs (-known +stored):\n%s", d)
		}
	})
}

// TestDroppedSegmentsDoNotComeBack: retention syncs a directory again that it could not open at first. Otherwise a crash
// could bring back some of the segments that it has dropped.
func TestDroppedSegmentsDoNotComeBack(t *testing.T) {
	r := newUnsyncedRig(t)
	r.must(r.l.Roll(), r.l.Flush())
	r.l.SetHighWatermark(10)
	r.must(r.l.AdvanceLogStart(10), r.l.epochs.flush())
	r.unsynced(func() error {
		_, err := r.l.Retain()
		return err
	})
	if n, err := r.l.Retain(); n != 0 || err != nil {
		t.Errorf("the next round drops %d segments: %v", n, err)
	}
	if _, err := r.fs.Crash(nil).Stat("/data/t-0/" + fileName(0, logSuffix)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the dropped segment came back: %v", err)
	}
}
