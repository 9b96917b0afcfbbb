package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/vfs"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// cleanerRig is a running Manager with some compacted logs.
type cleanerRig struct {
	t    *testing.T
	fs   *vfs.Mem
	m    *Manager
	logs []*Log
}

// newCleanerRig must be called in a synctest bubble.
func newCleanerRig(t *testing.T, logs int, change func(*ManagerConfig)) *cleanerRig {
	t.Helper()
	r := &cleanerRig{t: t, fs: vfs.NewMem(time.Now)}
	cfg := memConfig(r.fs, nil)
	cfg.Now = time.Now
	cfg.Default.Compact, cfg.Default.Delete, cfg.Default.FileDeleteDelay = true, false, 0
	if change != nil {
		change(&cfg)
	}
	r.m = mustOpen(t, cfg)
	for i := range logs {
		l, err := r.m.GetOrCreate(TopicPartition{"t", int32(i)}, [16]byte{7}, cfg.Default, true)
		if err != nil {
			t.Fatal(err)
		}
		r.logs = append(r.logs, l)
	}
	r.m.Start()
	synctest.Wait() // the first check of the cleaner is over
	return r
}

// fill gives a log a closed segment with n records of the same key.
func (r *cleanerRig) fill(l *Log, n int) {
	r.t.Helper()
	for i := range n {
		if _, err := produce(l, batchOf(time.Now().UnixMilli(), fmt.Sprint("value ", i)).MustBuild()); err != nil {
			r.t.Fatal(err)
		}
	}
	l.SetHighWatermark(l.LogEndOffset())
	if err := l.Roll(); err != nil {
		r.t.Fatal(err)
	}
}

// compacted reports whether only the last record of a log is left.
func (r *cleanerRig) compacted(l *Log) bool {
	r.t.Helper()
	synctest.Wait()
	return len(readAll(r.t, l, l.LogEndOffset())) == 1
}

func (r *cleanerRig) close() {
	r.t.Helper()
	if err := r.m.Close(); err != nil {
		r.t.Error(err)
	}
	for _, l := range r.logs {
		entries, _ := r.fs.ReadDir("/data/" + l.tp.String())
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), cleanedSuffix) || strings.HasSuffix(e.Name(), swapSuffix) {
				r.t.Errorf("%v: %s was left behind", l.tp, e.Name())
			}
		}
	}
}

// TestCleanerHasItsOwnLogger: its level can be changed independently of the others.
func TestCleanerHasItsOwnLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, lines := logtest.NewNullLogger()
		r := newCleanerRig(t, 1, func(c *ManagerConfig) { c.CleanerLogger = logrus.NewEntry(own) })
		defer r.close()
		r.fill(r.logs[0], 3)
		time.Sleep(time.Minute)
		synctest.Wait()
		if last := lines.LastEntry(); last == nil || last.Message != "compacted log" || last.Data["topic"] != "t" {
			t.Errorf("its last line is %v", last)
		}
	})
}

func TestCleanerCompactsAfterTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCleanerRig(t, 20, nil)
		defer r.close()
		time.Sleep(time.Minute)
		if r.m.clean.waiting() {
			t.Error("the cleaner keeps examining logs without closed segments")
		}
		for _, l := range r.logs {
			r.fill(l, 3)
		}
		time.Sleep(14 * time.Second)
		if r.compacted(r.logs[0]) {
			t.Error("compacted before the backoff was over")
		}
		time.Sleep(2 * time.Second)
		for _, l := range r.logs {
			if !r.compacted(l) {
				t.Errorf("%v is not compacted", l.tp)
			}
		}
		time.Sleep(time.Minute)
		if r.m.clean.waiting() {
			t.Error("the cleaner keeps examining clean logs")
		}
		text, err := r.fs.ReadFile("/data/" + cleanerFile)
		if err != nil || !strings.HasPrefix(string(text), "0\n20\nt 0 3\nt 1 3\n") {
			t.Errorf("checkpoint %q, %v", text, err)
		}
	})
}

func TestCleanerIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCleanerRig(t, 1, func(c *ManagerConfig) { c.Cleaner.Enable = false })
		defer r.close()
		r.fill(r.logs[0], 3)
		time.Sleep(time.Hour)
		if r.compacted(r.logs[0]) {
			t.Error("compacted although log.cleaner.enable is false")
		}
	})
}

