package vfs

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is an in-memory file system that can crash and fail. Create it with NewMem.
//
// File content becomes durable with File.Sync, names with SyncDir, as POSIX promises and no more.
type Mem struct {
	mu struct {
		sync.Mutex
		live, durable map[string]*memNode // by clean path
		renamed       []memRename         // directories whose rename is not durable yet; durable already has them under the new name
		locked        map[string]bool
		fault         func(op, name string) error
		usable        int64
	}
	now func() time.Time
}

var _ FS = (*Mem)(nil)

// memNode is a file or a directory.
type memNode struct {
	dir      bool
	data     []byte
	durable  []byte
	reserved int64 // position up to which space is reserved
	changed  time.Time
}

type memRename struct{ from, to string }

// NewMem returns an empty file system. now provides the modification times of files.
func NewMem(now func() time.Time) *Mem {
	m := &Mem{now: now}
	m.mu.live, m.mu.durable, m.mu.locked = map[string]*memNode{}, map[string]*memNode{}, map[string]bool{}
	m.mu.usable = memSize
	return m
}

// SetFault installs a function that decides, before each operation that changes something or reads a file, whether it
// fails. op is the method's name in lower case. fn must not use the file system. With nil nothing fails.
func (m *Mem) SetFault(fn func(op, name string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.fault = fn
}

// Crash returns the file system as it might be found after a power failure. Without rng only what is durable is left.
// With rng, some of what was not synced may have reached the disk: names in a directory, part of the bytes that a file
// grew by, and of those that were overwritten. A rename has either happened or not, as with a journaling file system: a file never loses both names. m must
// not be used any more.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := NewMem(m.now)
	names := sortedKeys(m.mu.durable, m.mu.live)
	reached := map[*memNode]bool{} // its newest name is on the disk
	copies := map[*memNode]*memNode{}
	for _, name := range names {
		for _, n := range []*memNode{m.mu.durable[name], m.mu.live[name]} {
			if n != nil && copies[n] == nil {
				reached[n] = rng != nil && rng.IntN(2) == 0
				copies[n] = n.crash(rng)
			}
		}
	}
	for _, name := range names {
		n := m.mu.durable[name]
		if newest := m.mu.live[name]; newest != nil && reached[newest] {
			n = newest
		} else if n == nil || reached[n] {
			continue
		}
		after.mu.live[name], after.mu.durable[name] = copies[n], copies[n]
	}
	after.undoRenamesLocked(m.mu.renamed, rng)
	after.dropOrphansLocked()
	return after
}

// undoRenamesLocked restores the old names of directories. If another directory has the old name by now, the rename
// stands.
func (m *Mem) undoRenamesLocked(renamed []memRename, rng *rand.Rand) {
	for _, r := range slices.Backward(renamed) {
		if m.mu.live[r.from] == nil && (rng == nil || rng.IntN(2) == 0) {
			renameIn(m.mu.live, r.to, r.from)
			renameIn(m.mu.durable, r.to, r.from)
		}
	}
}

// crash returns what is left of a file's content.
func (n *memNode) crash(rng *rand.Rand) *memNode {
	data := bytes.Clone(n.durable)
	if both := min(len(data), len(n.data)); rng != nil && both > 0 && rng.IntN(2) == 0 { // of what was overwritten, a part has reached the disk
		at := rng.IntN(both + 1)
		if rng.IntN(2) == 0 {
			copy(data[:at], n.data[:at])
		} else {
			copy(data[at:both], n.data[at:both])
		}
	}
	if rng != nil && len(n.data) > len(data) {
		data = append(data, n.data[len(data):len(data)+rng.IntN(len(n.data)-len(data)+1)]...)
	}
	return &memNode{dir: n.dir, data: data, durable: bytes.Clone(data), changed: n.changed}
}

// Kill returns the file system as the next process finds it after this one was killed: everything written is there. m
// must not be used any more.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := NewMem(m.now)
	after.mu.live, after.mu.durable, after.mu.renamed = m.mu.live, m.mu.durable, m.mu.renamed
	return after
}

