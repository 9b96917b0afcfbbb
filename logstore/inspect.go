package logstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"barnabas/internal/vfs"
)

// DirReport describes a log directory that is inspected without being opened.
type DirReport struct {
	Meta
	Marked     bool // it has a meta.properties
	InUse      bool // a broker has it open
	Clean      bool // the last broker was stopped cleanly: no log has to be recovered
	Partitions int
	Foreign    []string // paths of directories that keep a broker from starting, since they belong to no partition
	FreeBytes  int64    // of its file system
}

// InspectDir inspects a log directory without changing anything. If it does not exist, the error is fs.ErrNotExist.
func InspectDir(dir string) (r DirReport, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return r, err
	}
	for _, e := range entries {
		if !vfs.IsDir(vfs.OS{}, dir, e) {
			continue
		}
		switch _, kind := parseDir(e.Name()); kind {
		case replicaDir:
			r.Partitions++
		case unknownDir:
			r.Foreign = append(r.Foreign, filepath.Join(dir, e.Name()))
		}
	}
	if r.Meta, r.Marked, err = ReadMeta(vfs.OS{}, dir); err != nil {
		return r, err
	}
	if r.InUse, err = (vfs.OS{}).Locked(filepath.Join(dir, lockFile)); err != nil {
		return r, err
	}
	_, err = os.Stat(filepath.Join(dir, cleanFile))
	if r.Clean = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	_, r.FreeBytes, err = vfs.OS{}.Usage(dir)
	return r, err
}