func TestCleanerHearsOfATopicThatIsCompactedNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCleanerRig(t, 1, func(c *ManagerConfig) { c.Default.Compact = false })
		defer r.close()
		r.fill(r.logs[0], 3)
		time.Sleep(time.Minute)
		cfg := r.logs[0].Config()
		cfg.Compact = true
		r.m.SetConfig("t", cfg)
		time.Sleep(16 * time.Second)
		if !r.compacted(r.logs[0]) {
			t.Error("not compacted")
		}
	})
}

// TestCleanerGoesOnWithoutABrokenLog: a damaged record is detected before it would be rewritten; its log stays in use
// as it is, and others are compacted. When the damaged part has been deleted, the log is compacted again.
func TestCleanerGoesOnWithoutABrokenLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCleanerRig(t, 2, func(c *ManagerConfig) { c.Default.SegmentBytes = 200 })
		defer r.close()
		broken := r.logs[0]
		for _, l := range r.logs {
			r.fill(l, 6)
		}
		f, err := r.fs.OpenFile("/data/t-0/"+fileName(0, logSuffix), vfs.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff}, 70); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second)
		if !r.compacted(r.logs[1]) {
			t.Error("the other log is not compacted")
		}
		if n := len(readAll(t, broken, 6)); n != 6 {
			t.Errorf("the broken log has %d batches, want all 6", n)
		}
		if len(r.m.OfflineDirs()) > 0 {
			t.Error("the directory is offline")
		}
		counts := r.m.CleanerCounts()
		if u := counts.Uncleanable["/data"]; u.Count != 1 || u.Bytes != broken.Size() {
			t.Errorf("uncleanable logs: %+v", u)
		}
		if counts.Compactions != 1 || counts.BytesRead <= counts.BytesWritten || counts.LastRun.IsZero() {
			t.Errorf("counts: %+v", counts)
		}
		if err := broken.AdvanceLogStart(4); err != nil {
			t.Fatal(err)
		}
		if _, err := broken.Retain(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second)
		if !r.compacted(broken) {
			t.Error("not compacted after the damaged part was deleted")
		}
		if u := r.m.CleanerCounts().Uncleanable["/data"]; u.Count != 0 {
			t.Errorf("uncleanable logs are still %+v", u)
		}
	})
}

func TestCleanerOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCleanerRig(t, 1, nil)
		defer r.close()
		r.fs.SetFault(func(op, name string) error {
			if op == "write" && strings.HasSuffix(name, cleanedSuffix) {
				return syscall.ENOSPC
			}
			return nil
		})
		r.fill(r.logs[0], 3)
		time.Sleep(16 * time.Second)
		if r.compacted(r.logs[0]) || len(r.m.OfflineDirs()) > 0 {
			t.Fatal("want the log as it was, and its directory online")
		}
		r.fs.SetFault(nil)
		time.Sleep(2 * time.Minute)
		if !r.compacted(r.logs[0]) {
			t.Error("not compacted when there is space again")
		}
	})
}

// TestCleanerWithTooManyOpenFiles: whichever file of a compaction cannot be opened for a second, the directory stays
// online and the log is compacted.
func TestCleanerWithTooManyOpenFiles(t *testing.T) {
	for n, reached := 1, true; reached; n++ {
		synctest.Test(t, func(t *testing.T) {
			r := newCleanerRig(t, 1, nil)
			defer r.close()
			r.fill(r.logs[0], 3)
			for _, s := range *r.logs[0].segments.Load() {
				r.logs[0].closeIdle(s)
			}
			calls, until := 0, time.Time{}
			r.fs.SetFault(func(op, name string) error {
				if op != "open" && op != "readfile" && op != "syncdir" { // each opens something
					return nil
				}
				if calls++; calls == n {
					until = time.Now().Add(time.Second)
				}
				if time.Now().Before(until) {
					return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
				}
				return nil
			})
			time.Sleep(10 * time.Minute)
			r.fs.SetFault(nil)
			reached = calls >= n
			if offline := r.m.OfflineDirs(); len(offline) > 0 || !r.compacted(r.logs[0]) {
				t.Errorf("call %d: offline %v, compacted %v", n, offline, r.compacted(r.logs[0]))
			}
		})
	}
}

func TestCleanerOnABrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCleanerRig(t, 1, nil)
		defer r.m.Close()
		r.fs.SetFault(func(op, name string) error {
			if op == "sync" && strings.HasSuffix(name, cleanedSuffix) {
				return errors.New("input/output error")
			}
			return nil
		})
		r.fill(r.logs[0], 3)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if len(r.m.OfflineDirs()) != 1 {
			t.Error("the directory is not offline")
		}
	})
}

// TestCompactionIsEnded: truncation and deletion do not wait for a compaction to complete, they abort it.
func TestCompactionIsEnded(t *testing.T) {
	for name, end := range map[string]func(r *cleanerRig) error{
		"truncation": func(r *cleanerRig) error { return r.logs[0].TruncateTo(5) },
		"deletion":   func(r *cleanerRig) error { return r.m.Delete(r.logs[0].tp) },
		"stop":       func(r *cleanerRig) error { return r.m.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newCleanerRig(t, 1, func(c *ManagerConfig) { c.Cleaner.MaxBytesPerSec = 1 })
				defer r.close()
				r.fill(r.logs[0], 100)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if len(r.m.clean.mu.running) != 1 {
					t.Fatal("no compaction is in progress")
				}
				began := time.Now()
				if err := end(r); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestRetentionLeavesALogAloneThatIsBeingCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCleanerRig(t, 1, func(c *ManagerConfig) { c.Cleaner.MaxBytesPerSec = 1 })
		defer r.close()
		l := r.logs[0]
		r.fill(l, 100)
		time.Sleep(20 * time.Second)
		if err := l.AdvanceLogStart(100); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Retain(); n != 0 || err != nil {
			t.Errorf("%d segments dropped, %v", n, err)
		}
		r.m.SetCleaner(defaultCleanerConfig())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n, err := l.Retain(); n != 1 || err != nil {
			t.Errorf("dropped %d segments, %v; want one", n, err)
		}
	})
}

// TestCleanerThrottle: reading and writing stay within log.cleaner.io.max.bytes.per.second.
func TestCleanerThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCleanerRig(t, 1, func(c *ManagerConfig) { c.Cleaner.MaxBytesPerSec = 1000 })
		defer r.close()
		r.fill(r.logs[0], 1000)
		size := r.logs[0].Size()
		time.Sleep(15*time.Second + time.Duration(2*size-2000)*time.Millisecond)
		if r.compacted(r.logs[0]) {
			t.Errorf("%d bytes were read before the throttle allows it", size)
		}
		time.Sleep(5 * time.Second)
		if !r.compacted(r.logs[0]) {
			t.Error("not compacted")
		}
	})
}

// TestMaxCompactionDelay: a metric for alerts says by how much the most overdue log exceeds
// max.compaction.lag.ms, as of the last check.
func TestMaxCompactionDelay(t *testing.T) {
	clock := newClock()
	cfg := memConfig(vfs.NewMem(clock.Now), clock)
	cfg.Default.Compact, cfg.Default.Delete = true, false
	cfg.Default.MaxCompactionLag = 10 * time.Second
	m := mustOpen(t, cfg)
	for i := range int32(2) {
		l, err := m.GetOrCreate(TopicPartition{"t", i}, [16]byte{7}, cfg.Default, true)
		if err != nil {
			t.Fatal(err)
		}
		mustProduce(t, l, batchOf(clock.now.UnixMilli(), "v"))
		l.SetHighWatermark(1)
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		clock.now = clock.now.Add(3 * time.Second)
	}
	for wait, want := range map[time.Duration]time.Duration{0: 0, 4 * time.Second: 0, 9 * time.Second: 5 * time.Second} {
		now := clock.now
		clock.now = now.Add(wait)
		m.clean.dirtiest(t.Context(), 1)
		if late := m.CleanerCounts().MaxLate; late != want {
			t.Errorf("after %v: late for %v, want %v", wait, late, want)
		}
		clock.now = now
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
