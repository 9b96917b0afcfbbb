package vfs

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// maxParts is how many parts one call takes (UIO_MAXIOV).
const maxParts = 1024

// WritePartsAt implements File. Its calls write at once what the file system takes at once.
func (f osFile) WritePartsAt(parts [][]byte, offset int64) (written int, err error) {
	for len(parts) > 0 {
		n, err := unix.Pwritev(int(f.Fd()), parts[:min(len(parts), maxParts)], offset+int64(written))
		if err == nil && n == 0 && len(parts[0]) > 0 {
			err = io.ErrShortWrite
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return written, &fs.PathError{Op: "write", Path: f.Name(), Err: err}
		}
		n = max(n, 0)
		written += n
		for len(parts) > 0 && n >= len(parts[0]) {
			n -= len(parts[0])
			parts = parts[1:]
		}
		if n > 0 {
			m, err := f.WriteAt(parts[0][n:], offset+int64(written))
			if written += m; err != nil {
				return written, err
			}
			parts = parts[1:]
		}
	}
	return written, nil
}
