package network

import (
	"net"
	"syscall"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// exhausted is a socket that cannot accept connections, and closes its server after some attempts.
type exhausted struct {
	net.Listener
	server   *Server
	attempts int
}

func (e *exhausted) Accept() (net.Conn, error) {
	if e.attempts--; e.attempts == 0 {
		e.server.cancel()
	}
	return nil, syscall.EMFILE
}

// TestLinesAboutConnectionsThatCannotBeAccepted: when the file descriptors are used up, that is not logged for each attempt.
func TestLinesAboutConnectionsThatCannotBeAccepted(t *testing.T) {
	logger, lines := test.NewNullLogger()
	s := NewServer(Config{}, nil, logrus.NewEntry(logger))
	s.accept(&bound{Listener: Listener{Name: "A"}, socket: &exhausted{server: s, attempts: 4}})
	if n := len(lines.AllEntries()); n != 1 {
		t.Errorf("%d lines are logged", n)
	}
}
