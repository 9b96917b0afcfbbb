package tools

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"
)

// interruptible is standard input whose reads end when a context does: a read from a terminal or a pipe may take
// forever. Not safe for concurrent use.
type interruptible struct {
	ctx  context.Context
	in   io.Reader
	buf  []byte
	read chan readResult // nil while no read is in progress
	rest readResult      // has been read but not returned yet
}

type readResult struct {
	bytes []byte
	err   error
}

// Read implements io.Reader. The error is the context's cause if that has ended.
func (r *interruptible) Read(p []byte) (int, error) {
	if len(r.rest.bytes) == 0 && r.rest.err == nil {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest.bytes)
	r.rest.bytes = r.rest.bytes[n:]
	if len(r.rest.bytes) > 0 {
		return n, nil
	}
	return n, r.rest.err
}

// fill waits for the read in progress, after starting one if there is none.
func (r *interruptible) fill() error {
	if r.read == nil {
		if r.buf == nil {
			r.buf = make([]byte, scanBuffer)
		}
		r.read = make(chan readResult, 1)
		go func(done chan<- readResult) {
			n, err := r.in.Read(r.buf)
			done <- readResult{r.buf[:n], err}
		}(r.read)
	}
	select {
	case r.rest = <-r.read:
		r.read = nil
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// outputStream is standard output, which ends the tool when nobody reads it any more: the remaining work would be in vain. To
// scripts that is no failure ("| head -1"), as with the originals.
type outputStream struct {
	to     io.Writer
	stop   context.CancelCauseFunc
	closed atomic.Bool
}

// Write implements io.Writer.
func (s *outputStream) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		s.closed.Store(true)
		s.stop(err)
	}
	return n, err
}