// dropOrphansLocked removes names whose directory does not exist.
func (m *Mem) dropOrphansLocked() {
	for _, name := range sortedKeys(m.mu.live) {
		if parent := m.mu.live[filepath.Dir(name)]; parent == nil && filepath.Dir(name) != name && filepath.Dir(name) != "." && filepath.Dir(name) != "/" {
			delete(m.mu.live, name)
			delete(m.mu.durable, name)
		}
	}
}

func sortedKeys(ms ...map[string]*memNode) []string {
	var keys []string
	for _, m := range ms {
		for k := range m {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// beginLocked returns the fault injected into an operation, if any.
func (m *Mem) beginLocked(op, name string) error {
	if m.mu.fault == nil {
		return nil
	}
	if err := m.mu.fault(op, name); err != nil {
		return pathError(op, name, err)
	}
	return nil
}

// OpenFile implements FS.
func (m *Mem) OpenFile(name string, flag int) (File, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("open", name); err != nil {
		return nil, err
	}
	n := m.mu.live[name]
	switch {
	case n == nil && flag&Create == 0, n == nil && m.mu.live[filepath.Dir(name)] == nil:
		return nil, pathError("open", name, fs.ErrNotExist)
	case n == nil:
		n = &memNode{changed: m.now()}
		m.mu.live[name] = n
	case n.dir:
		return nil, pathError("open", name, syscall.EISDIR)
	case flag&Exclusive != 0:
		return nil, pathError("open", name, fs.ErrExist)
	}
	if flag&Truncate != 0 {
		n.data = nil
	}
	return &memFile{m, name, n}, nil
}

// ReadFile implements FS.
func (m *Mem) ReadFile(name string) ([]byte, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("readfile", name); err != nil {
		return nil, err
	}
	n := m.mu.live[name]
	if n == nil || n.dir {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	return bytes.Clone(n.data), nil
}

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("rename", from); err != nil {
		return err
	}
	if m.mu.live[from] == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	renameIn(m.mu.live, from, to)
	if m.mu.live[to].dir {
		renameIn(m.mu.durable, from, to) // what was synced below the directory gets the new name with it
		m.mu.renamed = append(m.mu.renamed, memRename{from, to})
	}
	return nil
}

func renameIn(names map[string]*memNode, from, to string) {
	for name, n := range names {
		if rest, ok := below(name, from); ok {
			delete(names, name)
			names[to+rest] = n
		}
	}
}

// below reports whether name is dir or below it, and returns its path relative to dir.
func below(name, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(name, dir)
	return rest, ok && (rest == "" || rest[0] == filepath.Separator)
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("remove", name); err != nil {
		return err
	}
	if m.mu.live[name] == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	for other := range m.mu.live {
		if filepath.Dir(other) == name {
			return pathError("remove", name, syscall.ENOTEMPTY)
		}
	}
	delete(m.mu.live, name)
	return nil
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("removeall", name); err != nil {
		return err
	}
	for other := range m.mu.live {
		if _, ok := below(other, name); ok {
			delete(m.mu.live, other)
		}
	}
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("mkdir", name); err != nil {
		return err
	}
	for dir := name; ; dir = filepath.Dir(dir) {
		if n := m.mu.live[dir]; n == nil {
			m.mu.live[dir] = &memNode{dir: true, changed: m.now()}
		} else if !n.dir {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// Stat implements FS.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.mu.live[name]
	if n == nil {
		return nil, pathError("stat", name, fs.ErrNotExist)
	}
	return n.infoLocked(name), nil
}

func (n *memNode) infoLocked(name string) memInfo {
	return memInfo{filepath.Base(name), int64(len(n.data)), n.dir, n.changed}
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.mu.live[name]; n == nil || !n.dir {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	var entries []fs.DirEntry
	for _, other := range sortedKeys(m.mu.live) {
		if filepath.Dir(other) == name && other != name {
			entries = append(entries, fs.FileInfoToDirEntry(m.mu.live[other].infoLocked(other)))
		}
	}
	return entries, nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("syncdir", name); err != nil {
		return err
	}
	if n := m.mu.live[name]; name != "/" && (n == nil || !n.dir) {
		return pathError("syncdir", name, fs.ErrNotExist)
	}
	m.mu.renamed = slices.DeleteFunc(m.mu.renamed, func(r memRename) bool { return filepath.Dir(r.to) == name })
	for other := range m.mu.durable {
		if filepath.Dir(other) == name && m.mu.live[other] == nil {
			delete(m.mu.durable, other)
		}
	}
	for other, n := range m.mu.live {
		if filepath.Dir(other) == name || other == name {
			m.mu.durable[other] = n
		}
	}
	return nil
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	name = filepath.Clean(name)
	f, err := m.OpenFile(name, ReadWrite|Create)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.locked[name] {
		return nil, pathError("lock", name, ErrLocked)
	}
	m.mu.locked[name] = true
	return memLock{m, name, f}, nil
}

type memLock struct {
	m    *Mem
	name string
	File
}

func (l memLock) Close() error {
	l.m.mu.Lock()
	delete(l.m.mu.locked, l.name)
	l.m.mu.Unlock()
	return l.File.Close()
}

// SetModTime implements FS.
func (m *Mem) SetModTime(name string, t time.Time) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginLocked("setmodtime", name); err != nil {
		return err
	}
	n := m.mu.live[name]
	if n == nil {
		return pathError("chtimes", name, fs.ErrNotExist)
	}
	n.changed = t
	return nil
}

// Usage implements FS. Everything is free unless SetUsable has been called.
func (m *Mem) Usage(string) (total, usable int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return memSize, m.mu.usable, nil
}

const memSize = 1 << 40

// SetUsable sets the free space that Usage reports. It affects nothing else.
func (m *Mem) SetUsable(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.usable = bytes
}

type memInfo struct {
	name    string
	size    int64
	dir     bool
	changed time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.changed }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

type memFile struct {
	m    *Mem
	name string
	n    *memNode
}

func (f *memFile) Name() string { return f.name }
func (f *memFile) OS() *os.File { return nil }
func (f *memFile) Close() error { return nil }

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.n.data)), nil
}

func (f *memFile) ReadAt(p []byte, offset int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.beginLocked("read", f.name); err != nil {
		return 0, err
	}
	if offset >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, offset int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.beginLocked("write", f.name); err != nil {
		return 0, err
	}
	f.n.resize(max(int64(len(f.n.data)), offset+int64(len(p))))
	f.n.changed = f.m.now()
	return copy(f.n.data[offset:], p), nil
}

func (f *memFile) WritePartsAt(parts [][]byte, offset int64) (int, error) {
	return f.WriteAt(bytes.Join(parts, nil), offset)
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.beginLocked("truncate", f.name); err != nil {
		return err
	}
	f.n.resize(size)
	f.n.reserved = 0
	f.n.durable = f.n.durable[:min(int64(len(f.n.durable)), size)] // bytes that were cut off must not come back in part
	f.n.changed = f.m.now()
	return nil
}

func (f *memFile) Reserve(offset, size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.beginLocked("reserve", f.name); err != nil {
		return err
	}
	f.n.reserved = max(f.n.reserved, offset+size)
	return nil
}

// Reserved returns how many bytes are reserved beyond the end of a file.
func (m *Mem) Reserved(name string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.mu.live[name]
	if n == nil {
		return 0
	}
	return max(n.reserved-int64(len(n.data)), 0)
}

// resize keeps the memory in place if possible, for the sake of the mappings.
func (n *memNode) resize(size int64) {
	have := int64(len(n.data))
	if size <= have {
		n.data = n.data[:size]
		return
	}
	if size > int64(cap(n.data)) {
		n.data = append(make([]byte, 0, max(size, 2*have)), n.data...)
	}
	n.data = n.data[:size]
	clear(n.data[have:])
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.beginLocked("sync", f.name); err != nil {
		return err
	}
	f.n.durable = bytes.Clone(f.n.data)
	return nil
}

func (f *memFile) Map(size int) (Mapping, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.beginLocked("map", f.name); err != nil {
		return nil, err
	}
	if size > len(f.n.data) {
		return nil, pathError("mmap", f.name, syscall.EINVAL)
	}
	return &memMapping{f, f.n.data[:size]}, nil
}

type memMapping struct {
	f *memFile
	b []byte
}

func (x *memMapping) Bytes() []byte { return x.b }
func (x *memMapping) Sync() error   { return x.f.Sync() }
func (x *memMapping) Unmap() error  { x.b = nil; return nil }
