package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sort"
	"sync"
	"sync/atomic"

	"barnabas/internal/vfs"
)

const pageSize = 4096

// entryFile is a memory-mapped file of fixed-size entries: what the offset index and the time index have in common.
//
// Files are opened when they are first needed. As in Apache Kafka, those of the last segment are extended to their full
// size before the first entry is written, and truncated to what is used when the segment is closed. There is one
// appender and any number of readers: entries are written before they are counted, and readers look only at counted
// ones.
type entryFile struct {
	fs        vfs.FS
	entrySize int
	maxSize   int // in bytes, a multiple of entrySize; once loaded, at least what the file had then

	count   atomic.Int32 // number of entries, once loaded
	loaded  atomic.Bool  // count is valid; set with mu held
	dirty   atomic.Bool  // changed since the last sync
	scratch [16]byte     // the appender's, for an entry to be written

	mu struct {
		sync.RWMutex // held by readers while they look at the mapping
		path         string
		full         bool // the file has its full size, all of it mapped
		mapping      vfs.Mapping
	}
}

func newEntryFile(fsys vfs.FS, path string, entrySize int, maxSize int32) *entryFile {
	f := &entryFile{fs: fsys, entrySize: entrySize, maxSize: int(maxSize) / entrySize * entrySize}
	f.mu.path = path
	return f
}

// checkSize returns an error if the file of an index that is not being appended to is no sequence of whole entries.
func (f *entryFile) checkSize() (size int64, err error) {
	path := f.path()
	st, err := f.fs.Stat(path)
	if err != nil {
		return 0, err
	}
	if st.Size()%int64(f.entrySize) != 0 {
		return 0, fmt.Errorf("%s: %d bytes are no sequence of entries of %d", path, st.Size(), f.entrySize)
	}
	return st.Size(), nil
}

// preallocate creates the file, empty, with its full size.
func (f *entryFile) preallocate() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count.Store(0)
	f.loaded.Store(true)
	return f.resizeLocked(int64(f.maxSize))
}

func (f *entryFile) resizeLocked(size int64) error {
	f.dirty.Store(true)
	file, err := f.fs.OpenFile(f.mu.path, vfs.ReadWrite|vfs.Create)
	if err != nil {
		return err
	}
	if err := file.Truncate(size); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// load determines the number of entries. A missing file has none. One that was written with a larger maximum keeps them
// all: without its last entries a segment would seem to be older than it is.
func (f *entryFile) load() error {
	if f.loaded.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loadLocked()
}

func (f *entryFile) loadLocked() error {
	if f.loaded.Load() {
		return nil
	}
	st, err := f.fs.Stat(f.mu.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		n := min(st.Size(), math.MaxInt32) / int64(f.entrySize)
		f.count.Store(int32(n))
		f.maxSize = max(f.maxSize, int(n)*f.entrySize)
	}
	f.loaded.Store(true)
	return nil
}

// mapLocked maps the file: its full size for an appender, only the used part for readers.
func (f *entryFile) mapLocked(full bool) error {
	if f.mu.mapping != nil && (f.mu.full || !full) {
		return nil
	}
	if err := f.unmapLocked(); err != nil {
		return err
	}
	size := int(f.count.Load()) * f.entrySize
	if full {
		size = f.maxSize
	}
	if size == 0 {
		return nil
	}
	file, err := f.openLocked(full, int64(size))
	if err != nil {
		return err
	}
	defer file.Close()
	m, err := file.Map(size)
	if err != nil {
		return err
	}
	f.mu.mapping, f.mu.full = m, full
	return nil
}

// openLocked opens the file for mapping size bytes, all of which must exist: accessing missing ones would end the
// process.
func (f *entryFile) openLocked(full bool, size int64) (vfs.File, error) {
	flag := vfs.ReadWrite
	if full {
		flag |= vfs.Create
	}
	file, err := f.fs.OpenFile(f.mu.path, flag)
	if err != nil {
		return nil, err
	}
	if full {
		err = file.Truncate(size)
	} else if have, sizeErr := file.Size(); sizeErr != nil || have < size {
		err = fmt.Errorf("%s: %d bytes, expected %d: %w", f.mu.path, have, size, errors.Join(sizeErr, io.ErrUnexpectedEOF))
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func (f *entryFile) unmapLocked() error {
	m := f.mu.mapping
	f.mu.mapping, f.mu.full = nil, false
	if m == nil {
		return nil
	}
	return m.Unmap()
}

// isFull reports whether there is no room for another entry.
func (f *entryFile) isFull() bool { return int(f.count.Load())*f.entrySize >= f.maxSize }

// append adds an entry. There may be only one appender at a time.
func (f *entryFile) append(entry []byte) error {
	if err := f.load(); err != nil {
		return err
	}
	if f.isFull() {
		return fmt.Errorf("%s: index is full", f.path())
	}
	f.mu.RLock()
	ready := f.mu.full
	f.mu.RUnlock()
	if !ready {
		f.mu.Lock()
		err := f.mapLocked(true)
		f.mu.Unlock()
		if err != nil {
			return err
		}
	}
	at := int(f.count.Load()) * f.entrySize
	if err := f.write(at, entry); err != nil {
		return err
	}
	f.count.Add(1)
	f.dirty.Store(true)
	return nil
}

// write stores an entry through the mapping. The first one on a page is written to the file instead: if the disk is
// full this is an error, where a store to the mapping would be a fault that ends the process.
func (f *entryFile) write(at int, entry []byte) error {
	if last := at + len(entry) - 1; at == 0 || last/pageSize != (at-1)/pageSize {
		file, err := f.fs.OpenFile(f.path(), vfs.ReadWrite)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = file.WriteAt(entry, int64(at))
		return err
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	copy(f.mu.mapping.Bytes()[at:], entry)
	return nil
}

func (f *entryFile) path() string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mu.path
}

// view calls fn with the entries, which are valid until fn returns.
func (f *entryFile) view(fn func(entries []byte, n int)) error {
	f.mu.RLock()
	if !f.loaded.Load() || f.mu.mapping == nil && f.count.Load() > 0 {
		f.mu.RUnlock()
		if err := f.prepareView(); err != nil {
			return err
		}
		f.mu.RLock()
	}
	defer f.mu.RUnlock()
	n := int(f.count.Load())
	if n == 0 || f.mu.mapping == nil { // the latter: closed in between
		fn(nil, 0)
		return nil
	}
	fn(f.mu.mapping.Bytes(), n)
	return nil
}

func (f *entryFile) prepareView() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.loadLocked(); err != nil {
		return err
	}
	return f.mapLocked(false)
}

// truncate keeps the first n entries.
func (f *entryFile) truncate(n int) error {
	if err := f.load(); err != nil {
		return err
	}
	f.mu.Lock() // no reader looks at what will be overwritten
	defer f.mu.Unlock()
	if n < int(f.count.Load()) {
		f.count.Store(int32(n))
		f.dirty.Store(true)
	}
	return nil
}

// reset makes the index empty, whatever the file contains.
func (f *entryFile) reset() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count.Store(0)
	f.loaded.Store(true)
	if err := f.unmapLocked(); err != nil {
		return err
	}
	return f.resizeLocked(0)
}

// trim ends appending: it unmaps the file and truncates it to what is used. A file that was never touched is left
// alone.
func (f *entryFile) trim() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.loaded.Load() {
		return nil
	}
	if err := f.unmapLocked(); err != nil {
		return err
	}
	used := int64(f.count.Load()) * int64(f.entrySize)
	st, err := f.fs.Stat(f.mu.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.resizeLocked(used)
	}
	if err != nil || st.Size() == used {
		return err
	}
	return f.resizeLocked(used)
}

