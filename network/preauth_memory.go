package network

import (
	"container/list"
	"errors"
	"sync"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
)

const (
	// preAuthBytes bounds the memory held for connections whose clients have not authenticated, beyond what every
	// connection costs. A login has a few hundred bytes, so nearly all honest clients need none of it.
	preAuthBytes = 64 << 20
	// freeBytes is what a connection may hold without being counted.
	freeBytes = firstBufferSize
)

var errSlowLogin = errors.New("closed to make room: of the clients that have not authenticated and hold too much memory together, this one has waited longest")

// preAuthMemory bounds the memory held for connections before their clients have authenticated: partial requests, the
// state of a login, messages of TLS handshakes. When it is exhausted, the connections that have held some for longest
// are closed: an honest client completes its login within a few round trips.
type preAuthMemory struct {
	max int64
	mu  struct {
		sync.Mutex
		used  int64
		order list.List // of *Conn that hold something, by when they began
	}
}

// share is the memory held for one connection; guarded by the lock of preAuthMemory.
type share struct {
	bytes int64
	place *list.Element // nil: it holds nothing
	lost  bool
}

// hold declares the total number of bytes that a connection needs. It returns the connections that have to be closed
// for that, possibly including this one. A connection that was dropped before gets nothing.
func (m *preAuthMemory) hold(c *Conn, bytes int) (losers []*Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	grown := int64(bytes) - c.share.bytes
	switch {
	case c.share.lost:
		return []*Conn{c}
	case bytes <= freeBytes || grown <= 0:
		return nil
	case c.share.place == nil:
		c.share.place = m.mu.order.PushBack(c)
	}
	c.share.bytes += grown
	m.mu.used += grown
	return m.makeRoomLocked()
}

// makeRoomLocked takes their shares from as many connections as necessary. A single connection may have what its
// listener allows, as with queued.max.request.bytes.
func (m *preAuthMemory) makeRoomLocked() (losers []*Conn) {
	for m.mu.used > m.max && m.mu.order.Len() > 1 {
		c := m.mu.order.Front().Value.(*Conn)
		m.dropLocked(c)
		c.share.lost = true
		losers = append(losers, c)
	}
	return losers
}

// drop releases the share of a connection: its client has authenticated, or the connection has ended.
func (m *preAuthMemory) drop(c *Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropLocked(c)
}

func (m *preAuthMemory) dropLocked(c *Conn) {
	if c.share.place != nil {
		m.mu.order.Remove(c.share.place)
	}
	m.mu.used -= c.share.bytes
	c.share.bytes, c.share.place = 0, nil
}

// hold requests memory before the client has authenticated, and closes the connections that have to give way.
func (c *Conn) hold(bytes int) (err error) {
	for _, loser := range c.server.preAuth.hold(c, bytes) {
		if loser == c {
			err = errSlowLogin
			continue
		}
		loser.close(errSlowLogin)
		if line, ok := c.server.refused.Line("slow login", c.log); ok {
			line.WithError(errSlowLogin).WithFields(logrus.Fields{
				logx.Conn: loser.id, logx.Listener: loser.Listener, logx.Client: loser.remoteIP().String(),
			}).Info("connection closed")
		}
	}
	return err
}

// authenticated lifts the restrictions on a new connection: its client has authenticated, or has sent a request on a
// listener without authentication.
func (c *Conn) authenticated() {
	c.releasePreAuth()
	c.in.useUsualBuffers()
}

// releasePreAuth records that the memory of the connection need not be counted any more.
func (c *Conn) releasePreAuth() {
	if c.preAuth {
		c.server.preAuth.drop(c)
		c.preAuth = false
	}
}
