package logstore

import (
	"strings"
	"testing"
	"time"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// segmented returns a log of n segments with one batch of one record each, a minute apart, all below the high
// watermark.
func segmented(t *testing.T, n int, change func(*Config)) (*Log, *clock) {
	t.Helper()
	l, c := newTestLog(t, func(cfg *Config) {
		cfg.SegmentBytes = 100
		change(cfg)
	})
	for range n {
		mustProduce(t, l, batchOf(c.now.UnixMilli(), "v"))
		c.now = c.now.Add(time.Minute)
	}
	l.SetHighWatermark(l.LogEndOffset())
	return l, c
}

func TestRetention(t *testing.T) {
	const size = 70 // of a segment
	for _, tt := range []struct {
		name   string
		change func(*Config)
		hw     int64
		wait   time.Duration
		start  int64
		count  int // number of segments left
	}{
		{"none", func(c *Config) { c.RetentionTime = Unlimited }, 5, 10000 * time.Hour, 0, 5},
		{"time", func(c *Config) { c.RetentionTime = 3 * time.Minute }, 5, 0, 2, 3},
		{"all by time", func(c *Config) { c.RetentionTime = time.Minute }, 5, time.Hour, 5, 1},
		{"time, high watermark below", func(c *Config) { c.RetentionTime = time.Minute }, 2, time.Hour, 2, 3},
		{"bytes", func(c *Config) { c.RetentionBytes = 3*size + 1 }, 5, 0, 1, 4},
		{"bytes, exactly", func(c *Config) { c.RetentionBytes = 3 * size }, 5, 0, 2, 3},
		{"all by bytes", func(c *Config) { c.RetentionBytes = 0 }, 5, 0, 5, 1},
		{"compacted", func(c *Config) { c.Delete, c.Compact, c.RetentionTime = false, true, time.Minute }, 5, time.Hour, 0, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, c := segmented(t, 5, tt.change)
			l.SetHighWatermark(tt.hw)
			c.now = c.now.Add(tt.wait)
			if _, err := l.Retain(); err != nil {
				t.Fatal(err)
			}
			if got := len(*l.segments.Load()); l.LogStartOffset() != tt.start || got != tt.count {
				t.Errorf("start %d, %d segments; want %d, %d", l.LogStartOffset(), got, tt.start, tt.count)
			}
			if l.LogEndOffset() != 5 {
				t.Errorf("end %d", l.LogEndOffset())
			}
			if info := mustProduce(t, l, batchOf(c.now.UnixMilli(), "v")); info.FirstOffset != 5 {
				t.Errorf("next append at %d", info.FirstOffset)
			}
		})
	}
}

// TestRetentionOfTheFuture: records with timestamps in the future are kept until their time has passed.
func TestRetentionOfTheFuture(t *testing.T) {
	l, c := newTestLog(t, func(cfg *Config) { cfg.SegmentBytes, cfg.RetentionTime = 100, time.Hour })
	mustProduce(t, l, batchOf(c.now.Add(100*time.Hour).UnixMilli(), "future"))
	mustProduce(t, l, batchOf(c.now.UnixMilli(), "now"))
	l.SetHighWatermark(2)
	c.now = c.now.Add(50 * time.Hour)
	if n, err := l.Retain(); n != 0 || err != nil {
		t.Errorf("%d segments dropped, %v", n, err)
	}
	c.now = c.now.Add(52 * time.Hour)
	if n, err := l.Retain(); n != 2 || err != nil {
		t.Errorf("%d segments dropped, %v", n, err)
	}
}

func TestAdvanceLogStart(t *testing.T) {
	l, _ := segmented(t, 5, func(*Config) {})
	l.SetHighWatermark(4)
	if err := l.AdvanceLogStart(5); codeOf(err) != kerr.OffsetOutOfRange.Code {
		t.Errorf("to above the high watermark: %v", err)
	}
	for _, to := range []int64{3, 1} { // the start only moves forward
		if err := l.AdvanceLogStart(to); err != nil || l.LogStartOffset() != 3 {
			t.Errorf("to %d: start %d, %v", to, l.LogStartOffset(), err)
		}
	}
	for offset, code := range map[int64]int16{-1: 1, 0: 1, 2: 1, 3: 0, 4: 0, 5: 0, 6: 1} {
		r, err := l.Read(offset, 1000, 5, true)
		if codeOf(err) != code {
			t.Errorf("read at %d: %v", offset, err)
		}
		r.Close()
	}
	if n, err := l.Retain(); n != 3 || err != nil {
		t.Errorf("%d segments dropped, %v", n, err)
	}
	if first, ok := l.epochs.first(); !ok || first.start != 3 {
		t.Errorf("first epoch starts at %d", first.start)
	}
}

