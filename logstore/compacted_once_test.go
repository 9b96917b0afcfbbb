package logstore

import (
	"fmt"
	"testing"
	"time"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// TestOnceCompacted: the segments of a log end before the next ones begin, since it was compacted before cleanup.policy
// was changed. After a kill all its records are there, whatever the recovery points and the cleaner's checkpoint say:
// such gaps are no lost tails.
func TestOnceCompacted(t *testing.T) {
	points := map[string]*string{
		"as it was": nil, "stale": new("0\n0\n"), "at the start": new("0\n1\nt 0 0\n"), "empty": new(""), "garbage": new("bad"), "missing": new("-"),
	}
	for _, cleaner := range []struct {
		name   string
		file   *string
		inside bool // there are also gaps within segments
	}{
		{"as it was", nil, false},
		{"missing", new("-"), false},
		{"garbage", new("bad"), false},
		{"without the log", new("0\n0\n"), true},
	} {
		for name, stored := range points {
			t.Run("cleaner "+cleaner.name+", recovery points "+name, func(t *testing.T) {
				fsys, cfg, want := onceCompacted(t, cleaner.inside)
				replaceFile(t, fsys, "/data/"+cleanerFile, cleaner.file)
				replaceFile(t, fsys, "/data/"+recoveryPointFile, stored)
				cfg.FS, cfg.Default.Compact, cfg.Default.Delete = fsys, false, true
				checkExtent(t, cfg, want)
			})
		}
	}
}

// replaceFile writes new content to a file; nil leaves it as it is, "-" removes it.
func replaceFile(t *testing.T, fsys *vfs.Mem, path string, content *string) {
	t.Helper()
	var err error
	switch {
	case content == nil:
	case *content == "-":
		err = fsys.Remove(path)
	default:
		err = vfs.WriteFile(fsys, path, []byte(*content))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkExtent opens the directories and checks that the log is complete.
func checkExtent(t *testing.T, cfg ManagerConfig, want extent) {
	t.Helper()
	m := mustOpen(t, cfg)
	defer func() { _ = m.Close() }()
	l, ok := m.Log(testTP)
	if !ok {
		t.Fatal("the log does not exist")
	}
	if got := len(readAll(t, l, l.LogEndOffset())); got != want.records || l.LogEndOffset() != want.end {
		t.Errorf("%d records up to offset %d, there were %d up to %d", got, l.LogEndOffset(), want.records, want.end)
	}
}

// TestCopyOfACompactedLog: a replica that is not compacted itself was copied from one that was, so its segments may
// begin after a gap. A kill before the recovery points are stored must not lose any of it.
func TestCopyOfACompactedLog(t *testing.T) {
	fsys, cfg, want := onceCompacted(t, false)
	cfg.FS, cfg.Default.Compact, cfg.Default.Delete = fsys, false, true
	leaders := mustOpen(t, cfg)
	defer func() { _ = leaders.Close() }()
	leader, _ := leaders.Log(testTP)
	toFirstGap := int32(0)
	for _, b := range readAll(t, leader, 16) {
		toFirstGap += int32(len(b))
	}
	for _, segmentBytes := range []int32{400, 900, toFirstGap} {
		t.Run(fmt.Sprint(segmentBytes), func(t *testing.T) {
			c := newClock()
			mine := vfs.NewMem(c.Now)
			cfg := memConfig(mine, c)
			cfg.Default.SegmentBytes, cfg.Default.RetentionTime = segmentBytes, Unlimited
			m := mustOpen(t, cfg)
			l := mustCreate(t, m)
			if err := m.checkpointRecoveryPoints(m.disks[0]); err != nil {
				t.Fatal(err)
			}
			for _, b := range readAll(t, leader, leader.LogEndOffset()) {
				if _, err := l.AppendFollower(b); err != nil {
					t.Fatal(err)
				}
			}
			if len(bases(l)) < 2 {
				t.Fatal("the segment was not rolled")
			}
			want := extent{want.records, l.LogEndOffset()}
			m.giveUp()
			cfg.FS = mine.Kill()
			checkExtent(t, cfg, want)
		})
	}
}

type extent struct {
	records int
	end     int64
}

// onceCompacted returns the disk of a killed process with a compacted log of several segments. Records are missing at
// their ends and, if wanted, inside.
func onceCompacted(t *testing.T, inside bool) (*vfs.Mem, ManagerConfig, extent) {
	t.Helper()
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Default.Compact, cfg.Default.Delete, cfg.Default.FileDeleteDelay = true, false, 0
	cfg.Default.RetentionTime, cfg.Default.SegmentBytes = Unlimited, 1800 // a size that two compacted segments exceed
	m := mustOpen(t, cfg)
	l := mustCreate(t, m)
	for segment := range 4 {
		for i := range 20 {
			key := fmt.Sprintf("%d-%d", segment, i)
			if i >= 16 || inside && i == 5 { // compacted with the next segment that has the key
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
