package logstore

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// newPadded returns a log whose segments are padded from 1,000 bytes on, to blocks of 512.
func newPadded(t *testing.T) *reserving {
	x := &reserving{t: t, c: newClock()}
	x.fs = vfs.NewMem(x.c.Now)
	x.padding = padding{from: 1000, block: 512}
	x.open()
	return x
}

// content returns the bytes of a segment's file.
func (x *reserving) content(base int64) []byte {
	x.t.Helper()
	data, err := x.fs.ReadFile(filepath.Join("/data", testTP.String(), fileName(base, logSuffix)))
	x.must(err)
	return data
}

func (x *reserving) appendOf(size int) {
	x.t.Helper()
	_, err := x.l.AppendLeader(batchOf(1, strings.Repeat("v", size)).MustBuild(), LeaderAppend{})
	x.must(err)
}

// A segment's file ends at the end of a block, and for whoever reads it as after a crash.
func TestPadding(t *testing.T) {
	x := newPadded(t)
	for i := range 300 {
		x.appendOf(i)
		end := x.l.active().size.Load()
		data := x.content(0)
		if end < 1000 {
			if int64(len(data)) != end {
				t.Fatalf("the file of a segment of %d bytes has %d", end, len(data))
			}
			continue
		}
		if len(data)%512 != 0 || int64(len(data))-end > 512 || int64(len(data)) < end {
			t.Fatalf("the file of a segment of %d bytes has %d", end, len(data))
		}
		walk := record.Split(data)
		for walk.Next() {
		}
		if walk.Err() != nil || int64(walk.Position()) != end || !isPadding(data[end:]) {
			t.Fatalf("a reader of %d bytes finds the end at %d, %v", end, walk.Position(), walk.Err())
		}
	}
	x.unpadded(func() { x.must(x.l.Roll()) })
	x.appendOf(2000)
	x.unpadded(func() { x.must(x.m.Close()) })
}

// unpadded checks that no file has padding after do, and that cutting it off is no modification.
func (x *reserving) unpadded(do func()) {
	x.t.Helper()
	segments := *x.l.segments.Load()
	written := make([]int64, len(segments))
	for i, s := range segments {
		var err error
		written[i], err = s.modified()
		x.must(err)
	}
	x.c.now = x.c.now.Add(time.Minute)
	do()
	for i, s := range segments {
		size := s.size.Load()
		if data := x.content(s.base); int64(len(data)) != size {
			x.t.Errorf("the file of segment %d has %d bytes, its batches have %d", s.base, len(data), size)
		}
		if at, err := s.modified(); err != nil || at != written[i] {
			x.t.Errorf("segment %d was modified at %d, %v; want %d", s.base, at, err, written[i])
		}
	}
}

// After a kill nothing is lost, and nothing is said about padding, whatever of the last block is written.
func TestPaddingAfterKill(t *testing.T) {
	x := newPadded(t)
	for i := range 60 {
		x.appendOf(10 * (i % 40))
		size, end := x.l.Size(), x.l.LogEndOffset()
		lines := x.reopen()
		if x.l.Size() != size || x.l.LogEndOffset() != end {
			t.Fatalf("after a kill: %d bytes, end %d; before: %d, %d", x.l.Size(), x.l.LogEndOffset(), size, end)
		}
		if strings.Contains(lines.String(), "broken") {
			t.Fatalf("a log without damage: %s", lines)
		}
		x.unpadded(func() {})
	}
}

// A batch that a kill has cut short in a block is cut off, and said to be broken.
func TestTornBatchInPadding(t *testing.T) {
	x := newPadded(t)
	x.appendOf(1500)
	size := x.l.Size()
	f, err := x.fs.OpenFile(filepath.Join("/data", testTP.String(), fileName(0, logSuffix)), vfs.ReadWrite)
	x.must(err)
	_, err = f.WriteAt(batchOf(1, "torn").MustBuild()[:65], size)
	x.must(err)
	lines := x.reopen()
	lines.want(t, "cutting a broken tail")
	if x.l.Size() != size || x.l.LogEndOffset() != 1 {
		t.Errorf("%d bytes, end %d; want %d, 1", x.l.Size(), x.l.LogEndOffset(), size)
	}
}

// Padding that a power failure has brought back after a clean stop is cut off as well.
func TestPaddingAfterACleanStop(t *testing.T) {
	x := newPadded(t)
	x.appendOf(1500)
	size := x.l.Size()
	x.must(x.m.Close())
	f, err := x.fs.OpenFile(filepath.Join("/data", testTP.String(), fileName(0, logSuffix)), vfs.ReadWrite)
	x.must(err)
	_, err = f.WriteAt(paddingBytes[:400], size)
	x.must(err)
	lines := x.open()
	if strings.Contains(lines.String(), "broken") {
		t.Errorf("a log without damage: %s", lines)
	}
	x.unpadded(func() {})
	if x.l.Size() != size || x.l.LogEndOffset() != 1 {
		t.Errorf("%d bytes, end %d; want %d, 1", x.l.Size(), x.l.LogEndOffset(), size)
	}
}

