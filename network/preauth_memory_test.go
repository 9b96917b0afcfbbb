package network

import (
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"barnabas/internal/testwait"
	"barnabas/network/sasl"
)

// TestManyIncompleteLogins: 3,000 clients send 100 KB of a request of 512 KB each, and no more. Those that have waited
// longest are closed; the memory held stays small, and a client that completes its login succeeds.
func TestManyIncompleteLogins(t *testing.T) {
	const crowd, workers = 3000, 30
	s, addr := saslListener(t, &login{}, sasl.Server{MaxReceive: 512 << 10})
	before := heapInUse()
	half := binary.BigEndian.AppendUint32(nil, 512<<10)
	half = append(half, make([]byte, 100<<10)...)
	var (
		dialers sync.WaitGroup
		mu      sync.Mutex
		conns   []net.Conn
	)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range workers {
		dialers.Go(func() {
			for range crowd / workers {
				c, err := net.DialTCP("tcp", nil, addr)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				_, _ = c.Write(half) // it may be closed meanwhile
				mu.Lock()
				conns = append(conns, c)
				mu.Unlock()
			}
		})
	}
	for range 50 {
		checkLogin(t, addr, alice)
	}
	dialers.Wait()
	awaitHeld(t, s)
	checkLogin(t, addr, alice)
	checkLogin(t, addr, "\x00alice\x00"+strings.Repeat("pw", 50<<10)) // a login that needs as much memory
	if grown := heapInUse() - before; grown > preAuthBytes+100<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	if left := s.Connections()["SASL_PLAINTEXT"]; left > preAuthBytes/(100<<10) {
		t.Errorf("%d connections are open", left)
	}
}

// checkLogin logs in, or checks the error if the password is wrong.
func checkLogin(t *testing.T, addr *net.TCPAddr, message string) {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if got := ask(t, c, handshake, 1, "PLAIN"); got != "0[PLAIN]" {
		t.Errorf("the handshake is answered with %q", got)
		return
	}
	want := "0 "
	if message != alice {
		want = "58 "
	}
	if got := ask(t, c, authenticate, 1, message); !strings.HasPrefix(got, want) {
		t.Errorf("a login is answered with %q", got)
	}
}

