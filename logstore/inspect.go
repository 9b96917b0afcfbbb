package logstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"barnabas/internal/vfs"
)

// DirReport is what is found in a log directory from outside, by who does not open it.
type DirReport struct {
	Meta
	Marked     bool // there is a meta.properties
	InUse      bool // a broker has it open
	Clean      bool // the last broker was stopped cleanly: no log has to be recovered
	Partitions int
	Foreign    []string // paths of directories that keep a broker from starting, for they are of no partition
	FreeBytes  int64    // of its file system
}

// InspectDir looks at a log directory and changes nothing. One that does not exist is fs.ErrNotExist.
func InspectDir(dir string) (r DirReport, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return r, err
	}
	for _, e := range entries {
		if !e.IsDir() {
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
