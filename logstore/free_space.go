package logstore

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"barnabas/internal/vfs"

	"github.com/twmb/franz-go/pkg/kerr"
)

// freeSpace watches the free space of a log directory. Below a limit clients' records are rejected, so that the rest is
// left to checkpoints, replication and compaction; fetching and retention go on, and when there is room again so does
// producing. It asks the file system after a number of bytes was written, or after records were rejected for a while;
// and, for ManagerConfig.OnSpaceFreed, as long as there is no room.
type freeSpace struct {
	min     int64        // bytes that must be free; 0: no limit, only a full disk counts
	written atomic.Int64 // bytes written since the file system was last asked
	low     atomic.Bool
	asked   atomic.Pointer[time.Time] // if low
}

const (
	askAfterBytes = 4 << 20
	askAgainAfter = time.Second
)

// noSpace reports whether an error says that the disk is full.
func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// errNoSpace rejects records for which a directory has no room.
var errNoSpace = fmt.Errorf("log directory is full: %w", kerr.KafkaStorageError)

// admit returns an error if clients' records are rejected at the moment.
func (d *disk) admit(fsys vfs.FS) error {
	r := &d.space
	if !r.low.Load() {
		return nil
	}
	now := d.now()
	if asked := r.asked.Load(); now.Sub(*asked) >= askAgainAfter && r.asked.CompareAndSwap(asked, &now) {
		d.measure(fsys)
	}
	if !r.low.Load() {
		return nil
	}
	return fmt.Errorf("%s: %w", d.path, errNoSpace)
}

// wrote counts n bytes, and from time to time checks how much space is left.
func (d *disk) wrote(fsys vfs.FS, n int) {
	if d.space.written.Add(int64(n)) >= askAfterBytes {
		d.space.written.Store(0)
		d.measure(fsys)
	}
}

// measure asks the file system. If that fails, nothing changes. Ending the rejection requires a little more space than
// beginning it, so that it does not alternate.
func (d *disk) measure(fsys vfs.FS) {
	_, usable, err := fsys.Usage(d.path)
	if err != nil {
		return
	}
	limit := d.space.min
	if d.space.low.Load() {
		limit += askAfterBytes
	}
	d.setLow(usable <= limit)
}

// filled records that a write has failed because the disk is full.
func (d *disk) filled() { d.setLow(true) }

func (d *disk) setLow(low bool) {
	if low {
		d.space.asked.Store(new(d.now()))
	}
	if d.space.low.Swap(low) != low && d.reportSpace != nil {
		d.reportSpace(d, low)
	}
}
