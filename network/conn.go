package network

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
)

const (
	maxInFlight  = 64       // answers that may wait on one connection
	flushAt      = 64 << 10 // bytes of answers after which they are written even if more requests are buffered
	keepOutBytes = 64 << 10 // an answer buffer that has grown larger is not kept
)

var outs = sync.Pool{New: func() any { return new(Out) }}

// Conn is a client's connection. Its reader goroutine owns all fields except those marked as shared.
type Conn struct {
	Listener  string // the listener's name
	Host      string // the peer's address without the port, formatted as in Java, since it appears in ACLs and in groups
	Principal string // "User:ANONYMOUS" until the peer has authenticated

	TokenAuthenticated bool // Principal has logged in with a delegation token

	id     string
	tcp    *net.TCPConn
	raw    syscall.RawConn
	secure *transport // nil: plaintext
	server *Server
	in     *input
	out    *Out
	req    Request
	group  group
	log    *logrus.Entry
	muted  time.Time // nothing more is read until then

	traffic *Traffic // the listener's; shared

	auth     *authentication // nil: the listener does not use SASL
	frameMax int32           // bytes of the largest request allowed at this stage
	budget   *budget         // that requests are charged to; nil: none, as before a login
	share    share           // of the memory for clients that have not authenticated; guarded by preAuthMemory's lock
	preAuth  bool            // the client must authenticate and has not: its memory is counted

	ctx    context.Context // shared; ends when the connection closes
	cancel context.CancelCauseFunc

	software   atomic.Pointer[Software]   // shared; nil: not announced
	encryption atomic.Pointer[Encryption] // shared; nil: no TLS, or no handshake yet

	alive   func()       // the method value touch, created once
	active  atomic.Int64 // shared; the server's uptime, in nanoseconds, at the last bytes in either direction
	pending atomic.Int32 // shared; answers that the writer has not sent yet
	idle    sync.WaitGroup
	queue   chan waiting // to the writer; nil until there is one
	writer  sync.WaitGroup
}

// waiting is an Answer that awaits its turn.
type waiting struct {
	answer      Answer
	correlation int32
	flexible    bool
}

// remoteIP returns the peer's address without the port.
func (c *Conn) remoteIP() net.IP {
	if a, ok := c.tcp.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP
	}
	return nil
}

// ID returns the connection's id in Apache Kafka's form: local address, remote address, a number.
func (c *Conn) ID() string { return c.id }

func newConn(s *Server, l *bound, tcp *net.TCPConn, number uint64) (*Conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &Conn{
		Listener:  l.Name,
		Principal: "User:ANONYMOUS",
		id:        tcp.LocalAddr().String() + "-" + tcp.RemoteAddr().String() + "-" + strconv.FormatUint(number, 10),
		tcp:       tcp,
		raw:       raw,
		server:    s,
		log:       s.log,
		traffic:   &l.traffic,
		frameMax:  s.cfg.RequestMaxBytes,
		budget:    s.budget,
	}
	if settings := l.sasl.Load(); settings != nil {
		c.auth = &authentication{server: settings, counts: &l.authentications}
		c.frameMax, c.budget = min(settings.MaxReceive, s.cfg.RequestMaxBytes), nil
	}
	c.preAuth = c.auth != nil || l.TLS != nil
	c.Host = hostName(c.remoteIP())
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	c.alive = c.touch
	c.touch()
	if l.TLS != nil {
		c.secure = &transport{settings: l.TLS, counts: &l.authentications}
	}
	c.in = newInput(raw, c.secure, s.yielder)
	return c, nil
}

// touch notes that bytes have come or gone.
func (c *Conn) touch() { c.active.Store(int64(c.server.uptime())) }

var (
	errIdle    = errors.New("idle for connections.max.idle.ms")
	errUnbound = errors.New("the listener was closed")
	errCrowded = errors.New("closed to make room for a connection from another broker: max.connections is reached")
	errHungUp  = errors.New("closed to report an error in a request that has no response")
)

// close ends the connection and may be called by any goroutine; the reader then returns.
func (c *Conn) close(why error) {
	c.cancel(why)
	if c.secure != nil {
		c.secure.interrupt(c.tcp)
		return
	}
	_ = c.tcp.Close()
}

// serve is the reader goroutine. It returns when the connection has ended and so has everything that it started.
func (c *Conn) serve() {
	err := c.handshake()
	if err == nil {
		err = c.readRequests()
	}
	c.settle()
	c.close(err)
	c.server.preAuth.drop(c)
	if c.queue != nil {
		close(c.queue)
		c.writer.Wait()
	}
	if c.secure != nil {
		c.secure.close(c.tcp)
	}
	c.in.idle()
	c.in.release()
	if c.out != nil {
		c.releaseOut()
	}
	c.logEnd(err)
}

