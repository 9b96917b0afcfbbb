package vfs

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Reserve implements File. XFS and btrfs are left alone: the one reserves by itself, the other copies on write.
func (f osFile) Reserve(offset, size int64) error {
	fd := int(f.Fd())
	var st unix.Statfs_t
	err := unix.Fstatfs(fd, &st)
	switch {
	case err == nil && st.Type != unix.EXT4_SUPER_MAGIC:
		return errors.ErrUnsupported
	case err == nil:
		err = unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, offset, size)
	}
	if err != nil {
		return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}
