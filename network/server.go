package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/network/sasl"

	"github.com/sirupsen/logrus"
)

// Listener is an address to accept connections on.
type Listener struct {
	Name string       // as in listeners and listener.security.protocol.map
	Addr string       // host:port; an empty host means every interface
	SASL *sasl.Server // how clients authenticate, until SetSASL changes it; nil: without SASL
	TLS  *TLS         // nil: plaintext
}

// Config holds the settings of a Server.
type Config struct {
	RequestMaxBytes int32         // socket.request.max.bytes
	QueuedMaxBytes  int64         // queued.max.request.bytes; not positive: no bound
	SendBuffer      int           // socket.send.buffer.bytes; 0: the system's choice
	ReceiveBuffer   int           // socket.receive.buffer.bytes; 0: the system's choice
	Backlog         int           // socket.listen.backlog.size; 0: the system's choice
	MaxIdle         time.Duration // connections.max.idle.ms; not positive: no limit
	Limits          Limits
	// HoldBack returns how long to delay a new connection, unanswered, before it is closed, because its address opens
	// connections too fast (KIP-612); 0 accepts it. May be nil.
	HoldBack func(ip net.IP) time.Duration
	// Pace is called for each new connection to a listener that is not held back, and returns how long to wait before it is
	// served, and before others are accepted (max.connection.creation.rate). May be nil.
	Pace func(listener string) time.Duration
}

// Server accepts connections and serves their requests. Bind opens the sockets, Serve begins to accept, Close ends
// everything.
type Server struct {
	cfg        Config
	dispatcher Dispatcher
	log        *logrus.Entry
	budget     *budget
	preAuth    preAuthMemory
	yielder    *yielder
	rawCalls   *rawCalls
	admission  *admission
	refused    logx.Sampler // for lines about refused connections
	started    time.Time

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup // acceptors, connections, the sweeper
	number atomic.Uint64  // of the next connection

	mu struct {
		sync.Mutex
		listeners []*bound
		conns     map[*Conn]struct{}
		serving   bool
		closed    bool
	}
}

// bound is a Listener with its socket.
type bound struct {
	Listener
	socket net.Listener
	gone   atomic.Bool // Unbind was called

	sasl            atomic.Pointer[sasl.Server]
	authentications AuthenticationCounts
	traffic         Traffic
}

// refusedLine is the interval between log lines about refused connections of one kind.
const refusedLine = time.Second

// NewServer returns a Server without sockets.
func NewServer(cfg Config, d Dispatcher, log *logrus.Entry) *Server {
	s := &Server{cfg: cfg, dispatcher: d, log: log, budget: newBudget(cfg.QueuedMaxBytes), yielder: newYielder(),
		rawCalls: newRawCalls(runtime.GOMAXPROCS(0)), admission: newAdmission(cfg.Limits),
		refused: logx.Sampler{Interval: refusedLine}, started: time.Now()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.preAuth.max = preAuthBytes
	s.mu.conns = make(map[*Conn]struct{})
	return s
}

// SetLimits changes the connection limits for new connections.
func (s *Server) SetLimits(l Limits) { s.admission.setLimits(l) }

// Connections returns the number of open connections of each listener, by its name.
func (s *Server) Connections() map[string]int { return s.admission.count() }

// ConnectionCount counts the connections of one listener.
type ConnectionCount struct {
	Opened int64 // since the start
	Open   int   // now
}

// ConnectionCounts counts the connections of each listener that has had any, by its name.
func (s *Server) ConnectionCounts() map[string]ConnectionCount { return s.admission.everOpened() }

// SetSASL changes how clients of a listener with SASL authenticate, for new connections.
func (s *Server) SetSASL(listener string, settings *sasl.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.mu.listeners {
		if b.Name == listener && b.SASL != nil {
			b.sasl.Store(settings)
		}
	}
}

// Authentications returns the counts of logins and TLS handshakes for each listener that requires them, by its name.
func (s *Server) Authentications() map[string]*AuthenticationCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]*AuthenticationCounts)
	for _, b := range s.mu.listeners {
		if b.SASL != nil || b.TLS != nil {
			counts[b.Name] = &b.authentications
		}
	}
	return counts
}

