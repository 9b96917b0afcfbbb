package zkserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"time"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
)

// The limit of a batch: what is applied before it is made durable and answered.
const maxBatchEvents = 4096

// loop owns the tree, the sessions and the watches.
type loop struct {
	server   *Server
	store    *store
	tree     *Tree
	watches  Watches[*conn]
	sessions map[int64]*session
	secret   []byte
	lastID   int64 // of sessions
	stats    stats

	// Of the current batch.
	now       time.Time
	touched   map[*conn]struct{} // connections with pending output
	changed   batch
	committed int64 // the zxid of the last commit
}

// session is a client's session. It outlives its connections.
type session struct {
	id      int64
	timeout time.Duration
	expires time.Time
	conn    *conn // nil while the client is disconnected
}

type stats struct {
	received, sent int64
}

func newLoop(s *Server, store *store, was *saved, now time.Time) *loop {
	l := &loop{server: s, store: store, tree: was.tree, secret: was.secret, sessions: map[int64]*session{},
		touched: map[*conn]struct{}{}, committed: was.tree.zxid, lastID: firstSessionID(now)}
	for id, timeout := range was.sessions {
		if s.cfg.ForgetSessions {
			timeout = 0
		}
		l.sessions[id] = &session{id: id, timeout: timeout, expires: now.Add(timeout)}
		l.lastID = max(l.lastID, id)
	}
	l.changed = newBatch()
	return l
}

func newBatch() batch {
	return batch{opened: map[int64]time.Duration{}, closed: map[int64]struct{}{}}
}

// firstSessionID returns an id that no earlier server can have reached: as in ZooKeeper, sessions are numbered from the
// time of the start.
func firstSessionID(now time.Time) int64 {
	return int64(uint64(now.UnixMilli())<<24>>8) | 1<<56
}

// run is the loop's goroutine.
func (l *loop) run() {
	defer close(l.server.done)
	defer l.store.close()
	ticker := time.NewTicker(min(max(l.server.cfg.MinTimeout/4, 10*time.Millisecond), time.Second))
	defer ticker.Stop()
	for {
		var err error
		select {
		case e := <-l.server.events:
			l.handle(e)
			l.drain()
			err = l.finish()
		case <-ticker.C:
			l.drain() // before anything expires: a heartbeat may be waiting
			l.expire()
			l.removeContainers()
			err = l.finish()
		case <-l.server.quit:
			return
		}
		if err != nil {
			l.server.cfg.Logger.WithError(err).Error("the ZooKeeper server has stopped: its file cannot be written")
			l.server.shut(fmt.Errorf("zkserver: %w", err))
			return
		}
	}
}

// drain handles the events that have arrived meanwhile, up to a limit.
func (l *loop) drain() {
	for range maxBatchEvents {
		select {
		case e := <-l.server.events:
			l.handle(e)
		default:
			return
		}
	}
}

// finish makes the batch durable and then releases its responses.
func (l *loop) finish() error {
	if l.tree.zxid != l.committed || len(l.changed.opened)+len(l.changed.closed) > 0 {
		if err := l.store.commit(l.tree, l.changed); err != nil {
			return err
		}
		l.committed = l.tree.zxid
		l.changed = newBatch()
	}
	for c := range l.touched {
		c.send(c.pending, c.closing)
		if c.pending = c.pending[:0]; cap(c.pending) > 1<<20 {
			c.pending = nil
		}
	}
	clear(l.touched)
	return nil
}

func (l *loop) handle(e event) {
	l.now = time.Now()
	c := e.conn
	switch e.kind {
	case connectEvent:
		l.stats.received++
		l.connect(c, e.connect)
	case commandEvent:
		l.reply(c, []byte(l.fourLetterWord(e.command)))
		l.end(c)
	case goneEvent:
		l.detach(c)
	case frameEvent:
		l.stats.received++
		if c.session == nil || c.closing {
			return // it ended while this was on its way
		}
		c.session.expires = l.now.Add(c.session.timeout)
		l.serve(c, e.request)
	}
}

// reply appends bytes to what the connection gets when the batch is durable.
func (l *loop) reply(c *conn, data []byte) {
	if c.closing {
		return
	}
	c.pending = append(c.pending, data...)
	l.touched[c] = struct{}{}
	l.stats.sent++
}

