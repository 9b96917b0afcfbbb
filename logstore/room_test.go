package logstore

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// roomRig is a log on a file system that can be full.
type roomRig struct {
	t   *testing.T
	c   *clock
	fs  *vfs.Mem
	cfg ManagerConfig
	m   *Manager
	l   *Log
}

func newRoomRig(t *testing.T, change func(*ManagerConfig)) *roomRig {
	t.Helper()
	c := newClock()
	r := &roomRig{t: t, c: c, fs: vfs.NewMem(c.Now)}
	r.cfg = memConfig(r.fs, c)
	r.cfg.Default.FileDeleteDelay = 0
	if change != nil {
		change(&r.cfg)
	}
	r.open()
	return r
}

func (r *roomRig) open() {
	r.t.Helper()
	r.cfg.FS = r.fs
	r.m = mustOpen(r.t, r.cfg)
	l, err := r.m.GetOrCreate(testTP, [16]byte{7}, r.cfg.Default, true)
	if err != nil {
		r.t.Fatal(err)
	}
	r.l = l
}

func (r *roomRig) offline() bool { return len(r.m.OfflineDirs()) > 0 }

// fullFrom has every call that needs room fail from the n-th on.
func (r *roomRig) fullFrom(n int) (calls *int) {
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

// TestLowWaterMark: with little room left clients' records are refused; everything else goes on, and so do they when there is room.
func TestLowWaterMark(t *testing.T) {
	logger, lines := newLogLines()
	r := newRoomRig(t, func(c *ManagerConfig) { c.MinFreeBytes, c.Logger = 10<<20, logger })
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
			t.Fatal("records are accepted without end")
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
		t.Errorf("a coordinator's record: %v", err)
	}
	r.fs.SetUsable(11 << 20)
	r.c.now = r.c.now.Add(2 * time.Second)
	if err := client(); err == nil {
		t.Error("accepted at once when the mark is passed; then it comes and goes")
	}
	r.fs.SetUsable(1 << 30)
	if err := client(); err == nil {
		t.Error("the file system was asked again at once")
	}
	r.c.now = r.c.now.Add(2 * time.Second)
	if err := client(); err != nil {
		t.Errorf("with room again: %v", err)
	}
	lines.want(t, "level=info", "log directory has room again", "dir=/data")
	if err := r.m.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullDiskAtEachWrite: whichever write is the first that finds no room, no acknowledged record is lost and nothing is
// read that was refused; when there is room the log goes on.
func TestFullDiskAtEachWrite(t *testing.T) {
	for n := 1; ; n++ {
		r := newRoomRig(t, func(c *ManagerConfig) {
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

// TestStartOnAFullDisk: after a kill a broker must come up on a full disk, serve what is there and make room.
func TestStartOnAFullDisk(t *testing.T) {
	r := newRoomRig(t, func(c *ManagerConfig) { c.Default.SegmentBytes, c.Default.IndexIntervalBytes = 400, 50 })
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
		t.Fatalf("retention drops %d segments, %v", n, err)
	}
	if r.l.Size() >= before || r.offline() {
		t.Errorf("%d bytes, before %d; offline %v", r.l.Size(), before, r.offline())
	}
	r.m.keep.checkpoint((*Manager).checkpointRecoveryPoints)
	if r.offline() {
		t.Error("offline because of a checkpoint")
	}
	r.fs.SetFault(nil)
	r.c.now = r.c.now.Add(5 * time.Second)
	if _, err := produce(r.l, sequenced(9, 0, 40, 1).MustBuild()); err != nil {
		t.Errorf("with room again: %v", err)
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
