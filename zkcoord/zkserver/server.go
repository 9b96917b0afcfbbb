package zkserver

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Config says how a server runs. The zero value is one in memory with ZooKeeper's defaults.
type Config struct {
	Dir    string // the folder of the data; empty keeps everything in memory
	NoSync bool   // does not wait for the disk: safe against a kill, not against a loss of power

	// ForgetSessions ends, at the start, the sessions that an earlier run left. Who runs the server inside the only process
	// that uses it knows that nobody holds them any more.
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

// ErrClosed is what Serve returns after Close.
var ErrClosed = errors.New("zkserver: server closed")

// Server is a running server. Its methods are safe for concurrent use.
type Server struct {
	cfg    Config
	loop   *loop
	events chan event
	quit   chan struct{} // closed by Close
	done   chan struct{} // closed when the loop has ended

	goroutines sync.WaitGroup // of listeners and connections

	mu struct {
		sync.Mutex // leaf
		listeners  map[net.Listener]struct{}
		open       map[*conn]struct{}
		addr       net.Addr // of the first listener
		closed     bool
		err        error // what ended the loop
	}
}

// Open reads the data and starts the server; it serves nobody until Serve is called. A folder
// that another process uses is an error.
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

// Serve takes connections until the listener is closed, or the server, which gives ErrClosed. It
// closes the listener. Several may run at a time.
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

// accept takes connections of a registered listener.
func (s *Server) accept(ln net.Listener) error {
	defer s.goroutines.Done()
	defer ln.Close()
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
		case s.isClosed():
			return ErrClosed
		case errors.Is(err, net.ErrClosed):
			return err
		default: // too many open files, say: it may pass
			s.cfg.Logger.WithError(err).Warn("zookeeper connection could not be taken")
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

// acceptPause is how long to wait after a connection that could not be taken.
const acceptPause = 100 * time.Millisecond

// pause waits, but not longer than the server lives.
func (s *Server) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.quit:
	}
}

// admit counts a connection in, unless the server is closed.
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

// Close ends the server and its connections. Sessions stay in the file: who comes back in time
// after the next start finds them. It returns what had ended the server before, if anything.
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
