package logstore

import (
	"fmt"
	"testing"

	"barnabas/internal/vfs"
)

// TestIndexesOfALoweredSize: segment.index.bytes limits what is added to an index, not what is read from one that was
// written before. Otherwise a segment seems to be older than it is: retention would drop it, and searches by time skip it.
func TestIndexesOfALoweredSize(t *testing.T) {
	for _, clean := range []bool{false, true} {
		c := newClock()
		fsys := vfs.NewMem(c.Now)
		cfg := memConfig(fsys, c)
		cfg.Default.IndexIntervalBytes, cfg.Default.RetentionTime = 1, Unlimited
		m := mustOpen(t, cfg)
		l := mustCreate(t, m)
		for n := range int64(2) { // a closed segment and the active one
			for i := range int64(50) {
				mustProduce(t, l, batchOf(1000+n*50+i, fmt.Sprint(i)))
			}
			l.SetHighWatermark(l.LogEndOffset())
			if n == 0 {
				if err := l.Roll(); err != nil {
					t.Fatal(err)
				}
				if err := l.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := m.checkpointOffsets(m.disks[0]); err != nil {
			t.Fatal(err)
		}
		if clean {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			m.giveUp()
		}
		cfg.FS = fsys.Kill()
		cfg.Default.IndexSizeMax = 120
		m = mustOpen(t, cfg)
		l, _ = m.Log(testTP)
		for offset := range int64(100) {
			if got, _, _, found, err := l.OffsetForTime(1000 + offset); got != offset || !found || err != nil {
				t.Errorf("clean %v: time %d is found at %d, %v, %v; want %d", clean, 1000+offset, got, found, err, offset)
			}
		}
		if err := l.TruncateTo(90); err != nil {
			t.Error(err)
		}
		mustProduce(t, l, batchOf(5000, "after the truncation"))
		if err := l.TruncateTo(40); err != nil {
			t.Error(err)
		}
		for range 50 {
			mustProduce(t, l, batchOf(6000+l.LogEndOffset(), "anew"))
		}
		if got, _, _, _, err := l.OffsetForTime(6085); got != 85 || err != nil {
			t.Errorf("clean %v: found at %d, %v", clean, got, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
