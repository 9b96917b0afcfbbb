package network

import (
	"container/list"
	"errors"
	"sync"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
)

const (
	// newcomersBytes is how much memory may be held for connections whose client has not authenticated, beyond what each of
	// them costs anyhow. A login has a few hundred bytes, so those that need none of it are nearly all that are honest.
	newcomersBytes = 64 << 20
	// freeBytes is what a connection may hold without being counted.
	freeBytes = firstBufferSize
)

var errSlowLogin = errors.New("closed to make room: too much is held for clients that have not authenticated, and for this one for longest")

// newcomers bounds what is held for connections before their clients have authenticated: parts of requests and what an
// exchange keeps of them, messages of TLS handshakes. Where there is no room, those lose that have held something for
// longest: a client that means to log in is done within some round trips.
type newcomers struct {
	max int64
	mu  struct {
		sync.Mutex
		used  int64
		order list.List // of *Conn that hold something, by when they began
	}
}

// share is what is held for one connection; newcomers' lock guards it.
type share struct {
	bytes int64
	place *list.Element // nil: it holds nothing
	lost  bool
}

// hold says that a connection needs so many bytes in all. It returns those that lose their place, which may be this one;
// one that has lost it before gets nothing.
func (n *newcomers) hold(c *Conn, bytes int) (losers []*Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	grown := int64(bytes) - c.share.bytes
	switch {
	case c.share.lost:
		return []*Conn{c}
	case bytes <= freeBytes || grown <= 0:
		return nil
	case c.share.place == nil:
		c.share.place = n.mu.order.PushBack(c)
	}
	c.share.bytes += grown
	n.mu.used += grown
	return n.makeRoomLocked()
}

// makeRoomLocked takes their shares from as many connections as have to go. One alone may have what its listener allows,
// as with queued.max.request.bytes.
func (n *newcomers) makeRoomLocked() (losers []*Conn) {
	for n.mu.used > n.max && n.mu.order.Len() > 1 {
		c := n.mu.order.Front().Value.(*Conn)
		n.dropLocked(c)
		c.share.lost = true
		losers = append(losers, c)
	}
	return losers
}

// drop says that a connection holds nothing any more that is to be counted: its client has authenticated, or it is over.
func (n *newcomers) drop(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropLocked(c)
}

func (n *newcomers) dropLocked(c *Conn) {
	if c.share.place != nil {
		n.mu.order.Remove(c.share.place)
	}
	n.mu.used -= c.share.bytes
	c.share.bytes, c.share.place = 0, nil
}

// hold asks for memory before the client has authenticated; whoever has to go for it is closed.
func (c *Conn) hold(bytes int) (err error) {
	for _, loser := range c.server.newcomers.hold(c, bytes) {
		if loser == c {
			err = errSlowLogin
			continue
		}
		loser.close(errSlowLogin)
		if line, ok := c.server.refused.Line("slow login", c.log); ok {
			line.WithError(errSlowLogin).WithFields(logrus.Fields{
				logx.Conn: loser.id, logx.Listener: loser.Listener, logx.Client: loser.RemoteIP().String(),
			}).Info("connection closed")
		}
	}
	return err
}

// welcome ends the time in which little is given to a connection: its client has authenticated, or has sent a request where
// nobody needs to.
func (c *Conn) welcome() {
	c.known()
	c.in.welcome()
}

// known says that what is held for the connection is not to be counted any more.
func (c *Conn) known() {
	if c.newcomer {
		c.server.newcomers.drop(c)
		c.newcomer = false
	}
}
