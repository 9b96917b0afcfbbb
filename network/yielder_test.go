package network

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"barnabas/internal/testlog"
	"barnabas/internal/testwait"
)

// TestYielderCountsWorkingReaders: a reader that waits, for whatever reason, is not counted as working: otherwise
// readers would yield for no reason.
func TestYielderCountsWorkingReaders(t *testing.T) {
	e := &echo{gates: make(chan chan struct{}, 1), seen: make(chan int32)}
	s := NewServer(Config{RequestMaxBytes: 1 << 20}, e, testlog.Quiet())
	addr, err := s.Bind(Listener{Name: "PLAINTEXT", Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve()
	t.Cleanup(s.Close)

	working := func(want int32, when string) {
		t.Helper()
		testwait.See(t, fmt.Sprintf("%s: %d readers work", when, want), func() (int32, bool) {
			n := s.yielder.working.Load()
			return n, n == want
		})
	}
	ask := func(c net.Conn, key int16, body string) {
		t.Helper()
		if _, err := c.Write(frame(key, 0, 1, body)); err != nil {
			t.Fatal(err)
		}
		working(1, "amid the first half of "+body)
		<-e.seen
	}

	c := dial(t, addr)
	working(0, "before a request")
	ask(c, echoNow, "now")
	readAnswer(t, c)
	working(0, "after an answer")
	ask(c, echoAlone, "alone")
	working(0, "while an answer waits")
	close(<-e.gates)
	readAnswer(t, c)
	working(0, "after an answer that has waited")
	ask(c, echoLater, "later")
	working(0, "while an answer waits beside later requests")
	close(<-e.gates)
	readAnswer(t, c)
	ask(c, echoNow, "mute")
	readAnswer(t, c)
	working(0, "while muted")
	c.Close()
	working(0, "after the end")

	c = dial(t, addr)
	if _, err := c.Write(append(frame(echoNow, 0, 1, "x"), strings.Repeat("\xff", 8)...)); err != nil {
		t.Fatal(err)
	}
	<-e.seen
	working(0, "after an end by an error")
}
