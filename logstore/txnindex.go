package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"barnabas/internal/vfs"
)

// AbortedTxn is an aborted transaction in the form in which consumers need it to skip its records.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
	LastOffset  int64 // of the marker
	// LastStable is the last stable offset right after the marker.
	LastStable int64
}

const txnEntrySize = 34

// txnIndex is the file of the aborted transactions whose marker is in a segment: int16 version 0, int64 producer id,
// int64 first offset, int64 last offset, int64 last stable offset. It exists only if there are any.
type txnIndex struct {
	fs vfs.FS

	mu struct {
		sync.Mutex // leaf
		path       string
		loaded     bool // entries begins with those in the file; otherwise it has only those added since
		entries    []AbortedTxn
		written    int  // number of entries that are in the file
		torn       bool // the file ended with an incomplete entry when it was loaded
		excess     bool // the file may have more than written: what was removed could not be cut off
		dirty      bool // changed since the last sync
	}
}

func newTxnIndex(fsys vfs.FS, path string) *txnIndex {
	x := &txnIndex{fs: fsys}
	x.mu.path = path
	return x
}

func (x *txnIndex) loadLocked() error {
	if x.mu.loaded {
		return nil
	}
	data, err := x.fs.ReadFile(x.mu.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries := make([]AbortedTxn, 0, len(data)/txnEntrySize+len(x.mu.entries))
	for ; len(data) >= txnEntrySize; data = data[txnEntrySize:] {
		if v := binary.BigEndian.Uint16(data); v != 0 {
			return fmt.Errorf("%s: unknown version %d", x.mu.path, v)
		}
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(data[2+8*i:])) }
		entries = append(entries, AbortedTxn{at(0), at(1), at(2), at(3)})
	}
	x.mu.loaded, x.mu.written, x.mu.torn = true, len(entries), len(data) > 0
	x.mu.entries = append(entries, x.mu.entries...)
	return nil
}

// add adds an entry and writes it. If it cannot be written, it is still returned to readers as soon as the file can be
// read, and write tries again.
func (x *txnIndex) add(a AbortedTxn) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.entries = append(x.mu.entries, a)
	return x.writeLocked()
}

// write makes the file contain all entries.
func (x *txnIndex) write() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.writeLocked()
}

func (x *txnIndex) writeLocked() error {
	if x.mu.excess {
		if err := x.cutLocked(); err != nil {
			return err
		}
	}
	if len(x.mu.entries) == x.mu.written {
		return nil
	}
	if err := x.loadLocked(); err != nil {
		return err
	}
	missing := x.mu.entries[x.mu.written:]
	data := make([]byte, 0, len(missing)*txnEntrySize)
	for _, a := range missing {
		data = binary.BigEndian.AppendUint16(data, 0)
		for _, v := range []int64{a.ProducerID, a.FirstOffset, a.LastOffset, a.LastStable} {
			data = binary.BigEndian.AppendUint64(data, uint64(v))
		}
	}
	f, err := x.fs.OpenFile(x.mu.path, vfs.ReadWrite|vfs.Create)
	if err != nil {
		return err
	}
	x.mu.dirty = true
	if _, err := f.WriteAt(data, int64(x.mu.written)*txnEntrySize); err != nil {
		_ = f.Close()
		return err
	}
	x.mu.written = len(x.mu.entries)
	return f.Close()
}

// all returns the entries, oldest first. They must not be modified.
func (x *txnIndex) all() ([]AbortedTxn, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.loadLocked(); err != nil {
		return nil, err
	}
	return x.mu.entries[:len(x.mu.entries):len(x.mu.entries)], nil
}

// check reports an entry that is incomplete or cannot belong to a segment with the base.
func (x *txnIndex) check(base int64) error {
	entries, err := x.all()
	if err != nil {
		return err
	}
	x.mu.Lock()
	torn := x.mu.torn
	x.mu.Unlock()
	if torn {
		return errors.New("the transaction index ends with an incomplete entry")
	}
	for _, e := range entries {
		if e.LastOffset < base {
			return fmt.Errorf("aborted transaction ends at %d, below the segment's base %d", e.LastOffset, base)
		}
	}
	return nil
}

// truncateFrom removes the transactions whose marker is at offset or above.
func (x *txnIndex) truncateFrom(offset int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.loadLocked(); err != nil {
		return err
	}
	n := 0
	for n < len(x.mu.entries) && x.mu.entries[n].LastOffset < offset {
		n++
	}
	if n == len(x.mu.entries) && !x.mu.excess {
		return nil
	}
	x.mu.entries = x.mu.entries[:n:n]
	return x.cutLocked()
}

// reset removes everything, whatever the file contains.
func (x *txnIndex) reset() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.entries, x.mu.loaded = nil, true
	return x.cutLocked()
}

func (x *txnIndex) cutLocked() error {
	x.mu.dirty, x.mu.excess = true, true
	x.mu.written = min(x.mu.written, len(x.mu.entries))
	f, err := x.fs.OpenFile(x.mu.path, vfs.ReadWrite)
	if errors.Is(err, fs.ErrNotExist) {
		x.mu.excess = false
		return nil
	}
	if err != nil {
		return err
	}
	if err := f.Truncate(int64(x.mu.written) * txnEntrySize); err != nil {
		_ = f.Close()
		return err
	}
	x.mu.excess = false
	return f.Close()
}

// sync makes the content of the file durable.
func (x *txnIndex) sync() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.mu.dirty {
		return nil
	}
	err := syncFile(x.fs, x.mu.path)
	x.mu.dirty = err != nil
	return err
}

func (x *txnIndex) relocate(path string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.path = path
	if len(x.mu.entries) == 0 && !x.mu.excess {
		x.mu.loaded = false // there seemed to be no file, perhaps because it was just being renamed
	}
}
