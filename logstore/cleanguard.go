package logstore

import (
	"context"
	"sync"
)

// cleanGuard separates a log's compaction from operations that remove segments (truncation, retention, deletion). The
// latter take precedence: they end a compaction in progress. The zero value is ready to use.
type cleanGuard struct {
	mu struct {
		sync.Mutex // leaf
		held       int
		cancel     context.CancelFunc // of the compaction in progress
		ended      chan struct{}      // closed when it has ended
	}
}

// begin begins a compaction, unless one is in progress or they are blocked. Its context ends when it must stop; end
// must be called.
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

// hold blocks compaction until the returned function is called. It ends a compaction in progress and waits for it, so
// that must not need a lock that the caller holds.
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

// tryHold is hold, but returns false if a compaction is in progress.
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
