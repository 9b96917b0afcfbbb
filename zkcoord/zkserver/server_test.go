package zkserver

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"

	"barnabas/internal/testwait"
)

// TestManyServers starts and stops servers as tests of whole brokers do, and looks for leaks.
func TestManyServers(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		s, err := Open(Config{TickTime: tick})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Listen("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		c := dial(t, s.Addr().String(), connectRequest{timeoutMs: 10000})
		c.create("/a", Ephemeral)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		c.ended()
	}
	testwait.See(t, fmt.Sprintf("no more goroutines than before, %d", before), func() (int, bool) {
		n := runtime.NumGoroutine()
		return n, n <= before
	})
}

func TestServe(t *testing.T) {
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr() != nil {
		t.Error("there is an address without a listener")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(ln) }()
	dial(t, ln.Addr().String(), connectRequest{timeoutMs: 10000})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("Serve returned %v", err)
	}
	if err := s.Serve(ln); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve after Close returned %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestFailingFile closes the file of a running server: it must stop rather than acknowledge what it cannot store.
func TestFailingFile(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir(), TickTime: tick, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c := dial(t, s.Addr().String(), connectRequest{timeoutMs: 10000})
	c.create("/a", Persistent)
	if err := s.loop.store.db.Close(); err != nil {
		t.Fatal(err)
	}
	c.send(appendRequest(nil, request{9, opCreate, createBody{"/b", nil, openACL, 0}}))
	if frame := c.frame(); frame != nil {
		t.Errorf("answered %x", frame)
	}
	<-s.Done()
	if err := s.Close(); err == nil {
		t.Error("Close does not return the error")
	}
}

// TestSlowClient pipelines reads without reading the responses: the client is disconnected, and others are served.
func TestSlowClient(t *testing.T) {
	s := start(t, Config{TickTime: tick})
	slow := dial(t, s.Addr().String(), connectRequest{timeoutMs: 10000})
	if code, _ := slow.ask(opCreate, createBody{"/big", make([]byte, 500<<10), openACL, 0}); code != OK {
		t.Fatal(code)
	}
	get := appendRequest(nil, request{5, opGetData, pathWatchBody{"/big", false}})
	frame := append(appendInt32(nil, int32(len(get))), get...)
	for range 2 * maxUnsentBytes / (500 << 10) {
		if _, err := slow.nc.Write(frame); err != nil {
			break // disconnected already
		}
	}
	other := dial(t, s.Addr().String(), connectRequest{timeoutMs: 10000})
	if code, _ := other.ask(opExists, pathWatchBody{"/big", false}); code != OK {
		t.Error(code)
	}
}
