package zkserver

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"barnabas/internal/logx"
)

// maxUnsentBytes is how much may be queued for a client that does not read before it is disconnected.
const maxUnsentBytes = 64 << 20

// handshakeTimeout is how long a connection may take to send its first request.
const handshakeTimeout = 30 * time.Second

// event is an event for the loop.
type event struct {
	conn    *conn
	kind    eventKind
	request request
	connect connectRequest
	command string // for command events
}

type eventKind uint8

const (
	frameEvent eventKind = iota
	connectEvent
	commandEvent
	goneEvent
)

// conn is a connection. Its reader decodes requests and passes them to the loop; its writer sends what the loop
// provides.
type conn struct {
	server  *Server
	nc      net.Conn
	since   time.Time
	address ID // the identity that every connection has

	// Owned by the loop.
	session *session
	ids     []ID
	pending []byte // responses and events of the current batch
	closing bool   // close after pending is sent

	mu struct {
		sync.Mutex // leaf
		out        []byte
		end        bool // nothing follows out
	}
	wake chan struct{}
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc, since: time.Now(), wake: make(chan struct{}, 1)}
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.address = ID{"ip", tcp.AddrPort().Addr().Unmap().WithZone("").String()}
	} else {
		c.address = ID{"ip", nc.RemoteAddr().String()}
	}
	c.ids = []ID{c.address}
	return c
}

// read passes frames to the loop until the connection ends.
func (c *conn) read() {
	defer c.server.goroutines.Done()
	defer func() {
		c.server.release(c)
		c.send(nil, true)
		c.post(event{kind: goneEvent})
	}()
	in := bufio.NewReaderSize(c.nc, 32<<10)
	c.nc.SetReadDeadline(time.Now().Add(handshakeTimeout))
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return
	}
	if fourLetterWords[string(head[:])] {
		c.post(event{kind: commandEvent, command: string(head[:])})
		io.Copy(io.Discard, in) // until the response is sent and the connection closed
		return
	}
	first, err := c.readBody(in, head)
	if err != nil {
		c.refuse(err)
		return
	}
	hello, err := decodeConnect(first)
	if err != nil {
		c.refuse(err)
		return
	}
	c.post(event{kind: connectEvent, connect: hello})
	c.nc.SetReadDeadline(time.Time{})
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		frame, err := c.readBody(in, head)
		if err != nil {
			c.refuse(err)
			return
		}
		q, err := decodeRequest(frame)
		if err != nil {
			c.refuse(err)
			return
		}
		if !c.post(event{kind: frameEvent, request: q}) {
			return
		}
	}
}

// readBody reads the rest of a frame. Memory is allocated as the bytes arrive, rather than as announced.
func (c *conn) readBody(in *bufio.Reader, head [4]byte) ([]byte, error) {
	size := int32(binary.BigEndian.Uint32(head[:]))
	if size < 0 || int(size) > c.server.cfg.MaxFrameBytes {
		return nil, fmt.Errorf("zkserver: a frame of %d bytes", size)
	}
	const step = 64 << 10
	frame := make([]byte, 0, min(int(size), step))
	for len(frame) < int(size) {
		start := len(frame)
		next := min(int(size), start+step)
		frame = append(frame, make([]byte, next-start)...)
		if _, err := io.ReadFull(in, frame[start:]); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

// refuse logs why a connection is closed.
func (c *conn) refuse(err error) {
	if err == io.EOF || err == io.ErrUnexpectedEOF || c.server.isClosed() {
		return
	}
	c.server.cfg.Logger.WithError(err).WithField(logx.Client, c.nc.RemoteAddr().String()).Warn("closing a ZooKeeper connection: invalid request")
}

// post passes an event to the loop; it returns false if the loop has ended.
func (c *conn) post(e event) bool {
	e.conn = c
	select {
	case c.server.events <- e:
		return true
	case <-c.server.quit:
		return false
	}
}

// send passes bytes to the writer; if end is true the connection is closed after them. A client that reads nothing for
// too long is disconnected.
func (c *conn) send(data []byte, end bool) {
	c.mu.Lock()
	c.mu.out = append(c.mu.out, data...)
	c.mu.end = c.mu.end || end
	tooMuch := len(c.mu.out) > maxUnsentBytes
	c.mu.Unlock()
	if tooMuch {
		c.nc.Close()
	}
	select {
	case c.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// write sends what the loop provides until the connection ends.
func (c *conn) write() {
	defer c.server.goroutines.Done()
	defer c.nc.Close() // ends the reader too
	var spare []byte
	for {
		select {
		case <-c.wake:
		case <-c.server.quit:
			return
		}
		c.mu.Lock()
		out, end := c.mu.out, c.mu.end
		c.mu.out = spare[:0]
		c.mu.Unlock()
		if _, err := c.nc.Write(out); err != nil || end {
			return
		}
		if spare = out; cap(spare) > 1<<20 {
			spare = nil
		}
	}
}
