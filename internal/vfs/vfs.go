// Package vfs is the file system as the log sees it: a few operations, each of which can fail.
//
// There are two implementations. OS is the real one. Mem keeps files in memory, forgets what was not synced when it
// crashes, and fails the calls it is told to fail, so that recovery can be tested after a crash at every step. The
// package knows nothing about logs or brokers.
package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Flags of OpenFile. They are those of package os.
const (
	ReadOnly  = os.O_RDONLY
	ReadWrite = os.O_RDWR
	Create    = os.O_CREATE
	Exclusive = os.O_EXCL
	Truncate  = os.O_TRUNC
)

// FS is a file system. All methods are safe for concurrent use. Errors wrap those of package io/fs
// (fs.ErrNotExist and so on) and carry the path.
type FS interface {
	// OpenFile opens the named file. New files are readable and writable by the owner, readable by others.
	OpenFile(name string, flag int) (File, error)
	// ReadFile returns the whole content of the named file.
	ReadFile(name string) ([]byte, error)
	// Rename moves a file or a directory, replacing a file with the new name. It does not sync.
	Rename(from, to string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes a directory and what is below it. A missing one is no error.
	RemoveAll(name string) error
	// MkdirAll creates a directory and its missing parents.
	MkdirAll(name string) error
	// Stat describes the named file.
	Stat(name string) (fs.FileInfo, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// SyncDir makes the creations, removals and renames in a directory durable.
	SyncDir(name string) error
	// Lock creates the named file if necessary and locks it exclusively, against this process and others, until the
	// closer is closed. If the file is locked already, the error is ErrLocked.
	Lock(name string) (io.Closer, error)
	// SetModTime sets the modification time of the named file.
	SetModTime(name string, t time.Time) error
	// Usage returns the size of the volume that holds name, and the space on it that is available to this process, both
	// in bytes.
	Usage(name string) (total, usable int64, err error)
}

// File is an open file. ReadAt, WriteAt and WritePartsAt are safe for concurrent use; the other methods are for a single owner.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// WritePartsAt is WriteAt for data that is in several parts.
	WritePartsAt(parts [][]byte, offset int64) (int, error)
	// Name returns the path that the file was opened with.
	Name() string
	// Size returns the file's length in bytes.
	Size() (int64, error)
	// Truncate shortens or extends the file. An extension reads as zeros and takes no space until it is written.
	Truncate(size int64) error
	// Reserve reserves space for size bytes from offset on, which may be beyond the end. The file's length does not
	// change; Truncate gives back what is beyond it. The error is errors.ErrUnsupported where that would save nothing.
	Reserve(offset, size int64) error
	// Sync makes the content durable.
	Sync() error
	// Map maps the first size bytes of the file into memory, shared and writable. The mapping outlives the file: it is
	// valid until Unmap.
	Map(size int) (Mapping, error)
	// OS returns the operating system's file for calls such as sendfile, or nil if there is none. It remains the
	// property of this File.
	OS() *os.File
}

// Mapping is a part of a file mapped into memory.
type Mapping interface {
	// Bytes returns the memory. It must not be accessed after Unmap, nor beyond the end of the file.
	Bytes() []byte
	// Sync makes the content durable.
	Sync() error
	// Unmap releases the memory.
	Unmap() error
}

// WriteFile writes a file so that it is either complete or absent after a crash: to a temporary file beside it, which
// is synced and renamed to name. The directory is synced too, so that the new content is durable when WriteFile
// returns. If only that fails, the error is an *UnsyncedError: the file has the new content, and the next crash may bring
// back the old one.
func WriteFile(fsys FS, name string, data []byte) error {
	tmp := name + ".tmp"
	if err := writeSynced(fsys, tmp, data); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	if err := fsys.SyncDir(dirOf(name)); err != nil {
		return &UnsyncedError{err}
	}
	return nil
}

// UnsyncedError is the error of a WriteFile that could not sync the directory.
type UnsyncedError struct{ Err error }

func (e *UnsyncedError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the sync.
func (e *UnsyncedError) Unwrap() error { return e.Err }

func writeSynced(fsys FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, ReadWrite|Create|Truncate)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		_ = f.Close() // the error of the write is the one that matters
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// IsDir reports whether an entry of a directory is a directory, or a symbolic link to one.
func IsDir(fsys FS, dir string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	at, err := fsys.Stat(filepath.Join(dir, e.Name()))
	return err == nil && at.IsDir()
}
