// Package vfs is the file system as the log sees it: few operations, and each of them can fail.
//
// There are two implementations. OS is the real one. Mem keeps files in memory, forgets what was not synced when it
// crashes, and fails the call it is told to fail, so that recovery can be tested after a crash at every step.
// The package knows nothing about logs or brokers.
package vfs

import (
	"io"
	"io/fs"
	"os"
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
	// Rename moves a file or a directory, replacing a file that has the new name. It does not sync.
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
	// Lock creates the named file and holds it exclusively, against this process and others, until the closer is closed.
	// A file held by somebody else is ErrLocked.
	Lock(name string) (io.Closer, error)
	// SetModTime changes when the named file was last written.
	SetModTime(name string, t time.Time) error
	// Usage tells the size of the volume that holds name and what is free on it for us, in bytes.
	Usage(name string) (total, usable int64, err error)
}

// File is an open file. ReadAt and WriteAt are safe for concurrent use; the rest is for one owner.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name is the path that the file was opened with.
	Name() string
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Truncate cuts or extends the file; an extension reads as zeroes and takes no room until it is written.
	Truncate(size int64) error
	// Sync makes the content durable.
	Sync() error
	// Map maps the first size bytes of the file into memory, shared and writable.
	// The mapping outlives the file: it is good until it is unmapped.
	Map(size int) (Mapping, error)
	// OS returns the operating system's file, or nil when there is none, for calls such as sendfile.
	// It stays the property of this File.
	OS() *os.File
}

// Mapping is a part of a file in memory.
type Mapping interface {
	// Bytes is the memory. It must not be touched after Unmap, nor past the end of the file.
	Bytes() []byte
	// Sync makes the content durable.
	Sync() error
	// Unmap gives the memory back.
	Unmap() error
}

// WriteFile writes a file that is complete or not there: first under a temporary name beside it, synced,
// then renamed over name. The directory is synced too, so that the new content survives a crash once it returns.
func WriteFile(fsys FS, name string, data []byte) error {
	tmp := name + ".tmp"
	if err := writeSynced(fsys, tmp, data); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	return fsys.SyncDir(dirOf(name))
}

func writeSynced(fsys FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, ReadWrite|Create|Truncate)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		_ = f.Close() // the write's error is the one that tells
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