// awaitHeld waits until the server has processed what was sent: the memory held is at its limit, and the remaining
// connections are closed.
func awaitHeld(t *testing.T, s *Server) {
	t.Helper()
	testwait.See(t, "all connections hold memory", func() (string, bool) {
		s.preAuth.mu.Lock()
		used, holders := s.preAuth.mu.used, s.preAuth.mu.order.Len()
		s.preAuth.mu.Unlock()
		if used > preAuthBytes {
			t.Fatalf("%d bytes are held", used)
		}
		all := s.Connections()["SASL_PLAINTEXT"]
		return fmt.Sprintf("%d of %d", holders, all), holders == all
	})
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what is in pools survives one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

func TestNewcomers(t *testing.T) {
	n := preAuthMemory{max: 10 * freeBytes}
	a, b, c := new(Conn), new(Conn), new(Conn)
	names := map[*Conn]string{a: "a", b: "b", c: "c"}
	hold := func(who *Conn, shares int) string {
		lost := ""
		for _, l := range n.hold(who, shares*freeBytes) {
			lost += names[l]
		}
		return fmt.Sprint(lost, " ", n.mu.used/freeBytes, " of ", n.mu.order.Len())
	}
	for i, step := range []struct {
		who    *Conn
		shares int // 0: the client has authenticated
		want   string
	}{
		{a, 1, " 0 of 0"}, // below the size that is counted
		{a, 4, " 4 of 1"}, {b, 6, " 10 of 2"},
		{b, 4, " 10 of 2"},                     // the most that it ever needed
		{c, 2, "a 8 of 2"}, {a, 1, "a 8 of 2"}, // a came first, and gets nothing any more
		{b, 9, "b 2 of 1"},  // so does b, although it is the one that asks
		{c, 40, " 40 of 1"}, // the only one may exceed the limit
		{c, 0, " 0 of 0"}, {c, 3, " 3 of 1"},
	} {
		if step.shares == 0 {
			n.drop(step.who)
			continue
		}
		if got := hold(step.who, step.shares); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// beginHello sends part of a ClientHello of 60 KiB, in a record of its own.
func beginHello(t *testing.T, addr *net.TCPAddr, part int) {
	t.Helper()
	record := []byte{recordHandshake, 3, 1, byte(part >> 8), byte(part), 1, 0, 0xf0, 0}
	if _, err := dial(t, addr).Write(append(record, make([]byte, part-4)...)); err != nil {
		t.Fatal(err)
	}
}

// TestHalfHandshakesAreCounted: the part of a TLS handshake message that has been received is counted, like part of a
// request.
func TestHalfHandshakesAreCounted(t *testing.T) {
	s := startTLS(t, &echo{}, Config{}, nil)
	const clients = 20
	const part = 8 << 10
	for range clients {
		beginHello(t, s.addr, part)
	}
	n := &s.server.preAuth
	held := func() (int64, int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.mu.used, n.mu.order.Len()
	}
	testwait.See(t, "the parts of all clients are counted", func() (string, bool) {
		used, holders := held()
		return fmt.Sprintf("%d bytes for %d clients", used, holders), used >= clients*part && holders == clients
	})
	c := s.dial(t)
	if _, err := c.Write(frame(echoNow, 0, 7, "x")); err != nil {
		t.Fatal(err)
	}
	expect(t, c, 7, "x")
	if _, holders := held(); holders != clients {
		t.Errorf("%d clients hold memory, %d of them during the handshake", holders, clients)
	}
}

// TestLoginsLeaveNothing: after 5,000 clients have logged in and gone, there are no goroutines left, no counted memory,
// and hardly any other.
func TestLoginsLeaveNothing(t *testing.T) {
	const clients, workers = 5000, 20
	s, addr := saslListener(t, &login{}, sasl.Server{})
	checkLogin(t, addr, alice)
	awaitGone(t, s)
	goroutines, heap := runtime.NumGoroutine(), heapInUse()
	var dialers sync.WaitGroup
	for range workers {
		dialers.Go(func() {
			for range clients / workers {
				checkLogin(t, addr, alice)
			}
		})
	}
	dialers.Wait()
	awaitGone(t, s)
	testwait.See(t, fmt.Sprintf("no more goroutines than before, %d", goroutines), func() (int, bool) {
		n := runtime.NumGoroutine()
		return n, n <= goroutines
	})
	if grown := heapInUse() - heap; grown > 16<<20 {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	s.preAuth.mu.Lock()
	defer s.preAuth.mu.Unlock()
	if used, holders := s.preAuth.mu.used, s.preAuth.mu.order.Len(); used != 0 || holders != 0 {
		t.Errorf("%d bytes are counted for %d connections", used, holders)
	}
}

func awaitGone(t *testing.T, s *Server) {
	t.Helper()
	testwait.Until(t, "all connections are closed", func() bool { return s.Connections()["SASL_PLAINTEXT"] == 0 })
}

// TestHalfHandshakesMakeRoom: at the limit some incomplete handshakes are closed, and an honest client gets through.
func TestHalfHandshakesMakeRoom(t *testing.T) {
	s := startTLS(t, &echo{}, Config{}, nil)
	const clients, room, part = 20, 5, 8 << 10
	s.server.preAuth.mu.Lock()
	s.server.preAuth.max = room * handshakeCost * (part + 1000)
	s.server.preAuth.mu.Unlock()
	for range clients {
		beginHello(t, s.addr, part)
	}
	testwait.See(t, "no more connections than there is room for", func() (int, bool) {
		n := s.server.Connections()["SSL"]
		return n, n <= room
	})
	c := s.dial(t)
	if _, err := c.Write(frame(echoNow, 0, 7, "x")); err != nil {
		t.Fatal(err)
	}
	expect(t, c, 7, "x")
}
