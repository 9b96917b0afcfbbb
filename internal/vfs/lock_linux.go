package vfs

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes an open-file-description lock: it conflicts with the per-process locks of other programs and, unlike
// those, also with a second broker in the same process.
func lockFile(f *os.File) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
}

// isLocked tells whether somebody holds such a lock, or that of a Java program.
func isLocked(f *os.File) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock)
	return lock.Type != unix.F_UNLCK, err
}