// settle answers the requests that came before the frame that ends the connection.
func (c *Conn) settle() {
	if c.ctx.Err() != nil {
		return
	}
	if c.flush() == nil && c.pending.Load() != 0 {
		c.idle.Wait()
	}
}

// logEnd logs the end of a refused connection, sampled if there are many; an ordinary end is not logged.
func (c *Conn) logEnd(err error) {
	level := logrus.InfoLevel
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, errLoginExpired) || errors.As(err, new(loginError)) ||
		errors.As(err, new(handshakeError)) || c.server.ctx.Err() != nil {
		level = logrus.DebugLevel
	}
	if !c.log.Logger.IsLevelEnabled(level) {
		return
	}
	line := c.log
	if level == logrus.InfoLevel {
		var ok bool
		if line, ok = c.server.refused.Line("connection closed", line); !ok {
			return
		}
	}
	line.WithError(err).WithFields(logrus.Fields{
		logx.Conn: c.id, logx.Listener: c.Listener, logx.API: c.req.Key, logx.Version: c.req.Version,
	}).Log(level, "connection closed")
}

func (c *Conn) readRequests() error {
	for {
		frame, err := c.nextFrame()
		if err != nil {
			return err
		}
		if err := c.handle(frame); err != nil {
			return err
		}
		if err := c.waitMuted(); err != nil {
			return err
		}
	}
}

// Mute makes the connection wait before it reads its next request, for a client that exceeds its quota (KIP-219: it has
// got its response, which says for how long). It is for handlers whose answers do not overlap, and for the first half
// of others.
func (c *Conn) Mute(d time.Duration) {
	if until := time.Now().Add(d); d > 0 && until.After(c.muted) {
		c.muted = until
	}
}

