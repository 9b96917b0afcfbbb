package logstore

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"barnabas/internal/vfs"
)

// TestDeletionCrashAtEachStep crashes the machine at each step of deleting segments and whole logs. What was not to be
// deleted is there, what was deleted does not reappear, and the next start completes a deletion, or it never began.
func TestDeletionCrashAtEachStep(t *testing.T) {
	kept, dropped := TopicPartition{"kept", 0}, TopicPartition{"dropped", 0}
	for n := 1; ; n++ {
		c := newClock()
		fsys := vfs.NewMem(c.Now)
		cfg := memConfig(fsys, c)
		cfg.Default.SegmentBytes, cfg.Default.FileDeleteDelay, cfg.Default.RetentionTime = 300, 0, Unlimited
		m := mustOpen(t, cfg)
		for _, tp := range []TopicPartition{kept, dropped} {
			l, err := m.GetOrCreate(tp, [16]byte{7}, cfg.Default, true)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				mustProduce(t, l, batchOf(1000, fmt.Sprint(i)))
			}
			l.SetHighWatermark(20)
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.checkpointOffsets(m.disks[0]); err != nil {
			t.Fatal(err)
		}
		calls := dieAt(fsys, n)
		moved, gone := false, false
		l, _ := m.Log(kept)
		if l.AdvanceLogStart(10) == nil {
			_, err := l.Retain()
			moved = err == nil && m.checkpointOffsets(m.disks[0]) == nil
		}
		gone = m.Delete(dropped) == nil
		over := *calls < n
		m.giveUp()
		cfg.FS = fsys.Crash(nil)
		m = mustOpen(t, cfg)
		l, ok := m.Log(kept)
		if !ok || l.LogEndOffset() != 20 {
			t.Fatalf("call %d: the log that should stay is not complete: %v", n, ok)
		}
		start := l.LogStartOffset()
		if moved && start != 10 || start < 0 || start > 10 {
			t.Fatalf("call %d: it starts at %d, deleted to 10: %v", n, start, moved)
		}
		for i, b := range readAll(t, l, 20) {
			if b.BaseOffset() != start+int64(i) {
				t.Fatalf("call %d: batch %d is at offset %d", n, i, b.BaseOffset())
			}
		}
		switch l, there := m.Log(dropped); {
		case there && gone:
			t.Fatalf("call %d: a deleted log has reappeared", n)
		case there && (l.LogEndOffset() != 20 || len(readAll(t, l, 20)) != 20):
			t.Fatalf("call %d: part of a log is left, it ends at %d", n, l.LogEndOffset())
		}
		l, err := m.GetOrCreate(dropped, [16]byte{7}, cfg.Default, true)
		if err != nil {
			t.Fatalf("call %d: it cannot be created again: %v", n, err)
		}
		mustProduce(t, l, batchOf(1000, "anew"))
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if over {
			t.Logf("%d calls", n-1)
			return
		}
	}
}

// TestDeletionOnAFullDisk: deletion succeeds on a full disk, since it frees space. What the checkpoints still contain
// for the log does not apply to another one of that name, not even after a crash; nor does what a crash during the
// deletion has left.
func TestDeletionOnAFullDisk(t *testing.T) {
	for name, full := range map[string]error{"disk full": syscall.ENOSPC, "too many files": syscall.EMFILE, "crash": nil} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			fsys := vfs.NewMem(c.Now)
			cfg := memConfig(fsys, c)
			m := mustOpen(t, cfg)
			l := mustCreate(t, m)
			for range 20 {
				mustProduce(t, l, batchOf(1000, "v"))
			}
			l.SetHighWatermark(20)
			if err := errors.Join(l.AdvanceLogStart(15), l.Flush(), m.checkpointOffsets(m.disks[0]), m.checkpointHighWatermarks(m.disks[0]), m.setCleanedTo(l, 20)); err != nil {
				t.Fatal(err)
			}
			fsys.SetFault(func(op, name string) error {
				switch {
				case full == nil && strings.Contains(name, "checkpoint"):
					return errors.New("machine is off")
				case full != nil && op != "rename" && op != "removeall":
					return full
				}
				return nil
			})
			if err := m.Delete(testTP); (err == nil) != (full != nil) {
				t.Errorf("deletion: %v", err)
			}
			fsys.SetFault(nil)
			if full == nil {
				m.giveUp()
				m = mustOpen(t, cfg)
			}
			l, err := m.GetOrCreate(testTP, [16]byte{8}, cfg.Default, true)
			if err != nil {
				t.Fatal(err)
			}
			if _, cleaned := m.cleanedTo(l); cleaned {
				t.Error("the new log counts as compacted")
			}
			mustProduce(t, l, batchOf(1000, "anew"))
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			m.giveUp()
			cfg.FS = cfg.FS.(*vfs.Mem).Crash(nil)
			m = mustOpen(t, cfg)
			l, ok := m.Log(testTP)
			if !ok || l.LogStartOffset() != 0 || l.LogEndOffset() != 1 || l.HighWatermark() != 0 {
				t.Errorf("after a crash: %v, from %d to %d, high watermark %d", ok, l.LogStartOffset(), l.LogEndOffset(), l.HighWatermark())
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMoveToAFormerDirectory: what the checkpoints of a directory still contain for a deleted log does not apply to a
// copy that is made there of another log of that name.
func TestMoveToAFormerDirectory(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Dirs = []string{"a", "b"}
	m := mustOpen(t, cfg)
	create := func(dir *volume, id byte) *Log {
		t.Helper()
		m.preferDir(testTP, dir)
		l, err := m.GetOrCreate(testTP, [16]byte{id}, cfg.Default, true)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := create(m.disks[0], 7)
	for range 20 {
		mustProduce(t, l, batchOf(1000, "v"))
	}
	l.SetHighWatermark(20)
	if err := errors.Join(l.AdvanceLogStart(15), l.Flush(), m.checkpointOffsets(m.disks[0]), m.checkpointHighWatermarks(m.disks[0])); err != nil {
		t.Fatal(err)
	}
	fsys.SetFault(func(op, name string) error {
		if strings.Contains(name, "checkpoint") {
			return errors.New("machine is off")
		}
		return nil
	})
	if err := m.Delete(testTP); err == nil {
		t.Fatal("deleted although the machine was off")
	}
	fsys.SetFault(nil)
	m.giveUp()
	m = mustOpen(t, cfg)
	l = create(m.disks[1], 8)
	for range 20 {
		mustProduce(t, l, batchOf(1000, "anew"))
	}
	future, err := m.MoveTo(testTP, m.disks[0].path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := future.CatchUp(l, make([]byte, 0, 10_000)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Flush(), future.Flush()); err != nil {
		t.Fatal(err)
	}
	m.giveUp()
	cfg.FS = cfg.FS.(*vfs.Mem).Crash(nil)
	m = mustOpen(t, cfg)
	if future, err = m.Replace(testTP); err != nil {
		t.Fatal(err)
	}
	if future.LogStartOffset() != 0 || len(readAll(t, future, 20)) != 20 {
		t.Errorf("the copy that replaced the log is from %d to %d", future.LogStartOffset(), future.LogEndOffset())
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
