package network

import (
	"runtime"
	"sync/atomic"
)

// turns sees to it that connections get their turns. A client that answers at once has its next request there when the last one
// has been answered, so its reader would never wait, and keep its processor from the others for the 10 ms after which the
// runtime takes it away: as long as there are more readers at work than processors, each gives way after an answer.
type turns struct {
	working    atomic.Int32 // readers that don't wait for anything
	processors int32
}

func newTurns() *turns { return &turns{processors: int32(runtime.GOMAXPROCS(0))} }

// begin counts a reader that has something to do.
func (t *turns) begin() { t.working.Add(1) }

// end no longer counts a reader, which is to wait or to return.
func (t *turns) end() { t.working.Add(-1) }

// giveWay lets others go on, if there are any that may have to wait.
func (t *turns) giveWay() {
	if t.working.Load() > t.processors {
		runtime.Gosched()
	}
}
