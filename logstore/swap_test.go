package logstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"barnabas/internal/vfs"
)

// TestSwapThatIsGivenUp: the disk fills when a compacted segment is about to be swapped in, and the process is killed
// at each step of removing it again. A load does not combine the old segment with the new one's indexes.
func TestSwapThatIsGivenUp(t *testing.T) {
	for step, died := 1, true; died; step++ {
		died = giveUpSwapAndDie(t, step, (*vfs.Mem).Kill)
		for seed := range uint64(4) {
			giveUpSwapAndDie(t, step, func(fsys *vfs.Mem) *vfs.Mem { return fsys.Crash(rand.New(rand.NewPCG(seed, uint64(step)))) })
		}
		if t.Failed() {
			t.Fatalf("step %d", step)
		}
	}
}

// giveUpSwapAndDie ends the process at a step after the first failure. It reports whether there was such a step.
func giveUpSwapAndDie(t *testing.T, step int, end func(*vfs.Mem) *vfs.Mem) (died bool) {
	t.Helper()
	const latest = 90_000
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Default.Compact, cfg.Default.Delete, cfg.Default.IndexIntervalBytes = true, false, 50
	m := mustOpen(t, cfg)
	l := mustCreate(t, m)
	for i := range 20 { // of one key
		ts := int64(1000 + i)
		if i == 3 {
			ts = latest
		}
		mustProduce(t, l, batchOf(ts, fmt.Sprint(i)))
	}
	l.SetHighWatermark(20)
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	renamed, swapping, n := false, false, 0
	fsys.SetFault(func(op, name string) error {
		switch {
		case swapping:
			if n++; n >= step {
				died = true
				return syscall.EIO
			}
		case op == "rename" && strings.HasSuffix(name, timeIndexSuffix+cleanedSuffix):
			renamed = true
		case op == "syncdir" && renamed:
			swapping = true
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := compactLog(t, m, l); err == nil || !swapping {
		t.Fatalf("it was compacted: %v, %v", err, swapping)
	}
	m.giveUp()
	fsys.SetFault(nil)
	cfg.FS = end(fsys)
	m = mustOpen(t, cfg)
	defer m.giveUp()
	l, ok := m.Log(testTP)
	if !ok {
		t.Fatal("no log")
	}
	all := readAll(t, l, l.LogEndOffset())
	want := int64(0)
	for _, b := range all {
		want = max(want, b.MaxTimestamp())
	}
	if _, got, _, _, err := l.OffsetOfMaxTimestamp(); got != want || err != nil {
		t.Errorf("the largest timestamp of %d batches is %d, found %d, %v", len(all), want, got, err)
	}
	return died
}