func (c *Conn) waitMuted() error {
	if c.muted.IsZero() {
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.in.idle()
	defer c.in.busy()
	until := c.muted
	c.muted = time.Time{}
	return await.Pause(c.ctx, time.Until(until))
}

// nextFrame returns the next whole request.
func (c *Conn) nextFrame() ([]byte, error) {
	for len(c.in.unread()) < 4 {
		if err := c.readMore(); err != nil {
			return nil, err
		}
	}
	size := int32(binary.BigEndian.Uint32(c.in.unread()))
	if size < 0 || size > c.frameMax {
		return nil, c.sizeError(size)
	}
	if err := c.takeBudget(int(size)); err != nil {
		return nil, err
	}
	frame, err := c.wholeFrame(int(size))
	if err != nil {
		c.budget.release(int(size))
	}
	return frame, err
}

// wholeFrame returns the next request, without its size, when all of it has arrived.
func (c *Conn) wholeFrame(size int) ([]byte, error) {
	for {
		unread := c.in.unread()
		if len(unread) >= 4+size {
			return unread[4 : 4+size], nil
		}
		if err := c.reserve(len(unread), 4+size); err != nil {
			return nil, err
		}
		if err := c.readMore(); err != nil {
			return nil, err
		}
	}
}

// readMore waits for more bytes. Before that, it sends the answers collected so far.
func (c *Conn) readMore() error {
	if len(c.in.unread()) > 0 {
		c.touch()
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.in.fill()
}

// reserve makes room for a request that has arrived in part. The buffer grows with the bytes that arrive, not with the
// announced size.
func (c *Conn) reserve(come, whole int) error {
	if !c.preAuth {
		c.in.reserve(min(whole, 4*max(come, c.in.least)))
		return nil
	}
	size := pooledSize(min(whole, max(2*come, c.in.least)))
	if err := c.hold(size); err != nil {
		return err
	}
	c.in.reserve(size)
	return nil
}

func (c *Conn) takeBudget(size int) error {
	if c.budget.tryTake(size) {
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.budget.take(c.ctx, size)
}

// handle runs the first half of a request, and sends its answer or leaves it to the writer.
func (c *Conn) handle(frame []byte) error {
	budget := c.budget // a login changes it
	if c.auth != nil {
		if mine, err := c.admit(frame); mine || err != nil {
			budget.release(len(frame))
			return err
		}
	}
	frames, route := c.gather(frame)
	if len(frames) > 1 {
		return c.handleTogether(frames, route)
	}
	clear(frames)
	c.traffic.received(4 + len(frame))
	route, answer, err := c.firstHalf(frame)
	c.req.Body = nil // it would keep a large read buffer from being freed
	budget.release(len(frame))
	if err != nil {
		return err
	}
	c.in.consume(4 + len(frame))
	if answer.hang {
		return errHungUp
	}
	if c.auth == nil {
		c.in.useUsualBuffers()
	}
	w := waiting{answer, c.req.Correlation, route.FlexibleResponse}
	if c.auth != nil && c.auth.failed != nil {
		return c.answerFailed(w)
	}
	return c.answerInTurn(w, route)
}

// answerInTurn sends an answer, or leaves it to the writer if it or an earlier one has to wait.
func (c *Conn) answerInTurn(w waiting, route Route) error {
	if c.pending.Load() != 0 || (w.answer.waits() && route.Overlap) {
		return c.enqueue(w)
	}
	return c.answerNow(w)
}

func (c *Conn) firstHalf(frame []byte) (Route, Answer, error) {
	r := &c.req
	r.Conn, r.Arrived = c, time.Now()
	c.active.Store(int64(r.Arrived.Sub(c.server.started)))
	route, err := r.parseHeader(frame, c.route)
	if err != nil {
		return route, Answer{}, err
	}
	if !route.Overlap && c.pending.Load() != 0 {
		c.in.idle()
		c.idle.Wait()
		c.in.busy()
	}
	if c.auth != nil && c.auth.failed != nil {
		answer, err := c.server.dispatcher.Refuse(r, c.auth.failed)
		if err != nil {
			err = c.holdBack(err)
		}
		return route, answer, err
	}
	answer, err := c.server.dispatcher.Handle(c.ctx, r)
	return route, answer, err
}

func (c *Conn) route(key, version int16) (Route, error) {
	return c.server.dispatcher.Route(c, key, version)
}

// answerNow answers on the reader's own goroutine: no earlier answer is pending.
func (c *Conn) answerNow(w waiting) error {
	if w.answer.waits() {
		if err := c.flush(); err != nil {
			return err
		}
		if len(c.in.unread()) == 0 {
			c.in.release() // a thousand waiting consumers need not hold a thousand buffers
		}
		c.in.idle()
		defer c.in.busy()
	}
	resp := w.answer.Wait(c.ctx)
	if resp == nil {
		return context.Cause(c.ctx)
	}
	c.traffic.answered(c.takeOut().appendAnswer(w.correlation, w.flexible, resp))
	if len(c.out.Buf) >= flushAt {
		return c.flush()
	}
	return nil
}

// takeOut returns the collector of the answers that the reader sends.
func (c *Conn) takeOut() *Out {
	if c.out == nil {
		c.out = outs.Get().(*Out)
	}
	return c.out
}

func (c *Conn) flush() error {
	if c.out == nil {
		return nil
	}
	err := c.send(c.out)
	c.releaseOut()
	return err
}

// send writes answers unless the connection has ended. Answers that waited until then, for example for replicas while
// the broker stops, know no outcome: a client that got an error would give up, where otherwise it retries.
func (c *Conn) send(out *Out) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if c.secure != nil {
		return c.secure.writeOut(out)
	}
	return writeOut(c.raw, out, c.server.rawCalls, c.alive)
}

func (c *Conn) releaseOut() {
	putOut(c.out)
	c.out = nil
}

func putOut(o *Out) {
	o.reset()
	if cap(o.Buf) <= keepOutBytes {
		outs.Put(o)
	}
}

// enqueue hands an Answer to the writer, which it starts for the first one.
func (c *Conn) enqueue(w waiting) error {
	if err := c.flush(); err != nil { // earlier answers must go out first
		return err
	}
	if c.queue == nil {
		c.queue = make(chan waiting, maxInFlight)
		c.writer.Go(c.write)
	}
	c.pending.Add(1)
	c.idle.Add(1)
	select {
	case c.queue <- w:
		return nil
	case <-c.ctx.Done():
		c.pending.Add(-1)
		c.idle.Done()
		return context.Cause(c.ctx)
	}
}

// write is the writer goroutine: it sends answers in order until the queue is closed.
func (c *Conn) write() {
	out := outs.Get().(*Out)
	defer putOut(out)
	for w := range c.queue {
		resp := w.answer.Wait(c.ctx)
		if resp != nil {
			c.traffic.answered(out.appendAnswer(w.correlation, w.flexible, resp)) // also when the connection is over: it closes the files
			if err := c.send(out); err != nil {
				c.close(err)
			}
			c.touch()
		}
		out.reset()
		c.pending.Add(-1)
		c.idle.Done()
	}
}
