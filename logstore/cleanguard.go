package logstore

import (
	"context"
	"sync"
)

// cleanGuard keeps a log's compaction and what takes segments away (truncation, retention, deletion) apart. The latter have
// precedence: they end a compaction that is under way. The zero value is ready.
type cleanGuard struct {
	mu struct {
		sync.Mutex // leaf
		held       int
		cancel     context.CancelFunc // of the compaction under way
		ended      chan struct{}      // closed when that has ended
	}
}

// begin is the start of a compaction, unless there is one or it is kept off. Its context ends when it must; end must follow.
func (g *cleanGuard) begin(ctx context.Context) (context.Context, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.held > 0 || g.mu.cancel != nil {
		return nil, false
	}
	ctx, g.mu.cancel = context.WithCancel(ctx)
	g.mu.ended = make(chan struct{})
	return ctx, true
}

func (g *cleanGuard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.cancel()
	g.mu.cancel = nil
	close(g.mu.ended)
}

// hold keeps compaction off until the returned function is called. One that is under way is ended and waited for: it must
// not need a lock that the caller has.
func (g *cleanGuard) hold() (release func()) {
	g.mu.Lock()
	g.mu.held++
	var ended chan struct{}
	if g.mu.cancel != nil {
		g.mu.cancel()
		ended = g.mu.ended
	}
	g.mu.Unlock()
	if ended != nil {
		<-ended
	}
	return g.release
}

// tryHold is hold, but false while a compaction is under way.
func (g *cleanGuard) tryHold() (release func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.cancel != nil {
		return nil, false
	}
	g.mu.held++
	return g.release, true
}

func (g *cleanGuard) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.held--
}