// Traffic returns the traffic of each listener, by its name.
func (s *Server) Traffic() map[string]*Traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]*Traffic)
	for _, b := range s.mu.listeners {
		counts[b.Name] = &b.traffic
	}
	return counts
}

// Bind opens a listening socket and returns its address. Connections queue up until Serve is called; after that they
// are accepted at once.
func (s *Server) Bind(l Listener) (*net.TCPAddr, error) {
	lc := net.ListenConfig{Control: receiveBuffer(s.cfg.ReceiveBuffer)}
	ln, err := lc.Listen(s.ctx, "tcp", l.Addr)
	if err != nil {
		return nil, fmt.Errorf("listeners: cannot listen on %s://%s: %w", l.Name, l.Addr, err)
	}
	if err := s.setBacklog(ln.(*net.TCPListener)); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("socket.listen.backlog.size=%d: %w", s.cfg.Backlog, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		_ = ln.Close()
		return nil, net.ErrClosed
	}
	b := &bound{Listener: l, socket: ln}
	b.sasl.Store(l.SASL)
	s.mu.listeners = append(s.mu.listeners, b)
	if s.mu.serving {
		s.tasks.Go(func() { s.accept(b) })
	}
	return ln.Addr().(*net.TCPAddr), nil
}

// Unbind closes a listener's socket and its connections. When it returns, the address can be bound again.
func (s *Server) Unbind(name string) {
	s.mu.Lock()
	s.mu.listeners = slices.DeleteFunc(s.mu.listeners, func(b *bound) bool {
		if b.Name != name {
			return false
		}
		b.gone.Store(true)
		_ = b.socket.Close()
		return true
	})
	s.mu.Unlock()
	s.admission.wake()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.mu.conns {
		if c.Listener == name {
			c.close(errUnbound)
		}
	}
}

// receiveBuffer sets a socket's receive buffer, unless size is 0. It runs before listen(2) or connect(2), since the
// size determines the initial window of a connection.
func receiveBuffer(size int) func(network, address string, raw syscall.RawConn) error {
	if size <= 0 {
		return nil
	}
	return func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, size) })
		return errors.Join(err, failed)
	}
}

// setBacklog calls listen(2) again: the runtime has called it with the system's largest backlog.
func (s *Server) setBacklog(ln *net.TCPListener) error {
	if s.cfg.Backlog <= 0 {
		return nil
	}
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), s.cfg.Backlog) })
	return errors.Join(err, failed)
}

// Serve begins to accept connections on every bound listener. It returns at once; Close ends what it started.
func (s *Server) Serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.serving = true
	for _, b := range s.mu.listeners {
		s.tasks.Go(func() { s.accept(b) })
	}
	if s.cfg.MaxIdle > 0 {
		s.tasks.Go(s.sweep)
	}
}

// acceptPause is the pause after a failure to accept a connection.
const acceptPause = 100 * time.Millisecond

func (s *Server) stopped() bool { return s.ctx.Err() != nil }

func (s *Server) accept(b *bound) {
	ended := func() bool { return s.stopped() || b.gone.Load() }
	for {
		s.admission.waitForRoom(b.Name, ended)
		nc, err := b.socket.Accept()
		if ended() {
			if err == nil {
				_ = nc.Close()
			}
			return
		}
		if err != nil { // out of file descriptors, or the peer has gone: others may still come
			if line, ok := s.refused.Line("cannot accept", s.log); ok {
				line.WithError(err).WithField(logx.Listener, b.Name).Error("cannot accept a connection")
			}
			await.Pause(s.ctx, acceptPause)
			continue
		}
		s.admit(b, nc.(*net.TCPConn))
	}
}

