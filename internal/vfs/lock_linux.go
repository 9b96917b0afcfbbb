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
