package logstore

import (
	"fmt"
	"testing"

	"barnabas/internal/vfs"
)

// truncatedToItsStart returns the disk, the settings and the log of a broker that has truncated a log to its log start
// offset in the middle of a batch, which leaves a gap below the start, and what was appended then.
func truncatedToItsStart(t *testing.T, roll bool) (*vfs.Mem, ManagerConfig, *Log) {
	t.Helper()
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Default.RetentionTime, cfg.Default.FileDeleteDelay = Unlimited, 0
	m := mustOpen(t, cfg)
	l := mustCreate(t, m)
	for i := range 3 { // offsets 0 to 11
		mustProduce(t, l, batchOf(1000, fmt.Sprint(i), "b", "c", "d"))
	}
	l.SetHighWatermark(12)
	if err := l.AdvanceLogStart(10); err != nil {
		t.Fatal(err)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := m.checkpointOffsets(m.disks[0]); err != nil {
		t.Fatal(err)
	}
	if err := l.TruncateTo(10); err != nil {
		t.Fatal(err)
	}
	if roll {
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	mustProduce(t, l, batchOf(2000, "new", "newer"))
	return fsys, cfg, l
}

// TestKillAfterATruncationToTheLogStart: that the previous segment ends below the log start offset is no lost tail.
func TestKillAfterATruncationToTheLogStart(t *testing.T) {
	for _, roll := range []bool{false, true} {
		t.Run(fmt.Sprint("roll=", roll), func(t *testing.T) {
			fsys, cfg, l := truncatedToItsStart(t, roll)
			end := l.LogEndOffset()
			// As if the truncation had happened before anything was flushed.
			if err := vfs.WriteFile(fsys, "/data/"+recoveryPointFile, []byte("0\n1\nt 0 0\n")); err != nil {
				t.Fatal(err)
			}
			cfg.FS = fsys.Kill()
			m := mustOpen(t, cfg)
			defer func() { _ = m.Close() }()
			l, ok := m.Log(testTP)
			if !ok || l.LogEndOffset() != end || len(readAll(t, l, end)) == 0 {
				t.Fatalf("the log ends at %d, want %d", l.LogEndOffset(), end)
			}
		})
	}
}

// TestPowerCutAfterATruncationToTheLogStart tears the first batch after the truncation: it was not flushed, although it
// directly follows the last flushed batch, and there is nothing but the gap below the recovery point.
func TestPowerCutAfterATruncationToTheLogStart(t *testing.T) {
	fsys, cfg, l := truncatedToItsStart(t, false)
	size := (*l.segments.Load())[0].size.Load()
	fsys = fsys.Kill()
	cutFile(t, fsys, "/data/t-0/"+fileName(0, logSuffix), size-5)
	cfg.FS = fsys
	m := mustOpen(t, cfg)
	defer func() { _ = m.Close() }()
	l, ok := m.Log(testTP)
	if !ok || l.readable() != nil {
		t.Fatal("the log is offline")
	}
	if l.LogStartOffset() != 10 || l.LogEndOffset() != 10 {
		t.Errorf("the log is from %d to %d", l.LogStartOffset(), l.LogEndOffset())
	}
	mustProduce(t, l, batchOf(3000, "goes on"))
}

func cutFile(t *testing.T, fsys *vfs.Mem, name string, size int64) {
	t.Helper()
	data, err := fsys.ReadFile(name)
	if err == nil {
		err = vfs.WriteFile(fsys, name, data[:size])
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotBehindTheEnd: a snapshot whose records were lost in a power failure must not displace the right one. The
// state of a producer whose records are below the log start offset exists only in a snapshot.
func TestSnapshotBehindTheEnd(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Default.RetentionTime = Unlimited
	m := mustOpen(t, cfg)
	l := mustCreate(t, m)
	mustProduce(t, l, sequenced(9, 0, 0, 2))
	for i := range 10 {
		mustProduce(t, l, batchOf(1000, fmt.Sprint(i)))
	}
	l.SetHighWatermark(l.LogEndOffset())
	if err := l.AdvanceLogStart(8); err != nil {
		t.Fatal(err)
	}
	want := l.ActiveProducers()
	if len(want) != 1 {
		t.Fatalf("producers %+v", want)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	stray := "/data/t-0/" + fileName(500, snapshotSuffix)
	if err := vfs.WriteFile(fsys, stray, []byte("torn")); err != nil {
		t.Fatal(err)
	}
	cfg.FS = fsys.Kill()
	m = mustOpen(t, cfg)
	defer func() { _ = m.Close() }()
	l, _ = m.Log(testTP)
	if got := l.ActiveProducers(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("producers %+v, want %+v", got, want)
	}
	if _, err := cfg.FS.Stat(stray); err == nil {
		t.Error("the stray snapshot still exists")
	}
}