// admit serves a connection, refuses it or has it closed later. An address that exceeds its quota is dealt with first, so
// that it does not take what others may use of the limits on the rate and the number of connections
// (ConnectionQuotas.recordIpConnectionMaybeThrottle, 3.9).
func (s *Server) admit(b *bound, tcp *net.TCPConn) {
	ip := tcp.RemoteAddr().(*net.TCPAddr).IP
	if s.cfg.HoldBack != nil {
		if wait := s.cfg.HoldBack(ip); wait > 0 {
			s.tasks.Go(func() { s.closeLater(tcp, wait) })
			return
		}
	}
	if s.cfg.Pace != nil {
		if wait := s.cfg.Pace(b.Name); wait > 0 {
			await.Pause(s.ctx, wait)
		}
	}
	s.open(b, tcp, ip)
}

func (s *Server) open(l *bound, tcp *net.TCPConn, ip net.IP) {
	if !s.admission.enter(l.Name, ip) {
		if line, ok := s.refused.Line("too many", s.log); ok {
			line.WithFields(logrus.Fields{logx.Listener: l.Name, logx.Client: ip.String(), logx.Setting: "max.connections.per.ip"}).
				Info("connection refused: too many from this address")
		}
		_ = tcp.Close()
		return
	}
	if s.admission.overMax() {
		s.makeRoom()
	}
	if s.cfg.SendBuffer > 0 {
		_ = tcp.SetWriteBuffer(s.cfg.SendBuffer)
	}
	c, err := newConn(s, l, tcp, s.number.Add(1))
	if err != nil || !s.add(c) {
		_ = tcp.Close()
		s.admission.leave(l.Name, ip)
		return
	}
	s.tasks.Go(func() {
		c.serve()
		s.remove(c)
		s.admission.leave(l.Name, ip)
	})
}

// closeLater delays closing a refused connection, so that the client does not reconnect at once.
func (s *Server) closeLater(tcp *net.TCPConn, wait time.Duration) {
	await.Pause(s.ctx, wait)
	_ = tcp.Close()
}

// makeRoom closes the connection that has been idle for longest, except protected ones.
func (s *Server) makeRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var idlest *Conn
	for c := range s.mu.conns {
		if !s.admission.protected(c.Listener) && c.ctx.Err() == nil && (idlest == nil || c.active.Load() < idlest.active.Load()) {
			idlest = c
		}
	}
	if idlest != nil {
		idlest.close(errCrowded)
	}
}

func (s *Server) add(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || !slices.ContainsFunc(s.mu.listeners, func(b *bound) bool { return b.Name == c.Listener }) {
		return false
	}
	s.mu.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, c)
}

// sweep closes connections that have been idle for MaxIdle, including one whose answer is pending, as Apache Kafka
// does.
func (s *Server) sweep() {
	tick := time.NewTicker(min(max(s.cfg.MaxIdle/20, 10*time.Millisecond), 10*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.closeIdle(s.uptime() - s.cfg.MaxIdle)
		}
	}
}

// uptime is the age of the server, whatever happens to the system's clock.
func (s *Server) uptime() time.Duration { return time.Since(s.started) }

// closeIdle closes connections without bytes since an uptime.
func (s *Server) closeIdle(since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.mu.conns {
		if c.active.Load() < int64(since) {
			c.close(errIdle)
		}
	}
}

// stopAccepting closes the listening sockets. Open connections continue.
func (s *Server) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.mu.listeners {
		_ = b.socket.Close()
	}
}

// Close closes every connection and returns when all goroutines have ended.
func (s *Server) Close() {
	s.cancel()
	s.stopAccepting()
	s.admission.wake()
	s.mu.Lock()
	s.mu.closed = true
	for c := range s.mu.conns {
		c.close(net.ErrClosed)
	}
	s.mu.Unlock()
	s.tasks.Wait()
}
