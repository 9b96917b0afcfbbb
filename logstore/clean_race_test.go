package logstore

import (
	"fmt"
	"path"
	"testing"

	"barnabas/internal/vfs"
)

// TestCompactionOfALogThatWasTruncatedSinceItWasChosen: the records that were then appended are not acknowledged. They
// may be truncated, too, so no record is dropped because of them.
func TestCompactionOfALogThatWasTruncatedSinceItWasChosen(t *testing.T) {
	c := newClock()
	cfg := memConfig(vfs.NewMem(c.Now), c)
	cfg.Default.Compact, cfg.Default.Delete = true, false
	m := mustOpen(t, cfg)
	defer m.giveUp()
	l := mustCreate(t, m)
	fill := func(upTo int64) { // all records have the same key
		for l.LogEndOffset() < upTo {
			mustProduce(t, l, batchOf(1000, fmt.Sprint(l.LogEndOffset())))
		}
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	fill(10)
	fill(20)
	l.SetHighWatermark(20)
	due := m.clean.dirtiest(t.Context(), 1)
	if len(due) != 1 || due[0].part.upTo != 20 {
		t.Fatalf("to be compacted: %+v", due)
	}
	if err := l.TruncateTo(12); err != nil {
		t.Fatal(err)
	}
	fill(20)
	fill(30)
	m.clean.clean(t.Context(), due[0], m.cfg.Cleaner.share(m.clean.throttle))
	if err := l.TruncateTo(12); err != nil {
		t.Fatal(err)
	}
	all := readAll(t, l, l.LogEndOffset())
	if len(all) == 0 || all[len(all)-1].BaseOffset() != 11 {
		t.Errorf("%d batches are left, the acknowledged one at offset 11 is not the last one", len(all))
	}
}

// TestSegmentThatIsClosedDuringAnExamination: its log is examined again.
func TestSegmentThatIsClosedDuringAnExamination(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Default.Compact = true
	m := mustOpen(t, cfg)
	defer m.giveUp()
	l := mustCreate(t, m)
	if err := m.setCleanedTo(l, 100); err != nil { // above the end: the examination replaces it
		t.Fatal(err)
	}
	m.clean.consider(l)
	closed := false
	fsys.SetFault(func(_, name string) error {
		if !closed && path.Base(name) == cleanerFile+".tmp" {
			closed = true
			m.clean.consider(l)
		}
		return nil
	})
	m.clean.dirtiest(t.Context(), 1)
	if !closed || !m.clean.waiting() {
		t.Errorf("closed %v, the log will be examined again: %v", closed, m.clean.waiting())
	}
	fsys.SetFault(nil)
	m.clean.dirtiest(t.Context(), 1)
	if m.clean.waiting() {
		t.Error("a log without a closed segment is examined again and again")
	}
}

// TestExaminationOfADeletedLog: what it finds does not count for the partition's next log.
func TestExaminationOfADeletedLog(t *testing.T) {
	c := newClock()
	cfg := memConfig(vfs.NewMem(c.Now), c)
	cfg.Default.Compact = true
	m := mustOpen(t, cfg)
	defer m.giveUp()
	deleted := mustCreate(t, m)
	if err := m.Delete(testTP); err != nil {
		t.Fatal(err)
	}
	next, err := m.GetOrCreate(testTP, [16]byte{8}, cfg.Default, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.setCleanedTo(deleted, 50); err != nil {
		t.Fatal(err)
	}
	if offset, known := m.cleanedTo(next); known {
		t.Errorf("the new log counts as compacted up to %d", offset)
	}
}
