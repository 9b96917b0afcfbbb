package logstore

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

// spaceRig is a log on a file system that can be full.
type spaceRig struct {
	t   *testing.T
	c   *clock
	fs  *vfs.Mem
	cfg ManagerConfig
	m   *Manager
	l   *Log
}

func newSpaceRig(t *testing.T, change func(*ManagerConfig)) *spaceRig {
	t.Helper()
	c := newClock()
	r := &spaceRig{t: t, c: c, fs: vfs.NewMem(c.Now)}
	r.cfg = memConfig(r.fs, c)
	r.cfg.Default.FileDeleteDelay = 0
	if change != nil {
		change(&r.cfg)
	}
	r.open()
	return r
}

func (r *spaceRig) open() {
	r.t.Helper()
	r.cfg.FS = r.fs
	r.m = mustOpen(r.t, r.cfg)
	r.l = mustCreate(r.t, r.m)
}

func (r *spaceRig) offline() bool { return len(r.m.OfflineDirs()) > 0 }

// fullFrom fails every call that needs space from the nth on.
func (r *spaceRig) fullFrom(n int) (calls *int) {
	calls = new(int)
	r.fs.SetFault(func(op, _ string) error {
		if op != "write" {
			return nil
		}
		if *calls++; *calls >= n {
			return syscall.ENOSPC
		}
		return nil
	})
	return calls
}

// TestFullDiskSaysWhatIsFree: a write that does not fit fails although there is some space left.
func TestFullDiskSaysWhatIsFree(t *testing.T) {
	logger, lines := newLogLines()
	r := newSpaceRig(t, func(c *ManagerConfig) { c.MinFreeBytes, c.Logger = 0, logger })
	r.fs.SetUsable(4321)
	r.fullFrom(1)
	if _, err := produce(r.l, batchOf(1, "v").MustBuild()); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("produce: %v, want KAFKA_STORAGE_ERROR", err)
	}
	lines.want(t, "level=error", "log directory has no room left", "size_bytes=4321")
}

// TestLowWaterMark: with little space left clients' records are refused, while everything else continues; they are
// accepted when there is space again.
func TestLowWaterMark(t *testing.T) {
	logger, lines := newLogLines()
	r := newSpaceRig(t, func(c *ManagerConfig) { c.MinFreeBytes, c.Logger = 10<<20, logger })
	big := payload(t, 1<<20-1000, record.None)
	client := func() error {
		_, err := produce(r.l, append([]byte(nil), big...))
		r.l.SetHighWatermark(r.l.LogEndOffset())
		return err
	}
	r.fs.SetUsable(9 << 20)
	accepted := 0
	for client() == nil {
		if accepted++; accepted > 10 {
			t.Fatal("records are accepted without limit")
		}
	}
	if err := client(); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("produce: %v, want KAFKA_STORAGE_ERROR", err)
	}
	lines.want(t, "level=error", "log directory has no room left, refusing records until there is some", "dir=/data", "size_bytes=")
	if r.offline() {
		t.Error("the directory is offline")
	}
	if n := len(readAll(t, r.l, r.l.LogEndOffset())); n != accepted {
		t.Errorf("%d batches can be read, want %d", n, accepted)
	}
	if _, err := r.l.AppendLeader(batchOf(1, "v").MustBuild(), LeaderAppend{Origin: Coordinator}); err != nil {
		t.Errorf("a coordinator's records: %v", err)
	}
	r.fs.SetUsable(11 << 20)
	r.c.now = r.c.now.Add(2 * time.Second)
	if err := client(); err == nil {
		t.Error("records are accepted as soon as free space reaches the limit, and would soon be refused again")
	}
	r.fs.SetUsable(1 << 30)
	if err := client(); err == nil {
		t.Error("the file system was asked again at once")
	}
	r.c.now = r.c.now.Add(2 * time.Second)
	if err := client(); err != nil {
		t.Errorf("with space again: %v", err)
	}
	lines.want(t, "level=info", "log directory has room again", "dir=/data")
	if err := r.m.Close(); err != nil {
		t.Error(err)
	}
}

// TestFreeSpaceIsNoticed: free space is noticed even if nobody writes.
func TestFreeSpaceIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan string, 10)
		r := newSpaceRig(t, func(c *ManagerConfig) { c.OnSpaceFreed, c.Now = func(dir string) { heard <- dir }, time.Now })
		r.m.Start()
		r.fullFrom(1)
		r.fs.SetUsable(0)
		if _, err := produce(r.l, batchOf(1, "v").MustBuild()); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("produce: %v", err)
		}
		time.Sleep(10 * time.Second)
		if len(heard) > 0 {
			t.Errorf("notified of free space in %s", <-heard)
		}
		r.fs.SetFault(nil)
		r.fs.SetUsable(1 << 30)
		time.Sleep(10 * time.Second)
		if len(heard) != 1 || <-heard != "/data" {
			t.Error("not notified of free space exactly once")
		}
		if err := r.m.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFullDiskAtEachWrite: whichever write first fails for lack of space, no acknowledged record is lost and no refused
