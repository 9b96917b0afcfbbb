// Package testport reserves ports for servers that tests start later, restart, or never start.
//
// A port that was found by listening and closing again may be assigned to another process before it is used, which
// happens now and then in a run with hundreds of servers.
package testport

import (
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Reserve returns a TCP port of 127.0.0.1 on which nobody listens. Until the test ends, a server that asks for this
// number gets it, and one that asks for any port does not.
//
// A socket that does not listen is bound to the port. Servers in Go and Java set SO_REUSEADDR and may bind to the same
// port; the system never chooses a port that is bound.
func Reserve(t testing.TB) int {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return bound.(*unix.SockaddrInet4).Port
}

// Address returns a reserved port with its host.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Reserve(t)))
}
