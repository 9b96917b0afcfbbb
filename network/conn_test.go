package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"barnabas/internal/testlog"
	"barnabas/internal/testwait"

	"github.com/sirupsen/logrus"
)

// The keys of the test's own APIs, which echo a request's body.
const (
	echoNow   = 100
	echoLater = 101 // answers when its gate opens; other requests may overlap
	echoAlone = 102 // answers when its gate opens; does not overlap
	echoFile  = 103
	silent    = 104
	hangUp    = 105
)

type echo struct {
	gates chan chan struct{}
	file  *os.File
	size  int64      // of the ranges of file; 0: all but its first byte
	seen  chan int32 // correlation ids, as the requests are handled
}

type text string

func (t text) AppendTo(b []byte) []byte { return append(b, t...) }

type fileText struct {
	text
	file wholeFile
}

func (f fileText) AppendParts(o *Out) {
	o.Buf = append(o.Buf, "<"...)
	o.File(f.file)
	o.Buf = append(o.Buf, ">"...)
}

type wholeFile struct {
	f    *os.File
	size int64 // 0: all but the first byte
}

func (w wholeFile) Fd() uintptr { return w.f.Fd() }
func (w wholeFile) Range() (int64, int64) {
	if w.size > 0 {
		return 0, w.size
	}
	st, _ := w.f.Stat()
	return 1, st.Size() - 1
}
func (w wholeFile) Close() {}

func (e *echo) Route(_ *Conn, key, version int16) (Route, error) {
	if key < echoNow || key > hangUp {
		return Route{}, fmt.Errorf("unknown API key %d", key)
	}
	return Route{FlexibleRequest: version > 0, FlexibleResponse: version > 0, Overlap: key == echoLater}, nil
}

func (*echo) Refuse(*Request, error) (Answer, error) { return Answer{}, errNotYet }

func (e *echo) Handle(_ context.Context, r *Request) (Answer, error) {
	if e.seen != nil {
		e.seen <- r.Correlation
	}
	if string(r.Body) == "mute" {
		r.Conn.Mute(time.Hour)
	}
	body := text(r.Body)
	switch r.Key {
	case echoLater, echoAlone:
		gate := make(chan struct{})
		e.gates <- gate
		return Later(func(ctx context.Context) Response {
			select {
			case <-gate:
				return body
			case <-ctx.Done():
				return nil
			}
		}), nil
	case echoFile:
		return Ready(fileText{body, wholeFile{e.file, e.size}}), nil
	case silent:
		return Answer{}, nil
	case hangUp:
		return HangUp(), nil
	}
	return Ready(body), nil
}

func start(t *testing.T, e *echo, cfg Config) *net.TCPAddr {
	t.Helper()
	_, addr := serve(t, e, cfg)
	return addr
}

