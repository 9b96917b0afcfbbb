// Package testport reserves ports for servers that tests start later, stop and start again, and for those that they do not start.
//
// A port that was found by listening and closing again may be given to somebody else before it is used: with some hundreds of servers in a
// run that happens now and then.
package testport

import (
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Reserve returns a TCP port of 127.0.0.1 on which nobody listens. Until the test ends, a server gets it if it asks for this number, and nobody
// who asks for any port does.
//
// A socket is bound to it that does not listen. Servers set SO_REUSEADDR, in Go and in Java, and may bind beside such a socket; the
// system chooses no port that is bound.
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

// Address is Reserve's port with its host.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Reserve(t)))
}
