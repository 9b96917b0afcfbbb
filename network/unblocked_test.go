package network

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// TestUnblockedIsAConn checks what every net.Conn must do: deadlines, closing during reads and writes, and more.
func TestUnblockedIsAConn(t *testing.T) {
	nettest.TestConn(t, func() (client, server net.Conn, stop func(), err error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		defer func() { _ = l.Close() }()
		dialed, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return nil, nil, nil, err
		}
		accepted, err := l.Accept()
		if err != nil {
			return nil, nil, nil, errors.Join(err, dialed.Close())
		}
		client, err = newUnblocked(dialed.(*net.TCPConn))
		if err != nil {
			return nil, nil, nil, err
		}
		server, err = newUnblocked(accepted.(*net.TCPConn))
		return client, server, func() { _, _ = client.Close(), server.Close() }, err
	})
}