// serve starts a server with a plaintext listener.
func serve(t *testing.T, e *echo, cfg Config) (*Server, *net.TCPAddr) {
	t.Helper()
	if cfg.RequestMaxBytes == 0 {
		cfg.RequestMaxBytes = 1 << 20
	}
	s := NewServer(cfg, e, testlog.Quiet())
	addr, err := s.Bind(Listener{Name: "PLAINTEXT", Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve()
	t.Cleanup(s.Close)
	return s, addr
}

// lastActive returns the uptime at which any connection last received bytes; 0: never.
func (s *Server) lastActive() (last time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.mu.conns {
		last = max(last, time.Duration(c.active.Load()))
	}
	return last
}

func dial(t *testing.T, addr *net.TCPAddr) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// frame encodes a request with header version 1 (version 0) or 2 (version 1).
func frame(key, version int16, correlation int32, body string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = append(b, 0, 2, 'm', 'e')
	if version > 0 {
		b = append(b, 1, 99, 3, 'a', 'b', 'c') // an unknown tagged field
	}
	b = append(b, body...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func readAnswer(t *testing.T, c io.Reader) (int32, string) {
	t.Helper()
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(head[4:])), string(body)
}

func expect(t *testing.T, c io.Reader, correlation int32, body string) {
	t.Helper()
	if id, got := readAnswer(t, c); id != correlation || got != body {
		t.Fatalf("got answer %d %.50q, want %d %.50q", id, got, correlation, body)
	}
}

func TestAnswersInOrder(t *testing.T) {
	e := &echo{gates: make(chan chan struct{}, 10)}
	c := dial(t, start(t, e, Config{}))
	var all []byte
	for i, key := range []int16{echoNow, echoLater, echoLater, echoNow, silent, echoAlone, echoNow} {
		all = append(all, frame(key, int16(i%2), []int32{7, -1, 1<<31 - 1, 4, 5, 6, 0}[i], fmt.Sprint("body", i))...)
	}
	if _, err := c.Write(all); err != nil {
		t.Fatal(err)
	}
	expect(t, c, 7, "body0")
	first, second := <-e.gates, <-e.gates // both are being handled
	close(second)
	close(first)
	expect(t, c, -1, "\x00body1")
	expect(t, c, 1<<31-1, "body2")
	expect(t, c, 4, "\x00body3")
	close(<-e.gates)
	expect(t, c, 6, "\x00body5")
	expect(t, c, 0, "body6")
}

func TestAloneWaitsForThoseBefore(t *testing.T) {
	e := &echo{gates: make(chan chan struct{}, 10), seen: make(chan int32, 10)}
	c := dial(t, start(t, e, Config{}))
	if _, err := c.Write(append(frame(echoLater, 0, 1, "a"), frame(echoAlone, 0, 2, "b")...)); err != nil {
		t.Fatal(err)
	}
	if <-e.seen != 1 {
		t.Fatal("wrong order")
	}
	gate := <-e.gates
	select {
	case id := <-e.seen:
		t.Fatalf("request %d was handled before the previous one was answered", id)
	case <-time.After(20 * time.Millisecond):
	}
	close(gate)
	expect(t, c, 1, "a")
	close(<-e.gates)
	expect(t, c, 2, "b")
}

func TestSizesOfRequests(t *testing.T) {
	e := &echo{gates: make(chan chan struct{}, 10)}
	c := dial(t, start(t, e, Config{QueuedMaxBytes: 100 << 10}))
	var all []byte
	sizes := []int{0, 1, 100, bufferSize - 20, bufferSize, bufferSize + 1, 1000000, 5, 300000}
	for i, size := range sizes {
		all = append(all, frame(echoNow, 0, int32(i), strings.Repeat(string(rune('a'+i)), size))...)
	}
	go func() { // in small pieces
		for len(all) > 0 {
			n, _ := c.Write(all[:min(len(all), 7777)])
			all = all[n:]
		}
	}()
	for i, size := range sizes {
		expect(t, c, int32(i), strings.Repeat(string(rune('a'+i)), size))
	}
}

// TestFileRangesBetweenBytes sends ranges that are copied into the response and ranges that are not.
func TestFileRangesBetweenBytes(t *testing.T) {
	for _, size := range []int{1, 1000, maxCopied, maxCopied + 1, 1000000} {
		content := strings.Repeat("0123456789", size/10+1)[:size]
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte("-"+content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() }) // after the server, which is cleaned up first
		c := dial(t, start(t, &echo{file: f}, Config{}))
		_, _ = c.Write(append(append(frame(echoNow, 0, 1, "before"), frame(echoFile, 0, 2, "")...), frame(echoNow, 0, 3, "after")...))
		expect(t, c, 1, "before")
		expect(t, c, 2, "<"+content+">")
		expect(t, c, 3, "after")
	}
}

// TestBufferIsKept: what is copied of many small ranges does not make the buffer too large to be used again.
func TestBufferIsKept(t *testing.T) {
	f, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for size := int64(1); size <= maxCopied; size *= 4 {
		var o Out
		for range 2 * keepOutBytes / size {
			o.File(wholeFile{f, size})
		}
		if cap(o.Buf) > keepOutBytes {
			t.Errorf("ranges of %d bytes: the buffer has %d bytes", size, cap(o.Buf))
		}
		o.reset()
	}
}

// TestShortFileRangesCloseTheConnection sends ranges that extend beyond the end of the file.
func TestShortFileRangesCloseTheConnection(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for _, size := range []int64{1, maxCopied + 1} {
		c := dial(t, start(t, &echo{file: f, size: size}, Config{}))
		_, _ = c.Write(frame(echoFile, 0, 1, ""))
		if rest, err := io.ReadAll(c); err != nil || len(rest) > 10 {
			t.Errorf("%d bytes: got %q, error %v; want the answer to break off", size, rest, err)
		}
	}
}

func TestBadFramesCloseTheConnection(t *testing.T) {
	addr := start(t, &echo{}, Config{RequestMaxBytes: 1000})
	header := func(b ...byte) []byte { return append([]byte{0, 0, 0, byte(len(b))}, b...) }
	tests := []struct {
		name string
		sent []byte
	}{
		{"size above the maximum", []byte{0, 0, 0x3, 0xe9}},
		{"huge size", []byte{0x7f, 0xff, 0xff, 0xff}},
		{"negative size", []byte{0xff, 0xff, 0xff, 0xff}},
		{"size 0", header()},
		{"size 3", header(0, 100, 0)},
		{"no correlation id", header(0, 100, 0, 0)},
		{"no client id", header(0, 100, 0, 0, 0, 0, 0, 1)},
		{"client id longer than the frame", header(0, 100, 0, 0, 0, 0, 0, 1, 0, 9, 'x')},
		{"client id of negative size", header(0, 100, 0, 0, 0, 0, 0, 1, 0xff, 0xfe)},
		{"no tag count", header(0, 100, 0, 1, 0, 0, 0, 1, 0xff, 0xff)},
		{"tag count of five bytes", header(0, 100, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f)},
		{"tag longer than the frame", header(0, 100, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 1, 1, 200, 1)},
		{"unknown key", header(9, 9, 0, 0, 0, 0, 0, 1, 0xff, 0xff)},
		{"an answer that hangs up", frame(hangUp, 0, 1, "")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, addr)
			_, _ = c.Write(test.sent)
			if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("got %d bytes, %v, want the connection closed", n, err)
			}
			ok := dial(t, addr)
			_, _ = ok.Write(frame(echoNow, 0, 1, "alive"))
			expect(t, ok, 1, "alive")
		})
	}
}

