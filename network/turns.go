package network

import (
	"runtime"
	"sync/atomic"
)

// turns gives every connection its turn. If a client sends its next request as soon as it gets an answer, its reader
// never waits and keeps its processor from the others for 10 ms, until the runtime preempts it. So while there are more
// active readers than processors, each yields after an answer.
type turns struct {
	working    atomic.Int32 // readers that are not waiting for anything
	processors int32
}

func newTurns() *turns { return &turns{processors: int32(runtime.GOMAXPROCS(0))} }

// begin counts a reader that has work to do.
func (t *turns) begin() { t.working.Add(1) }

// end stops counting a reader, which is about to wait or to return.
func (t *turns) end() { t.working.Add(-1) }

// giveWay yields the processor if other readers may be waiting for one.
func (t *turns) giveWay() {
	if t.working.Load() > t.processors {
		runtime.Gosched()
	}
}