// sync makes the entries durable.
func (f *entryFile) sync() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if !f.dirty.Swap(false) {
		return nil
	}
	err := syncFile(f.fs, f.mu.path) // includes the mapping
	if err != nil {
		f.dirty.Store(true)
	}
	return err
}

// close unmaps the file without truncating it. Readers find it empty or map it again.
func (f *entryFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unmapLocked()
}

func (f *entryFile) relocate(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.path = path
}

// offsetIndex maps offsets to positions: int32 offset-base, int32 position.
type offsetIndex struct {
	*entryFile
	base int64
}

const offsetEntrySize = 8

func newOffsetIndex(fsys vfs.FS, path string, base int64, maxSize int32) offsetIndex {
	return offsetIndex{newEntryFile(fsys, path, offsetEntrySize, maxSize), base}
}

// add records that the append ending with offset begins at position.
func (x offsetIndex) add(offset int64, position int64) error {
	e := x.scratch[:offsetEntrySize]
	binary.BigEndian.PutUint32(e, uint32(offset-x.base))
	binary.BigEndian.PutUint32(e[4:], uint32(position))
	return x.append(e)
}

// lookup returns the position of the largest entry whose offset is at most the given one, or 0.
func (x offsetIndex) lookup(offset int64) (position int64, err error) {
	err = x.view(func(b []byte, n int) {
		i := sort.Search(n, func(i int) bool {
			return x.base+int64(binary.BigEndian.Uint32(b[i*offsetEntrySize:])) > offset
		})
		if i > 0 {
			position = int64(binary.BigEndian.Uint32(b[(i-1)*offsetEntrySize+4:]))
		}
	})
	return position, err
}

// beyond returns the offset in the first entry whose position is at least the given one; ok is false if there is none.
func (x offsetIndex) beyond(position int64) (offset int64, ok bool, err error) {
	err = x.view(func(b []byte, n int) {
		i := sort.Search(n, func(i int) bool { return int64(binary.BigEndian.Uint32(b[i*offsetEntrySize+4:])) >= position })
		if ok = i < n; ok {
			offset = x.base + int64(binary.BigEndian.Uint32(b[i*offsetEntrySize:]))
		}
	})
	return offset, ok, err
}

// lastPosition returns the position in the last entry, or 0.
func (x offsetIndex) lastPosition() (position int64, err error) {
	err = x.view(func(b []byte, n int) {
		if n > 0 {
			position = int64(binary.BigEndian.Uint32(b[(n-1)*offsetEntrySize+4:]))
		}
	})
	return position, err
}

// truncateFrom removes the entries of offset and above.
func (x offsetIndex) truncateFrom(offset int64) error {
	keep := 0
	err := x.view(func(b []byte, n int) {
		keep = sort.Search(n, func(i int) bool {
			return x.base+int64(binary.BigEndian.Uint32(b[i*offsetEntrySize:])) >= offset
		})
	})
	if err != nil {
		return err
	}
	return x.truncate(keep)
}
