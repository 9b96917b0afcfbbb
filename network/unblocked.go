package network

import (
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receive and transmit call recvfrom(2) and sendto(2), which cost less than read(2) and write(2) on a socket. They do not
// tell the Go scheduler, as may be done with calls that do not block, such as those on the runtime's sockets. Telling it
// wakes its monitor thread if the process was idle before, which at low load costs more than the call.

func receive(fd uintptr, b []byte) (int, error) {
	return onSocket(unix.SYS_RECVFROM, fd, b, 0)
}

func transmit(fd uintptr, b []byte, flags int) (int, error) {
	return onSocket(unix.SYS_SENDTO, fd, b, flags|unix.MSG_NOSIGNAL)
}

func onSocket(call, fd uintptr, b []byte, flags int) (int, error) {
	n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// unblocked is a TCP connection that is read with receive and written with transmit.
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
			if n, err = receive(fd, b); err != unix.EINTR {
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
func (u unblocked) Write(b []byte) (int, error) { return new(sender).send(u.raw, b, 0, func() {}) }