// TestRefusedConnectionsDoNotFillTheLog: a client that keeps sending invalid requests causes one log line, and the next
// one says how many were suppressed.
func TestRefusedConnectionsDoNotFillTheLog(t *testing.T) {
	var mu sync.Mutex // guards out
	var out bytes.Buffer
	log := logrus.New()
	log.SetOutput(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(b)
	}))
	s := NewServer(Config{RequestMaxBytes: 1 << 20}, &echo{}, logrus.NewEntry(log))
	s.refused.Interval = time.Hour
	addr, err := s.Bind(Listener{Name: "PLAINTEXT", Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve()
	t.Cleanup(s.Close)
	for range 20 {
		c := dial(t, addr)
		_, _ = c.Write([]byte{0x7f, 0xff, 0xff, 0xff})
		_, _ = c.Read(make([]byte, 1)) // until it is closed
	}
	s.Close() // the line is logged after the client has seen the connection close
	mu.Lock()
	defer mu.Unlock()
	if lines := strings.Count(out.String(), "connection closed"); lines != 1 {
		t.Errorf("%d lines: %s", lines, &out)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestNullAndEmptyClientID(t *testing.T) {
	c := dial(t, start(t, &echo{}, Config{}))
	for _, id := range [][]byte{{0xff, 0xff}, {0, 0}} {
		b := append([]byte{0, echoNow, 0, 1, 0, 0, 0, 1}, id...)
		b = append(b, 0, 'x') // no tagged fields, then the body
		_, _ = c.Write(append([]byte{0, 0, 0, byte(len(b))}, b...))
		expect(t, c, 1, "\x00x")
	}
}

func TestConnectionLimits(t *testing.T) {
	e := &echo{gates: make(chan chan struct{}, 1)}
	s, addr := serve(t, e, Config{Limits: Limits{MaxPerIP: 2}})
	a, b := dial(t, addr), dial(t, addr)
	_, _ = a.Write(frame(echoNow, 0, 1, ""))
	expect(t, a, 1, "")
	_, _ = b.Write(frame(echoNow, 0, 2, ""))
	expect(t, b, 2, "")
	if n, err := dial(t, addr).Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a third connection from the address got %d bytes, %v", n, err)
	}
	_, _ = a.Write(frame(echoAlone, 0, 3, "")) // it is never answered: the idle limit ends the connection
	<-e.gates
	s.closeIdle(s.uptime())
	for _, c := range []net.Conn{a, b} {
		if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("an idle connection got %d bytes, %v", n, err)
		}
	}
}

func TestListenerLimitMakesOthersWait(t *testing.T) {
	addr := start(t, &echo{}, Config{Backlog: 10, Limits: Limits{MaxListener: map[string]int{"PLAINTEXT": 1}}})
	first := dial(t, addr)
	_, _ = first.Write(frame(echoNow, 0, 1, "first"))
	expect(t, first, 1, "first")
	second := dial(t, addr) // in the backlog
	_, _ = second.Write(frame(echoNow, 0, 2, "second"))
	_ = second.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a second connection was served: %v", err)
	}
	_ = first.Close()
	_ = second.SetReadDeadline(time.Now().Add(20 * time.Second))
	expect(t, second, 2, "second")
}

