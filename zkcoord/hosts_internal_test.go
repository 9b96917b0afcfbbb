package zkcoord

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// TestRefusedLoginsAreToldOnce: a refused login is reported once, and once more after a successful one.
func TestRefusedLoginsAreToldOnce(t *testing.T) {
	log, lines := test.NewNullLogger()
	log.SetOutput(io.Discard)
	d := &dialer{log: logrus.NewEntry(log)}
	refused := errors.New("refused")
	for i, err := range []error{refused, refused, nil, refused, errors.New("other"), nil, nil} {
		d.loggedIn(err)
		if got, want := len(lines.AllEntries()), []int{1, 1, 1, 2, 3, 3, 3}[i]; got != want {
			t.Errorf("after %d logins %d lines, want %d", i+1, got, want)
		}
	}
	if err := d.because(io.EOF); err != io.EOF {
		t.Errorf("after a successful login the reason is still %v", err)
	}
}

// TestBrokenConnection: failing to write a request does not count as a response of the server.
func TestBrokenConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	conn, err := (&dialer{patience: time.Minute}).dial("tcp", l.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	_ = conn.Close()
	if _, err := conn.Write([]byte("x")); !isLost(err) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// TestSilentServers: servers that accept connections but do not answer do not keep a client from finding one that does.
func TestSilentServers(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	conn, err := (&dialer{patience: time.Millisecond}).dial("tcp", silent.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v", n, err)
	}
}
