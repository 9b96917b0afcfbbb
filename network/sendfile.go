package network

import (
	"io"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxSendfile bounds a single sendfile(2), so that a closed connection is noticed between calls.
const maxSendfile = 16 << 20

// sendFile sends size bytes of a file, beginning at position, without copying them through this process.
func sendFile(raw syscall.RawConn, file uintptr, position, size int64, calls *rawCalls, alive func()) error {
	var failed error
	err := raw.Write(func(fd uintptr) bool {
		for size > 0 {
			n, err := calls.sendfile(fd, file, &position, int(min(size, maxSendfile)))
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				return false
			case err != nil:
				failed = err
				return true
			case n == 0:
				failed = io.ErrUnexpectedEOF // the file is shorter than the range
				return true
			default:
				size -= int64(n)
				alive()
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	return failed
}

// rawCalls makes calls of sendfile(2) without telling the Go scheduler, if what is sent seems to be in the page cache.
// Since these calls take longer than 20 µs, telling it keeps its monitor thread awake, which takes up to a fifth of the
// CPU time spent on a consumer that catches up.
//
// A call may have to wait after all, for a page that has been evicted or for a lock of the file system. It then keeps a
// processor from all other goroutines, so at most half of the processors are in such calls at a time.
type rawCalls struct {
	running atomic.Int32
	max     int32
}

func newRawCalls(processors int) *rawCalls { return &rawCalls{max: int32(processors / 2)} }

// begin reports whether a raw call may be made, after which end must be called.
func (r *rawCalls) begin() bool {
	if r.running.Add(1) <= r.max {
		return true
	}
	r.end()
	return false
}

func (r *rawCalls) end() { r.running.Add(-1) }

// maxRawSendfile bounds a single raw call, during which the garbage collector may wait for the processor, to about 250 µs.
const maxRawSendfile = 1 << 20

func (r *rawCalls) sendfile(to, from uintptr, position *int64, size int) (int, error) {
	part := min(size, maxRawSendfile)
	if !inPageCache(from, *position+int64(part)-1) || !r.begin() {
		return unix.Sendfile(int(to), int(from), position, size)
	}
	defer r.end()
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDFILE, to, from, uintptr(unsafe.Pointer(position)), uintptr(part), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// inPageCache reports whether a byte of a file can be read without waiting for a disk or a lock. It is false on file
// systems that do not tell, such as overlayfs.
func inPageCache(file uintptr, position int64) bool {
	var b [1]byte
	to := unix.Iovec{Base: &b[0]}
	to.SetLen(len(b))
	n, _, errno := syscall.RawSyscall6(unix.SYS_PREADV2, file, uintptr(unsafe.Pointer(&to)), 1, uintptr(position), uintptr(uint64(position)>>32), unix.RWF_NOWAIT)
	return errno == 0 && n == 1
}
