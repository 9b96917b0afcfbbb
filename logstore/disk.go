package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// disk is one of log.dirs.
type disk struct {
	path   string
	failed atomic.Bool
	// report is called with the first failure. It must not block.
	report func(*disk, error)
	// reportSpace is called when the directory begins or ceases to reject records. It must not block.
	reportSpace func(d *disk, low bool)
	// reportFiles is called when a file could not be opened for lack of descriptors, once until there are some again. It
	// must not block.
	reportFiles func(*disk, error)
	now         func() time.Time
	space       freeSpace
	starved     atomic.Bool // of file descriptors
}

// usable returns an error after the disk has failed.
func (d *disk) usable() error {
	if d.failed.Load() {
		return fmt.Errorf("log directory %s is offline: %w", d.path, kerr.KafkaStorageError)
	}
	return nil
}

// fail takes the disk offline because of err, unless the disk is full or the process has too many open files: then
// nothing on the disk is wrong, and the operation counts as not begun. It returns err with the code for clients.
// Without an error it does nothing.
func (d *disk) fail(what string, err error) error {
	if tooManyFiles(err) && !errors.Is(err, kerr.KafkaStorageError) {
		if !d.starved.Swap(true) && d.reportFiles != nil {
			d.reportFiles(d, err)
		}
		return fmt.Errorf("%s in %s: %w: %w", what, d.path, kerr.KafkaStorageError, err)
	}
	if noSpace(err) && !errors.Is(err, kerr.KafkaStorageError) {
		d.filled()
		return fmt.Errorf("%s in %s: %w: %w", what, d.path, errNoSpace, err)
	}
	return d.failEvenIfFull(what, err)
}

// failEvenIfFull is fail for operations that must not be left unfinished, even if the disk is full.
func (d *disk) failEvenIfFull(what string, err error) error {
	if err == nil || errors.Is(err, kerr.KafkaStorageError) {
		return err
	}
	err = fmt.Errorf("%s in %s: %w: %w", what, d.path, kerr.KafkaStorageError, err)
	if !d.failed.Swap(true) {
		d.report(d, err)
	}
	return err
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