// one is read; when there is space again the log continues.
func TestFullDiskAtEachWrite(t *testing.T) {
	for n := 1; ; n++ {
		r := newSpaceRig(t, func(c *ManagerConfig) {
			c.Default.SegmentBytes, c.Default.IndexIntervalBytes = 400, 50
		})
		calls := r.fullFrom(n)
		var want []string
		appendSome := func(mayFail bool) {
			for i := range 20 {
				value := fmt.Sprint("value ", len(want), i)
				w := sequenced(9, 0, int32(len(want)), 0)
				w.Add(r.c.now.UnixMilli(), []byte("k"), []byte(value))
				_, err := r.l.AppendLeader(w.MustBuild(), LeaderAppend{LeaderEpoch: int32(len(want) / 7), ProduceVersion: 9})
				switch {
				case err == nil:
					want = append(want, value)
				case !mayFail, !errors.Is(err, kerr.KafkaStorageError):
					t.Fatalf("write %d: append: %v", n, err)
				}
				if r.offline() {
					t.Fatalf("write %d: the directory is offline", n)
				}
			}
		}
		check := func(when string) {
			t.Helper()
			var got []string
			for _, b := range readAll(t, r.l, r.l.LogEndOffset()) {
				if err := b.Records(func(rec *record.Record) error { got = append(got, string(rec.Value)); return nil }); err != nil || !b.Valid() {
					t.Fatalf("write %d, %s: %v", n, when, err)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("write %d, %s:\n%v, want\n%v", n, when, got, want)
			}
		}
		appendSome(true)
		check("while it is full")
		reached := *calls >= n
		r.fs.SetFault(nil)
		r.c.now = r.c.now.Add(5 * time.Second)
		appendSome(false)
		check("with room again")
		if n%2 == 0 {
			r.fs = r.fs.Kill()
		} else if err := r.m.Close(); err != nil {
			t.Fatal(err)
		}
		r.open()
		check("after a restart")
		if err := r.m.Close(); err != nil {
			t.Fatal(err)
		}
		if !reached {
			t.Logf("%d writes", n-1)
			return
		}
	}
}

// TestStartOnAFullDisk: after a kill a broker must be able to start on a full disk, serve what is there and free space.
func TestStartOnAFullDisk(t *testing.T) {
	r := newSpaceRig(t, func(c *ManagerConfig) { c.Default.SegmentBytes, c.Default.IndexIntervalBytes = 400, 50 })
	for i := range 40 {
		w := sequenced(9, 0, int32(i), 1)
		if _, err := r.l.AppendLeader(w.MustBuild(), LeaderAppend{LeaderEpoch: int32(i / 9), ProduceVersion: 9}); err != nil {
			t.Fatal(err)
		}
	}
	r.fs = r.fs.Kill()
	r.fullFrom(1)
	r.open()
	if r.offline() {
		t.Fatal("the directory is offline")
	}
	r.l.SetHighWatermark(r.l.LogEndOffset())
	if n := len(readAll(t, r.l, 40)); n != 40 {
		t.Fatalf("%d batches can be read, want 40", n)
	}
	before := r.l.Size()
	if err := r.l.AdvanceLogStart(35); err != nil {
		t.Fatal(err)
	}
	if n, err := r.l.Retain(); n == 0 || err != nil {
		t.Fatalf("retention dropped %d segments, %v", n, err)
	}
	if r.l.Size() >= before || r.offline() {
		t.Errorf("%d bytes, before %d; offline %v", r.l.Size(), before, r.offline())
	}
	r.m.scheduler.checkpoint((*Manager).checkpointRecoveryPoints)
	if r.offline() {
		t.Error("offline because of a checkpoint")
	}
	r.fs.SetFault(nil)
	r.c.now = r.c.now.Add(5 * time.Second)
	if _, err := produce(r.l, sequenced(9, 0, 40, 1).MustBuild()); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}
	r.open()
	if r.l.LogStartOffset() != 35 || r.l.LogEndOffset() != 41 {
		t.Errorf("after a restart: %d to %d", r.l.LogStartOffset(), r.l.LogEndOffset())
	}
	_ = r.m.Close()
}

