package zkserver

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Config configures a server. The zero value runs in memory with ZooKeeper's defaults.
type Config struct {
	Dir    string // data directory; empty: everything is kept in memory
	NoSync bool   // do not wait for the disk: survives a kill, but not a power failure

	// ForgetSessions ends, at the start, the sessions that an earlier run left. It is for a server inside the only
	// process that uses it, where nobody can hold those any more.
	ForgetSessions bool

	TickTime   time.Duration // 0: two seconds
	MinTimeout time.Duration // of sessions; 0: two ticks
	MaxTimeout time.Duration // of sessions; 0: twenty ticks

	MaxFrameBytes int           // jute.maxbuffer; 0: 0xfffff
	Logger        *logrus.Entry // nil: no log
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&c.TickTime, 2*time.Second)
	set(&c.MinTimeout, 2*c.TickTime)
	set(&c.MaxTimeout, 20*c.TickTime)
	if c.MaxFrameBytes <= 0 {
		c.MaxFrameBytes = 0xfffff
	}
	if c.Logger == nil {
		silent := logrus.New()
		silent.SetLevel(logrus.PanicLevel)
		c.Logger = logrus.NewEntry(silent)
	}
	return c
}

// ErrClosed is the error of Serve after Close.
var ErrClosed = errors.New("zkserver: server closed")

// Server is a running server. Its methods are safe for concurrent use.
type Server struct {
	cfg    Config
	loop   *loop
	events chan event
	quit   chan struct{} // closed by Close
	done   chan struct{} // closed when the loop has ended

	goroutines sync.WaitGroup // listeners and connections

	mu struct {
		sync.Mutex // leaf
		listeners  map[net.Listener]struct{}
		open       map[*conn]struct{}
		addr       net.Addr // of the first listener
		closed     bool
		err        error // why the loop ended
	}
}

// Open reads the data and starts the server, which accepts no connections until Serve is called. A directory that
// another process uses is an error.
func Open(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	store, was, err := openStore(cfg.Dir, cfg.NoSync)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, events: make(chan event, 256), quit: make(chan struct{}), done: make(chan struct{})}
	s.mu.listeners, s.mu.open = map[net.Listener]struct{}{}, map[*conn]struct{}{}
	s.loop = newLoop(s, store, was, time.Now())
	go s.loop.run()
	return s, nil
}

// Listen opens a TCP address and serves it on a goroutine of its own.
func (s *Server) Listen(address string) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("zkserver: %w", err)
	}
	if err := s.register(ln); err != nil {
		ln.Close()
		return err
	}
	go s.accept(ln) // ends with ErrClosed, or with the listener: there is nobody to tell
	return nil
}

// Serve accepts connections until the listener or the server is closed; in the latter case it returns ErrClosed. It
// closes the listener. It may be called several times concurrently.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.register(ln); err != nil {
		ln.Close()
		return err
	}
	return s.accept(ln)
}

func (s *Server) register(ln net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return ErrClosed
	}
	s.goroutines.Add(1)
	s.mu.listeners[ln] = struct{}{}
	if s.mu.addr == nil {
		s.mu.addr = ln.Addr()
	}
	return nil
}

// accept accepts connections of a registered listener.
func (s *Server) accept(ln net.Listener) error {
	defer s.goroutines.Done()
	defer s.forget(ln)
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
		case s.isClosed():
			return ErrClosed
		case errors.Is(err, net.ErrClosed):
			return err
		default: // for example too many open files: it may pass
			s.cfg.Logger.WithError(err).Warn("cannot accept a ZooKeeper connection")
			s.pause(acceptPause)
			continue
		}
		c := newConn(s, nc)
		if !s.admit(c) {
			nc.Close()
			return ErrClosed
		}
		go c.read()
		go c.write()
	}
}

// forget closes a listener.
func (s *Server) forget(ln net.Listener) {
	ln.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.listeners, ln)
}

// acceptPause is the pause after a failure to accept a connection.
const acceptPause = 100 * time.Millisecond

// pause waits, but no longer than the server lives.
func (s *Server) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.quit:
	}
}

// admit registers a connection, unless the server is closed.
func (s *Server) admit(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	s.mu.open[c] = struct{}{}
	s.goroutines.Add(2)
	return true
}

func (s *Server) release(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.open, c)
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.closed
}

// Addr returns the address of the first listener, nil before there is one.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.addr
}

// Done is closed when the server has ended: by Close, or because its file failed.
func (s *Server) Done() <-chan struct{} { return s.done }

// Close ends the server and its connections. Sessions stay in the file: clients that reconnect in time after the next
// start can resume them. It returns the error that had ended the server before, if any.
func (s *Server) Close() error {
	s.shut(nil)
	<-s.done
	s.goroutines.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

// shut stops listeners and connections, and lets the loop end.
func (s *Server) shut(err error) {
	s.mu.Lock()
	first := !s.mu.closed
	if first {
		s.mu.closed, s.mu.err = true, err
		close(s.quit)
	}
	for ln := range s.mu.listeners {
		ln.Close()
	}
	for c := range s.mu.open {
		c.nc.Close()
	}
	s.mu.Unlock()
}
