package network

import (
	"runtime"
	"sync/atomic"
)

// yielder gives every connection its turn. If a client sends its next request as soon as it gets an answer, its reader
// never waits and keeps its processor from the others for 10 ms, until the runtime preempts it. So while there are more
// active readers than processors, each yields after an answer.
type yielder struct {
	working    atomic.Int32 // readers that are not waiting for anything
	processors int32
}

func newYielder() *yielder { return &yielder{processors: int32(runtime.GOMAXPROCS(0))} }

// begin counts a reader that has work to do.
func (y *yielder) begin() { y.working.Add(1) }

// end stops counting a reader, which is about to wait or to return.
func (y *yielder) end() { y.working.Add(-1) }

// yield yields the processor if other readers may be waiting for one.
func (y *yielder) yield() {
	if y.working.Load() > y.processors {
		runtime.Gosched()
	}
}