// TestFullDiskAtEachAbort: whichever write fails for lack of space while transactions are aborted, or whichever file
// cannot be opened, the directory stays online, and consumers are told of every transaction whose marker was accepted:
// at once, with space again, and after any kind of restart.
func TestFullDiskAtEachAbort(t *testing.T) {
	for _, fault := range []struct {
		op  string
		err error
	}{{"write", syscall.ENOSPC}, {"open", syscall.EMFILE}} {
		for n, reached := 1, true; reached; n++ {
			for _, restart := range []string{"killed while full", "stopped while full", "killed with room", "stopped with room"} {
				t.Run(fmt.Sprint(fault.op, n, restart), func(t *testing.T) { reached = abortAmidFault(t, fault.op, n, fault.err, restart) })
			}
		}
	}
}

// abortAmidFault reports whether there was an nth call of op.
func abortAmidFault(t *testing.T, op string, n int, fault error, restart string) (reached bool) {
	r := newSpaceRig(t, func(c *ManagerConfig) { c.Default.SegmentBytes = 600 })
	calls := 0
	r.fs.SetFault(func(called, _ string) error {
		if called != op && (called != "readfile" || op != "open") { // reading a whole file opens it
			return nil
		}
		if calls++; calls >= n {
			return fault
		}
		return nil
	})
	var want []AbortedTxn
	seq := int32(0)
	abort := func(mayFail bool) {
		for range 5 {
			info, err := r.l.AppendLeader(inTransaction(9, 0, seq), LeaderAppend{LeaderEpoch: 1, ProduceVersion: 9})
			if err == nil {
				seq++
				var marker AppendInfo
				marker, err = r.l.AppendLeader(endMarker(9, 0, false), LeaderAppend{LeaderEpoch: 1, Origin: Coordinator})
				if err != nil { // the coordinator repeats it until it is accepted
					r.fs.SetFault(nil)
					marker, err = r.l.AppendLeader(endMarker(9, 0, false), LeaderAppend{LeaderEpoch: 1, Origin: Coordinator})
				}
				want = append(want, AbortedTxn{9, info.FirstOffset, marker.FirstOffset, marker.FirstOffset + 1})
			}
			if err != nil && (!mayFail || !errors.Is(err, kerr.KafkaStorageError)) {
				t.Fatal(err)
			}
			if r.offline() {
				t.Fatal("the directory is offline")
			}
		}
	}
	check := func(when string) {
		t.Helper()
		got, err := r.l.AbortedTransactions(0, r.l.LogEndOffset())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%s: %v %s", when, err, diff)
		}
	}
	abort(true)
	if _, err := r.l.AbortedTransactions(0, r.l.LogEndOffset()); !errors.Is(err, kerr.KafkaStorageError) { // the consumer retries
		check("in the middle")
	}
	if err := r.l.Flush(); err != nil && !errors.Is(err, kerr.KafkaStorageError) || r.offline() {
		t.Fatalf("flush: %v", err)
	}
	r.m.scheduler.checkpoint((*Manager).checkpointRecoveryPoints)
	if strings.HasSuffix(restart, "with room") {
		r.fs.SetFault(nil)
		r.c.now = r.c.now.Add(5 * time.Second)
		abort(false)
		check("with room again")
	}
	if strings.HasPrefix(restart, "killed") {
		r.fs.SetFault(nil)
		r.fs = r.fs.Kill()
	} else {
		_ = r.m.Close() // the next start finds out what it could not write
		r.fs.SetFault(nil)
	}
	r.open()
	check("after the restart")
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}
	return calls >= n
}

// TestFullDiskAtEachCreation: a log for which one directory has no space, whichever write notices it, is created in
// another, and exists only there after the next start, too.
func TestFullDiskAtEachCreation(t *testing.T) {
	for n, reached := 1, true; reached; n++ {
		c := newClock()
		fsys := vfs.NewMem(c.Now)
		cfg := memConfig(fsys, c)
		cfg.Dirs = []string{"/data/a", "/data/b"}
		m := mustOpen(t, cfg)
		calls := 0
		fsys.SetFault(func(op, name string) error {
			if !strings.HasPrefix(name, "/data/a/"+testTP.String()) || op == "removeall" {
				return nil
			}
			if calls++; calls >= n {
				return syscall.ENOSPC
			}
			return nil
		})
		reached = false
		if l, err := m.GetOrCreate(testTP, [16]byte{7}, cfg.Default, true); err != nil {
			t.Fatalf("call %d: %v", n, err)
		} else if l.Dir() == "/data/b" {
			reached = true
		} else if n == 1 {
			t.Fatal("the first directory was not tried first")
		}
		fsys.SetFault(nil)
		if err := m.Close(); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		m = mustOpen(t, cfg)
		if _, err := m.GetOrCreate(testTP, [16]byte{7}, cfg.Default, false); err != nil || len(m.Logs()) != 1 {
			t.Errorf("call %d, after the next start: %d logs, %v", n, len(m.Logs()), err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
