package logstore

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"barnabas/internal/vfs"
)

// reserving is a log in memory with large segments.
type reserving struct {
	t       *testing.T
	c       *clock
	fs      *vfs.Mem
	m       *Manager
	l       *Log
	padding padding
	flush   int64 // flush.messages; 0: never

	preallocate bool
}

func newReserving(t *testing.T) *reserving {
	x := &reserving{t: t, c: newClock()}
	x.fs = vfs.NewMem(x.c.Now)
	x.open()
	return x
}

// reopen starts again after a kill, and returns what is logged.
func (x *reserving) reopen() *logLines {
	x.t.Helper()
	x.fs = x.fs.Kill()
	return x.open()
}

func (x *reserving) open() *logLines {
	x.t.Helper()
	lines := x.start()
	var err error
	if x.l, err = x.m.GetOrCreate(testTP, [16]byte{7}, x.m.cfg.Default, true); err != nil {
		x.t.Fatal(err)
	}
	return lines
}

// start opens the manager alone.
func (x *reserving) start() *logLines {
	x.t.Helper()
	cfg := memConfig(x.fs, x.c)
	cfg.Default.SegmentBytes, cfg.Default.IndexSizeMax = 32<<20, 1<<20
	cfg.padding = &x.padding
	cfg.Default.Preallocate = x.preallocate
	if x.flush > 0 {
		cfg.Default.FlushMessages = x.flush
	}
	var lines *logLines
	cfg.Logger, lines = newLogLines()
	x.m = mustOpen(x.t, cfg)
	x.t.Cleanup(func() { _ = x.m.Close() })
	return lines
}

func (x *reserving) append(batches int) {
	x.t.Helper()
	value := strings.Repeat("v", 16<<10)
	for range batches {
		if _, err := x.l.AppendLeader(batchOf(1, value).MustBuild(), LeaderAppend{}); err != nil {
			x.t.Fatal(err)
		}
	}
}

// reserved returns the space reserved for the segment with a base offset.
func (x *reserving) reserved(base int64) int64 {
	return x.fs.Reserved(filepath.Join("/data", testTP.String(), fileName(base, logSuffix)))
}

// A segment reserves at most a quarter of its size and 4 MiB, and gives it back.
func TestReserve(t *testing.T) {
	x := newReserving(t)
	x.append(15)
	if n := x.reserved(0); n != 0 {
		t.Errorf("%d bytes reserved for a small segment", n)
	}
	for range 1500 {
		x.append(1)
		if size, n := x.l.active().size.Load(), x.reserved(x.l.active().base); n > min(size/4, 4<<20) {
			t.Fatalf("%d bytes reserved for a segment of %d", n, size)
		}
	}
	if n := x.reserved(x.l.active().base); n == 0 {
		t.Error("nothing reserved for a large segment")
	}
	if err := x.l.TruncateTo(x.l.LogEndOffset() - 100); err != nil {
		t.Fatal(err)
	}
	if n := x.reserved(x.l.active().base); n != 0 {
		t.Errorf("%d bytes reserved after a truncation", n)
	}
	x.append(10)
	if n := x.reserved(x.l.active().base); n == 0 {
		t.Error("nothing reserved after a truncation")
	}
	x.nothingLeft(func() { x.must(x.l.Roll()) })
	x.append(100)
	x.nothingLeft(func() { x.must(x.m.Close()) })
}

// After a kill, recovery gives it back.
func TestReserveAfterKill(t *testing.T) {
	x := newReserving(t)
	x.append(100)
	if n := x.reserved(0); n == 0 {
		t.Error("nothing reserved for a large segment")
	}
	x.nothingLeft(func() { x.reopen() })
}

// nothingLeft checks that nothing is reserved for any segment after do.
func (x *reserving) nothingLeft(do func()) {
	x.t.Helper()
	do()
	for _, s := range *x.l.segments.Load() {
		if n := x.reserved(s.base); n != 0 {
			x.t.Errorf("%d bytes reserved for segment %d", n, s.base)
		}
	}
}

func (x *reserving) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// A file system that cannot reserve is not asked again for the same segment, and appends go on.
func TestReserveFails(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, syscall.EOPNOTSUPP, syscall.EIO} {
		x := newReserving(t)
		asked := 0
		x.fs.SetFault(func(op, _ string) error {
			if op != "reserve" {
				return nil
			}
			asked++
			return fault
		})
		x.append(100)
		if asked != 1 || x.l.LogEndOffset() != 100 {
			t.Errorf("%v: asked %d times, log end %d", fault, asked, x.l.LogEndOffset())
		}
	}
}
