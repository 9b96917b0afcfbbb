package logstore

import (
	"fmt"
	"testing"
	"time"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// TestOnceCompacted has a log whose segments end before the next begin, since it was compacted before it was set to be no more.
// After a kill all its records are there, whatever has become of the recovery points: such gaps are no lost tails.
func TestOnceCompacted(t *testing.T) {
	for name, stored := range map[string]*string{
		"as it was": nil, "stale": text("0\n0\n"), "at the start": text("0\n1\nt 0 0\n"), "empty": text(""), "garbage": text("bad"), "missing": text("-"),
	} {
		t.Run(name, func(t *testing.T) {
			fsys, cfg, want := onceCompacted(t)
			switch path := "/data/" + recoveryPointFile; {
			case stored == nil:
			case *stored == "-":
				if err := fsys.Remove(path); err != nil {
					t.Fatal(err)
				}
			default:
				if err := vfs.WriteFile(fsys, path, []byte(*stored)); err != nil {
					t.Fatal(err)
				}
			}
			cfg.FS, cfg.Default.Compact, cfg.Default.Delete = fsys, false, true
			m := mustOpen(t, cfg)
			defer func() { _ = m.Close() }()
			l, ok := m.Log(testTP)
			if !ok {
				t.Fatal("the log is not there")
			}
			if got := len(readAll(t, l, l.LogEndOffset())); got != want.records || l.LogEndOffset() != want.end {
				t.Errorf("%d records up to offset %d, there were %d up to %d", got, l.LogEndOffset(), want.records, want.end)
			}
		})
	}
}

type extent struct {
	records int
	end     int64
}

// onceCompacted gives the disk of a process that was killed, with a compacted log of several segments.
func onceCompacted(t *testing.T) (*vfs.Mem, ManagerConfig, extent) {
	t.Helper()
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Default.Compact, cfg.Default.Delete, cfg.Default.FileDeleteDelay = true, false, 0
	cfg.Default.RetentionTime, cfg.Default.SegmentBytes = Unlimited, 1800 // which two that are compacted exceed
	m := mustOpen(t, cfg)
	l, err := m.GetOrCreate(testTP, [16]byte{7}, cfg.Default, true)
	if err != nil {
		t.Fatal(err)
	}
	for segment := range 4 {
		for i := range 20 {
			key := fmt.Sprintf("%d-%d", segment, i)
			if i >= 16 { // gone with the next segment that has it
				key = fmt.Sprint("often ", i)
			}
			w := record.NewBuilder()
			w.Add(c.Now().UnixMilli(), []byte(key), []byte("value"))
			mustProduce(t, l, w)
		}
		l.SetHighWatermark(l.LogEndOffset())
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		c.now = c.now.Add(time.Minute)
	}
	if _, err := compactLog(t, m, l); err != nil {
		t.Fatal(err)
	}
	want := extent{len(readAll(t, l, l.LogEndOffset())), l.LogEndOffset()}
	if want.records >= 80 {
		t.Fatalf("%d records: nothing was compacted", want.records)
	}
	if err := m.checkpointRecoveryPoints(m.disks[0]); err != nil {
		t.Fatal(err)
	}
	return fsys.Kill(), cfg, want
}

func text(s string) *string { return &s }