// On a full disk that has room for the records alone, they are written without padding.
func TestPaddingOnAFullDisk(t *testing.T) {
	x := newPadded(t)
	x.appendOf(1000)
	before, free := x.content(0), 700
	x.fs.SetFault(func(op, name string) error {
		if op == "write" && strings.HasSuffix(name, logSuffix) && free < 1000 {
			free += 300 // the first write of an append fails
			return syscall.ENOSPC
		}
		return nil
	})
	x.appendOf(600)
	data := x.content(0)
	if size := x.l.active().size.Load(); int64(len(data)) != size || !bytes.HasPrefix(data, before[:1000]) {
		t.Errorf("the file has %d bytes, its batches have %d", len(data), size)
	}
}

// With flush.messages each block would be written many times.
func TestNoPaddingWithFlushes(t *testing.T) {
	x := &reserving{t: t, c: newClock(), flush: 1, padding: padding{from: 1000, block: 512}}
	x.fs = vfs.NewMem(x.c.Now)
	x.open()
	for range 10 {
		x.appendOf(700)
		if data := x.content(0); int64(len(data)) != x.l.active().size.Load() {
			t.Fatalf("the file has %d bytes, its batches have %d", len(data), x.l.active().size.Load())
		}
	}
}

// A preallocated file has no padding: it may be so long that the padding's batch would end in it.
func TestNoPaddingInPreallocatedFiles(t *testing.T) {
	x := &reserving{t: t, c: newClock(), preallocate: true, padding: padding{from: 1000, block: 512}}
	x.fs = vfs.NewMem(x.c.Now)
	x.open()
	for range 5 {
		x.appendOf(700)
		data, size := x.content(0), x.l.active().size.Load()
		if len(data) != 32<<20 || len(bytes.Trim(data[size:], "\x00")) > 0 {
			t.Fatalf("after %d bytes, the file of %d has something else", size, len(data))
		}
	}
}

// What a kill leaves behind the last batch of a preallocated file is no broken tail, unless something was written there.
func TestPreallocatedAfterKill(t *testing.T) {
	x := &reserving{t: t, c: newClock(), preallocate: true}
	x.fs = vfs.NewMem(x.c.Now)
	x.open()
	x.appendOf(100)
	size := x.l.active().size.Load()
	x.reopen().want(t, "level=info", "cutting preallocated space", "offset=1", fmt.Sprint("size_bytes=", 32<<20-size))
	x.appendOf(100) // which is not preallocated any more
	x.must(x.l.Roll())
	x.appendOf(100)
	f, err := x.fs.OpenFile(filepath.Join("/data", testTP.String(), fileName(2, logSuffix)), vfs.ReadWrite)
	x.must(err)
	_, err = f.WriteAt([]byte("torn"), x.l.active().size.Load()+20)
	x.must(err)
	x.reopen().want(t, "level=warning", "cutting a broken tail", "offset=3")
}

// A preallocated file is cut off at its last batch even if files are no longer preallocated.
func TestPreallocatedUntilNow(t *testing.T) {
	x := &reserving{t: t, c: newClock(), preallocate: true}
	x.fs = vfs.NewMem(x.c.Now)
	x.open()
	x.appendOf(100)
	cfg := x.l.Config()
	cfg.Preallocate = false
	x.m.SetConfig(testTP.Topic, cfg)
	x.unpadded(func() { x.must(x.l.Roll()) })
}

// Flushed records that are padding after a kill are damage, as if they were anything else.
func TestPaddingInPlaceOfFlushedRecords(t *testing.T) {
	x := newPadded(t)
	x.appendOf(1500)
	size := x.l.Size()
	x.appendOf(100)
	x.must(x.l.Flush())
	x.must(x.m.checkpointOffsets(x.m.disks[0]))
	f, err := x.fs.OpenFile(filepath.Join("/data", testTP.String(), fileName(0, logSuffix)), vfs.ReadWrite)
	x.must(err)
	_, err = f.WriteAt(paddingBytes[:int64(len(x.content(0)))-size], size)
	x.must(err)
	before := x.content(0)
	x.fs = x.fs.Kill()
	x.start().want(t, "is broken", "was flushed")
	if !bytes.Equal(x.content(0), before) {
		t.Error("the damage was cut off")
	}
}

// The files of another user can be written if its group may, but not get a modification time; some file systems have
// none to set.
func TestPaddingWithoutModificationTimes(t *testing.T) {
	for _, fault := range []error{syscall.EPERM, syscall.ENOSYS} {
		x := newPadded(t)
		x.fs.SetFault(func(op, name string) error {
			if op == "setmodtime" {
				return &fs.PathError{Op: op, Path: name, Err: fault}
			}
			return nil
		})
		x.appendOf(1500)
		x.must(x.l.Roll())
		x.appendOf(1500)
		x.must(x.m.Close())
		for _, base := range []int64{0, 1} {
			if walk := record.Split(x.content(base)); !walk.Next() || walk.Next() || walk.Err() != nil || walk.Position() != len(x.content(base)) {
				t.Errorf("%v, segment %d: %d of %d bytes are batches", fault, base, walk.Position(), len(x.content(base)))
			}
		}
	}
}

// A log is closed cleanly on a disk that is full of its own padding.
func TestStopOnADiskFullOfPadding(t *testing.T) {
	x := newPadded(t)
	x.appendOf(1500)
	full := true
	x.fs.SetFault(func(op, name string) error {
		if op == "truncate" && strings.HasSuffix(name, logSuffix) {
			full = false
		}
		if op == "write" && full && strings.Contains(name, testTP.String()) {
			return syscall.ENOSPC
		}
		return nil
	})
	x.unpadded(func() { x.must(x.m.Close()) })
}
