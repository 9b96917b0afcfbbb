package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config configures what is served.
type Config struct {
	Addr    string          // host:port
	Ready   func() error    // nil if requests are served
	Notes   func() []string // called when they are; returns what needs attention
	Profile bool            // pprof under /debug/pprof/
}

// Server serves metrics and the broker's health over HTTP:
//
//	/metrics  for Prometheus
//	/healthz  200 while the process answers
//	/readyz   200 and what needs attention, if requests are served; otherwise 503 and the reason
type Server struct {
	http http.Server
	mux  *http.ServeMux
	ln   net.Listener
	done chan struct{}
}

// Serve opens the listener and serves until Close.
func (m *Metrics) Serve(cfg Config) (*Server, error) {
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("metrics.listener=%s: %w", cfg.Addr, err)
	}
	s := &Server{ln: ln, mux: http.NewServeMux(), done: make(chan struct{})}
	s.mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil, nil) })
	s.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, cfg.Ready(), cfg.Notes) })
	if cfg.Profile {
		s.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		s.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		s.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		s.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	}
	s.http = http.Server{Handler: s.mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(ln) // ends with Close
	}()
	return s, nil
}

// Handle adds a page.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Addr returns the address of the listener.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Close stops serving, after giving requests in progress a moment.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		_ = s.http.Close()
	}
	<-s.done
}

func answer(w http.ResponseWriter, trouble error, notes func() []string) {
	if trouble != nil {
		http.Error(w, trouble.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
	if notes == nil {
		return
	}
	for _, note := range notes() {
		_, _ = io.WriteString(w, note+"\n")
	}
}