func TestListenersComeAndGo(t *testing.T) {
	s := NewServer(Config{RequestMaxBytes: 1 << 20}, &echo{}, testlog.Quiet())
	t.Cleanup(s.Close)
	bind := func(name, addr string) *net.TCPAddr {
		t.Helper()
		a, err := s.Bind(Listener{Name: name, Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ask := func(c net.Conn, id int32) {
		t.Helper()
		_, _ = c.Write(frame(echoNow, 0, id, ""))
		expect(t, c, id, "")
	}
	stays := bind("STAYS", "127.0.0.1:0")
	s.Serve()
	kept := dial(t, stays)
	ask(kept, 1)
	goes := bind("GOES", "127.0.0.1:0") // while connections are served
	lost := dial(t, goes)
	ask(lost, 2)
	s.Unbind("GOES")
	if n, err := lost.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection of the listener that went got %d bytes, %v", n, err)
	}
	if c, err := net.DialTCP("tcp", nil, goes); err == nil {
		_ = c.Close()
		t.Error("the removed listener still accepts connections")
	}
	ask(kept, 3)
	ask(dial(t, bind("AGAIN", goes.String())), 4) // its address is free again
}

// TestBrokersGetInThoughItIsFull: at max.connections clients have to wait, but another broker replaces the client that
// has been idle longest.
func TestBrokersGetInThoughItIsFull(t *testing.T) {
	s := NewServer(Config{RequestMaxBytes: 1 << 20, Limits: Limits{Max: 2, Protected: "INSIDE"}}, &echo{}, testlog.Quiet())
	t.Cleanup(s.Close)
	addrs := make(map[string]*net.TCPAddr)
	for _, name := range []string{"INSIDE", "OUTSIDE"} {
		a, err := s.Bind(Listener{Name: name, Addr: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		addrs[name] = a
	}
	s.Serve()
	var clients []net.Conn
	for i := range int32(2) {
		c := dial(t, addrs["OUTSIDE"])
		_, _ = c.Write(frame(echoNow, 0, i, ""))
		expect(t, c, i, "")
		clients = append(clients, c)
	}
	broker := dial(t, addrs["INSIDE"])
	_, _ = broker.Write(frame(echoNow, 0, 7, "replica"))
	expect(t, broker, 7, "replica")
	if n, err := clients[0].Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the idlest client got %d bytes, %v", n, err)
	}
	_, _ = clients[1].Write(frame(echoNow, 0, 8, "stays"))
	expect(t, clients[1], 8, "stays")
}

// TestMutedConnection: the request is answered, and the client's next one waits; meanwhile the server can be closed.
func TestMutedConnection(t *testing.T) {
	e := &echo{seen: make(chan int32, 10)}
	c := dial(t, start(t, e, Config{}))
	_, _ = c.Write(append(frame(echoNow, 0, 1, "mute"), frame(echoNow, 0, 2, "later")...))
	expect(t, c, 1, "mute")
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a muted connection was served: %v", err)
	}
	if len(e.seen) != 1 {
		t.Fatalf("%d requests were handled", len(e.seen))
	}
}

// TestConnectionsHeldBackDoNotCount: connections of an address that exceeds its quota take up neither the number nor the
// rate of connections that others may open.
func TestConnectionsHeldBackDoNotCount(t *testing.T) {
	var count atomic.Int32
	c := start(t, &echo{}, Config{
		Limits: Limits{Max: 1, MaxPerIP: 1, MaxListener: map[string]int{"PLAINTEXT": 1}},
		HoldBack: func(net.IP) time.Duration {
			if count.Add(1) <= 3 {
				return time.Hour
			}
			return 0
		},
		Pace: func(listener string) time.Duration {
			if n := count.Load(); n != 4 || listener != "PLAINTEXT" {
				t.Errorf("connection %d to listener %s is counted", n, listener)
			}
			return time.Millisecond
		},
	})
	for range 3 {
		_ = dial(t, c)
	}
	served := dial(t, c)
	_, _ = served.Write(frame(echoNow, 0, 1, "served"))
	expect(t, served, 1, "served")
}

// TestConnectionsHeldBack: connections that are held back are closed after the wait without an answer.
func TestConnectionsHeldBack(t *testing.T) {
	var first atomic.Bool
	c := start(t, &echo{}, Config{HoldBack: func(net.IP) time.Duration {
		if first.CompareAndSwap(false, true) {
			return 10 * time.Millisecond
		}
		return 0
	}})
	early := dial(t, c)
	_, _ = early.Write(frame(echoNow, 0, 1, "early"))
	if n, err := early.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a connection that came too early got %d bytes, %v", n, err)
	}
	second := dial(t, c)
	_, _ = second.Write(frame(echoNow, 0, 2, "second"))
	expect(t, second, 2, "second")
}

// TestEarlierAnswersBeforeABadFrame: earlier requests are answered, then the connection is closed.
func TestEarlierAnswersBeforeABadFrame(t *testing.T) {
	e := &echo{gates: make(chan chan struct{}, 10)}
	c := dial(t, start(t, e, Config{}))
	all := append(frame(echoNow, 0, 1, "first"), frame(echoLater, 0, 2, "second")...)
	_, _ = c.Write(append(all, 0xff, 0xff, 0xff, 0xfb))
	expect(t, c, 1, "first")
	close(<-e.gates)
	expect(t, c, 2, "second")
	if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %d bytes, %v", n, err)
	}
}

