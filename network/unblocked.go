package network

import (
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readSocket and writeSocket call read(2) and write(2) on a socket without telling the Go scheduler, as may be done
// with calls that do not block, such as those on the runtime's sockets. Telling it wakes its monitor thread if the
// process was idle before, which at low load costs more than the call.

func readSocket(fd uintptr, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func writeSocket(fd uintptr, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// unblocked is a TCP connection whose reads and writes are readSocket's and writeSocket's.
type unblocked struct {
	*net.TCPConn
	raw syscall.RawConn
}

func newUnblocked(tcp *net.TCPConn) (net.Conn, error) {
	raw, err := tcp.SyscallConn()
	return unblocked{tcp, raw}, err
}

// Read implements net.Conn.
func (u unblocked) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	ended := u.raw.Read(func(fd uintptr) bool {
		for {
			if n, err = readSocket(fd, b); err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case ended != nil:
		return 0, ended
	case n == 0 && err == nil:
		err = io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (u unblocked) Write(b []byte) (int, error) { return send(u.raw, b, 0, func() {}) }
