package logstore

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"barnabas/internal/vfs"
)

// room watches the free space of a log directory. Below a mark clients' records are refused, so that what is left goes to
// checkpoints, replication and compaction; fetching and retention go on, and when there is room again so does producing. It
// asks the file system after so many bytes were written, or refused for so long; and for ManagerConfig.OnRoom, as long as there is none.
type room struct {
	min     int64        // bytes that must be free; 0: no mark, only a disk that is full counts
	written atomic.Int64 // bytes since the file system was last asked
	low     atomic.Bool
	asked   atomic.Int64 // ms, when low
}

const (
	askAfterBytes = 4 << 20
	askAgainAfter = time.Second
)

// noSpace tells whether an error says that the disk is full.
func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// errNoRoom is for records that a directory has no room for.
var errNoRoom = fmt.Errorf("log directory is full: %w", kerr.KafkaStorageError)

// admit is an error when clients' records are refused for now.
func (d *disk) admit(fsys vfs.FS) error {
	r := &d.room
	if !r.low.Load() {
		return nil
	}
	now := d.now()
	if asked := r.asked.Load(); now.UnixMilli()-asked >= askAgainAfter.Milliseconds() && r.asked.CompareAndSwap(asked, now.UnixMilli()) {
		d.measure(fsys)
	}
	if !r.low.Load() {
		return nil
	}
	return fmt.Errorf("%s: %w", d.path, errNoRoom)
}

// wrote counts n bytes, and looks how much is left now and then.
func (d *disk) wrote(fsys vfs.FS, n int) {
	if d.room.written.Add(int64(n)) >= askAfterBytes {
		d.room.written.Store(0)
		d.measure(fsys)
	}
}

// measure asks the file system. One that can't be asked changes nothing. To end the refusal takes a little more room than to
// begin it, so that it does not come and go.
func (d *disk) measure(fsys vfs.FS) {
	_, usable, err := fsys.Usage(d.path)
	if err != nil {
		return
	}
	limit := d.room.min
	if d.room.low.Load() {
		limit += askAfterBytes
	}
	d.setLow(usable <= limit, usable)
}

// filled notes that a write has failed since the disk is full.
func (d *disk) filled() { d.setLow(true, 0) }

func (d *disk) setLow(low bool, usable int64) {
	if low {
		d.room.asked.Store(d.now().UnixMilli())
	}
	if d.room.low.Swap(low) != low && d.reportRoom != nil {
		d.reportRoom(d, low, usable)
	}
}