// TestIdleLimitSparesSlowTransfers: a connection on which a request arrives in pieces is not idle.
func TestIdleLimitSparesSlowTransfers(t *testing.T) {
	s, addr := serve(t, &echo{}, Config{})
	c := dial(t, addr)
	whole := frame(echoNow, 0, 1, strings.Repeat("x", 2000))
	for len(whole) > 0 {
		n, before := min(len(whole), 40), s.uptime()
		if _, err := c.Write(whole[:n]); err != nil {
			t.Fatal(err)
		}
		whole = whole[n:]
		testwait.Until(t, "a piece is read", func() bool { return s.lastActive() >= before })
		s.closeIdle(before) // as if the limit were the time since then
	}
	expect(t, c, 1, strings.Repeat("x", 2000))
}

func FuzzHeader(f *testing.F) {
	f.Add(frame(echoNow, 0, 1, "x")[4:])
	f.Add(frame(echoNow, 1, 1, "x")[4:])
	e := &echo{}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		if _, err := r.parseHeader(b, func(key, version int16) (Route, error) { return e.Route(nil, key, version) }); err == nil && len(r.Body) > len(b)-8 {
			t.Fatal("the body is larger than the frame")
		}
	})
}

// TestTrafficIsCounted: traffic is counted by listener in whole frames, including answers from files and requests
// without an answer.
func TestTrafficIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	e := &echo{gates: make(chan chan struct{}, 1), file: f}
	s := NewServer(Config{RequestMaxBytes: 1 << 20}, e, testlog.Quiet())
	t.Cleanup(s.Close)
	addr, err := s.Bind(Listener{Name: "USED", Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Bind(Listener{Name: "UNUSED", Addr: "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	s.Serve()
	c := dial(t, addr)
	var all []byte
	for i, key := range []int16{echoNow, silent, echoFile, echoLater} {
		all = append(all, frame(key, 0, int32(i), "body")...)
	}
	_, _ = c.Write(all)
	expect(t, c, 0, "body")
	expect(t, c, 2, "<file>")
	close(<-e.gates)
	expect(t, c, 3, "body")
	for name, want := range map[string][4]int64{"USED": {4, int64(len(all)), 3, 3*8 + 4 + 6 + 4}, "UNUSED": {}} {
		n := s.Traffic()[name]
		if got := [4]int64{n.Requests.Load(), n.BytesIn.Load(), n.Answers.Load(), n.BytesOut.Load()}; got != want {
			t.Errorf("%s: %d requests, %d bytes, %d answers, %d bytes; want %d", name, got[0], got[1], got[2], got[3], want)
		}
	}
}

// cutShort answers when the connection ends, like a handler whose wait is cancelled.
type cutShort struct {
	*echo
	waiting chan struct{}
}

func (c cutShort) Handle(context.Context, *Request) (Answer, error) {
	return Later(func(ctx context.Context) Response {
		close(c.waiting)
		<-ctx.Done()
		return text("in vain")
	}), nil
}

// TestNoAnswerFromAServerThatCloses: clients whose requests were not completed find the connection closed, and turn to
// another broker.
func TestNoAnswerFromAServerThatCloses(t *testing.T) {
	for _, key := range []int16{echoLater, echoAlone} {
		waiting := make(chan struct{})
		s := NewServer(Config{RequestMaxBytes: 1 << 20}, cutShort{new(echo), waiting}, testlog.Quiet())
		addr, err := s.Bind(Listener{Name: "PLAINTEXT", Addr: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		s.Serve()
		t.Cleanup(s.Close)
		c := dial(t, addr)
		if _, err := c.Write(frame(key, 0, 1, "x")); err != nil {
			t.Fatal(err)
		}
		<-waiting
		s.cancel()                        // Close gets to the connections one after the other
		time.Sleep(50 * time.Millisecond) // an answer would be sent meanwhile
		s.Close()
		if got, err := io.ReadAll(c); len(got) > 0 {
			t.Errorf("answered with %q, %v", got, err)
		}
	}
}