// TestAdvanceLogStartWritesNothing: advancing the log start offset blocks appends and role changes, so it writes no
// files. Leader epochs below the start are dropped from their file by the next round of retention, by a clean stop, or
// by the next load.
func TestAdvanceLogStartWritesNothing(t *testing.T) {
	for _, end := range []string{"kill", "clean stop", "retention"} {
		t.Run(end, func(t *testing.T) {
			clock := newClock()
			fsys := vfs.NewMem(clock.Now)
			cfg := memConfig(fsys, clock)
			cfg.Default.SegmentBytes = 200
			m := mustOpen(t, cfg)
			l := mustCreate(t, m)
			for epoch := range int32(3) {
				for range 2 {
					if _, err := l.AppendLeader(batchOf(1_790_000_000_000, strings.Repeat("x", 100)).MustBuild(), LeaderAppend{LeaderEpoch: epoch, ProduceVersion: 9}); err != nil {
						t.Fatal(err)
					}
				}
			}
			l.SetHighWatermark(6)
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			fsys.SetFault(func(op, name string) error {
				t.Errorf("%s %s", op, name)
				return nil
			})
			if err := l.AdvanceLogStart(3); err != nil {
				t.Fatal(err)
			}
			fsys.SetFault(nil)
			if err := m.checkpointOffsets(m.disks[0]); err != nil {
				t.Fatal(err)
			}
			var err error
			switch end {
			case "kill":
				cfg.FS = fsys.Kill()
			case "clean stop":
				err = m.Close()
			case "retention":
				_, err = l.Retain()
			}
			if err != nil {
				t.Fatal(err)
			}
			if end != "retention" {
				m = mustOpen(t, cfg)
				l, _ = m.Log(testTP)
			}
			data, err := cfg.FS.ReadFile("/data/t-0/" + epochFile)
			if err != nil || string(data) != "0\n2\n1 3\n2 4\n" {
				t.Errorf("%q, %v", data, err)
			}
			if first, ok := l.epochs.first(); !ok || first != (epochEntry{1, 3}) {
				t.Errorf("the first epoch is %v", first)
			}
			_ = m.Close()
		})
	}
}

func TestRollByTime(t *testing.T) {
	bases := func(l *Log) []int64 {
		var bases []int64
		for _, s := range *l.segments.Load() {
			bases = append(bases, s.base)
		}
		return bases
	}
	t.Run("record time", func(t *testing.T) {
		l, c := newTestLog(t, func(cfg *Config) { cfg.SegmentAge = time.Hour })
		ts := c.now.UnixMilli()
		for _, at := range []int64{ts, ts + 3_600_000, ts + 3_600_001} {
			mustProduce(t, l, batchOf(at, "v"))
		}
		if got := bases(l); len(got) != 2 || got[1] != 2 {
			t.Errorf("segment base offsets %v", got)
		}
	})
	t.Run("clock without timestamps", func(t *testing.T) {
		l, c := newTestLog(t, func(cfg *Config) { cfg.SegmentAge = time.Hour })
		w := func() *record.Builder {
			w := record.NewBuilder()
			w.Add(record.NoTimestamp, nil, []byte("v"))
			return w
		}
		mustProduce(t, l, w())
		c.now = c.now.Add(time.Hour)
		mustProduce(t, l, w())
		c.now = c.now.Add(time.Millisecond)
		mustProduce(t, l, w())
		if got := bases(l); len(got) != 2 || got[1] != 2 {
			t.Errorf("segment base offsets %v", got)
		}
	})
	t.Run("offset too far from the base", func(t *testing.T) {
		l, _ := newTestLog(t, nil)
		for _, offset := range []int64{0, 1<<31 - 1, 1 << 31} {
			w := batchOf(1000, "v")
			w.BaseOffset = offset
			if _, err := l.AppendFollower(w.MustBuild()); err != nil {
				t.Fatal(err)
			}
		}
		if got := bases(l); len(got) != 2 || got[1] != 1<<31 {
			t.Errorf("segment base offsets %v", got)
		}
	})
	t.Run("index full", func(t *testing.T) {
		l, _ := newTestLog(t, func(cfg *Config) { cfg.IndexIntervalBytes, cfg.IndexSizeMax = 0, 32 })
		for range 10 {
			mustProduce(t, l, batchOf(1000, "v"))
		}
		if got := bases(l); len(got) < 2 {
			t.Errorf("segment base offsets %v", got)
		}
	})
}

func TestFlushByMessages(t *testing.T) {
	l, _ := newTestLog(t, func(cfg *Config) { cfg.FlushMessages = 3 })
	for i, want := range []int64{0, 0, 3, 3} {
		mustProduce(t, l, batchOf(1000, "v"))
		if got := l.RecoveryPoint(); got != want {
			t.Errorf("after %d records the recovery point is %d, want %d", i+1, got, want)
		}
	}
}

// TestFlushDueWhenTheClockIsSet: flush.ms counts time that passes, whatever the wall clock is set to.
func TestFlushDueWhenTheClockIsSet(t *testing.T) {
	began := time.Now()
	l, c := newTestLog(t, func(cfg *Config) { cfg.FlushInterval = time.Second })
	c.now = began
	mustProduce(t, l, batchOf(1000, "v"))
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	mustProduce(t, l, batchOf(1000, "v"))
	for _, by := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		if l.flushDue(clockSet(t, began, by)) {
			t.Errorf("set by %v: due at once", by)
		}
		if !l.flushDue(clockSet(t, began.Add(time.Second), by)) {
			t.Errorf("set by %v: not due", by)
		}
	}
}

func TestFlushDue(t *testing.T) {
	l, c := newTestLog(t, func(cfg *Config) { cfg.FlushInterval = time.Second })
	if l.flushDue(c.now.Add(time.Hour)) {
		t.Error("due without records")
	}
	mustProduce(t, l, batchOf(1000, "v"))
	if l.flushDue(c.now) || !l.flushDue(c.now.Add(time.Second)) {
		t.Error("not due when it should be")
	}
	if err := l.Flush(); err != nil || l.flushDue(c.now.Add(time.Hour)) {
		t.Errorf("due after a flush (%v)", err)
	}
}
