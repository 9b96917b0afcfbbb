package zkcoord

import (
	"context"
	"fmt"
	"sync"

	"barnabas/internal/logx"

	"github.com/go-zookeeper/zk"
	"github.com/sirupsen/logrus"
)

// SessionEvent is a change of the session with ZooKeeper.
type SessionEvent int

const (
	// SessionConnected: the connection is back and the session continues; nothing was lost.
	SessionConnected SessionEvent = iota + 1
	// SessionSuspended: the connection broke. The session may still exist on the server.
	SessionSuspended
	// SessionExpired: the session, its ephemeral nodes and all watches are gone.
	SessionExpired
	// SessionReestablished: there is a new session after one has expired. Register, read and watch again.
	SessionReestablished
)

// String returns the name of the event.
func (e SessionEvent) String() string {
	switch e {
	case SessionConnected:
		return "connected"
	case SessionSuspended:
		return "suspended"
	case SessionExpired:
		return "expired"
	case SessionReestablished:
		return "reestablished"
	}
	return fmt.Sprintf("SessionEvent(%d)", int(e))
}

// OnSession subscribes to the session's events from now on. Changes and session events are delivered on one goroutine,
// in order; f must not block. cancel ends the subscription.
func (c *Client) OnSession(f func(SessionEvent)) (cancel func()) {
	return c.events.subscribe(func(e any) {
		if e, ok := e.(SessionEvent); ok {
			f(e)
		}
	})
}

// OnChange subscribes to what watches report from now on. Changes and session events are delivered on one goroutine, in
// order; f must not block. cancel ends the subscription.
func (c *Client) OnChange(f func(Change)) (cancel func()) {
	return c.events.subscribe(func(e any) {
		if e, ok := e.(Change); ok {
			f(e)
		}
	})
}

// session is what the client knows about its sessions.
type session struct {
	first chan struct{} // closed when there is a session
	mu    struct {
		sync.Mutex
		id      int64              // 0 between two sessions
		earlier map[int64]struct{} // expired sessions of this client
		up      chan struct{}      // closed while connected with a session
	}
}

func (s *session) init() {
	s.first = make(chan struct{})
	s.mu.up = make(chan struct{})
	s.mu.earlier = make(map[int64]struct{})
}

// awaitConnected returns when there is a connected session.
func (s *session) awaitConnected(ctx context.Context, closed <-chan struct{}) error {
	s.mu.Lock()
	up := s.mu.up
	s.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-closed:
		return ErrClosed
	}
}

// connected records that the server has created or confirmed a session.
func (s *session) connected(id int64) SessionEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.mu.up:
	default:
		close(s.mu.up)
	}
	before := s.mu.id
	s.mu.id = id
	if before == 0 && len(s.mu.earlier) > 0 {
		return SessionReestablished
	}
	if before == 0 {
		close(s.first)
	}
	return SessionConnected
}

// disconnected reports whether the connection was up until now.
func (s *session) disconnected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.downLocked()
}

func (s *session) downLocked() bool {
	select {
	case <-s.mu.up:
		s.mu.up = make(chan struct{})
		return true
	default:
		return false
	}
}

func (s *session) expired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.downLocked()
	if s.mu.id != 0 {
		s.mu.earlier[s.mu.id] = struct{}{}
		s.mu.id = 0
	}
}

// current returns the session's id, or 0 between two.
func (s *session) current() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.id
}

// owner says who owns an ephemeral node.
type owner int

const (
	ownerOther   owner = iota
	ownerCurrent       // this client's session
	ownerEarlier       // an expired session of this client (ZOOKEEPER-2985: its nodes may outlive it)
)

func (s *session) owns(ephemeralOwner int64) owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ephemeralOwner == s.mu.id && s.mu.id != 0 {
		return ownerCurrent
	}
	if _, ok := s.mu.earlier[ephemeralOwner]; ok {
		return ownerEarlier
	}
	return ownerOther
}

// onLibraryEvent receives the library's events on its goroutines, and queues them.
func (c *Client) onLibraryEvent(e zk.Event) {
	if e.Type == zk.EventSession {
		c.onState(e.State)
		return
	}
	path := e.Path[min(len(c.chroot), len(e.Path)):]
	c.watches.fired(path, e.Type)
	if e.Type == zk.EventNotWatching {
		return
	}
	if change, ok := changeOf(path); ok {
		c.events.post(change)
	}
}

func (c *Client) onState(state zk.State) {
	select {
	case <-c.closed: // the session is being closed by the client: not an event
		return
	default:
	}
	switch state {
	case zk.StateHasSession:
		event := c.session.connected(c.conn.SessionID())
		if event == SessionReestablished {
			c.logSession().Warn("zookeeper session reestablished")
		} else {
			c.logSession().Debug("zookeeper session connected")
		}
		c.events.post(event)
	case zk.StateDisconnected:
		if c.session.disconnected() {
			c.log.Warn("zookeeper connection lost")
			c.events.post(SessionSuspended)
		}
	case zk.StateExpired:
		c.session.expired()
		c.hosts.Connected() // the server answers: reconnect without a pause
		c.log.Warn("zookeeper session expired")
		c.events.post(SessionExpired)
	}
}

func (c *Client) logSession() *logrus.Entry {
	return c.log.WithField(logx.Session, fmt.Sprintf("%#x", c.conn.SessionID()))
}