// frame appends a frame; body appends what follows the length.
func (l *loop) frame(c *conn, body func([]byte) []byte) {
	if c.closing {
		return
	}
	start := len(c.pending)
	c.pending = body(append(c.pending, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(c.pending[start:], uint32(len(c.pending)-start-4))
	l.touched[c] = struct{}{}
	l.stats.sent++
}

// end closes the connection after its pending output.
func (l *loop) end(c *conn) {
	l.detach(c)
	c.closing = true
	l.touched[c] = struct{}{}
}

// detach detaches the connection from its session, which continues without it.
func (l *loop) detach(c *conn) {
	l.watches.Forget(c)
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
	c.session = nil
}

// connect opens a session, or resumes one.
func (l *loop) connect(c *conn, hello connectRequest) {
	log := l.server.cfg.Logger.WithField(logx.Client, c.nc.RemoteAddr().String())
	if hello.lastZxid > l.tree.zxid {
		log.WithField(logx.Zxid, hello.lastZxid).Warn("closing a ZooKeeper connection: the client has seen newer data than this server has")
		l.end(c)
		return
	}
	timeout := min(max(time.Duration(hello.timeoutMs)*time.Millisecond, l.server.cfg.MinTimeout), l.server.cfg.MaxTimeout)
	s := l.sessionFor(hello, timeout)
	if s == nil {
		log.WithField(logx.Session, sessionName(hello.session)).Info("the requested ZooKeeper session no longer exists")
		l.frame(c, func(b []byte) []byte {
			return appendConnectResponse(b, connectResponse{password: make([]byte, 16), hasFlag: hello.hasFlag})
		})
		l.end(c)
		return
	}
	if s.conn != nil {
		l.end(s.conn)
	}
	s.conn, c.session = c, s
	l.frame(c, func(b []byte) []byte {
		return appendConnectResponse(b, connectResponse{timeoutMs: int32(s.timeout.Milliseconds()), session: s.id,
			password: l.password(s.id), hasFlag: hello.hasFlag})
	})
	if log.Logger.IsLevelEnabled(logrus.DebugLevel) {
		log.WithField(logx.Session, sessionName(s.id)).Debug("zookeeper client connected")
	}
}

// sessionFor opens a session or finds the requested one; nil means that it no longer exists.
func (l *loop) sessionFor(hello connectRequest, timeout time.Duration) *session {
	s := l.sessions[hello.session]
	switch {
	case hello.session == 0:
		l.lastID++
		s = &session{id: l.lastID}
		l.sessions[s.id] = s
		l.tree.zxid++ // opening and closing a session are writes, as in ZooKeeper
	case s == nil || subtle.ConstantTimeCompare(hello.password, l.password(s.id)) == 0:
		return nil
	}
	if s.timeout != timeout {
		s.timeout = timeout
		l.changed.opened[s.id] = timeout
	}
	s.expires = l.now.Add(timeout)
	return s
}

// password returns what a client must present to resume its session.
func (l *loop) password(session int64) []byte {
	sum := sha256.Sum256(appendInt64(append([]byte{}, l.secret...), session))
	return sum[:16]
}

func sessionName(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }

// expire ends the sessions that have sent nothing for too long.
func (l *loop) expire() {
	l.now = time.Now()
	for id, s := range l.sessions {
		if s.expires.After(l.now) {
			continue
		}
		l.server.cfg.Logger.WithField(logx.Session, sessionName(id)).Info("zookeeper session expired")
		c := s.conn
		l.closeSession(s)
		if c != nil {
			l.end(c)
		}
	}
}

// closeSession removes a session and its ephemeral nodes.
func (l *loop) closeSession(s *session) {
	delete(l.sessions, s.id)
	delete(l.changed.opened, s.id)
	l.changed.closed[s.id] = struct{}{}
	l.announce(l.tree.CloseSession(s.id))
}

// removeContainers deletes containers whose last child is gone.
func (l *loop) removeContainers() {
	for _, path := range l.tree.emptyContainers() {
		_, changes, _, _ := l.tree.Write(l.now.UnixMilli(), Caller{}, dropContainer{path})
		l.announce(changes)
	}
}

// announce sends the events of changes to the watchers.
func (l *loop) announce(changes []Change) {
	for _, change := range changes {
		for _, fired := range l.watches.Fire(change) {
			l.event(fired.Client, fired.Kind, fired.Path)
		}
	}
}

func (l *loop) event(c *conn, kind EventKind, path string) {
	l.frame(c, func(b []byte) []byte {
		b = appendHeader(b, eventXid, -1, OK)
		b = appendInt32(b, int32(kind))
		b = appendInt32(b, stateConnected)
		return appendText(b, path)
	})
}

func appendHeader(b []byte, xid int32, zxid int64, code Code) []byte {
	b = appendInt32(b, xid)
	b = appendInt64(b, zxid)
	return appendInt32(b, int32(code))
}
