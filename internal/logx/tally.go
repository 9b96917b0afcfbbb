package logx

import (
	"sync"
	"time"
)

// Tally combines many overlapping operations into one log line: it sums them up until none of them is running. The zero
// value is ready to use. Safe for concurrent use.
type Tally struct {
	mu struct {
		sync.Mutex // leaf
		open       int
		sum        Sum
		began      time.Time
	}
}

// Sum is what a Tally has counted.
type Sum struct {
	Times int           // operations that succeeded
	Count int           // total of what these counted
	Took  time.Duration // from the first start to the last end
}

// Begin registers the start of an operation.
func (t *Tally) Begin(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.open == 0 {
		t.mu.began, t.mu.sum = now, Sum{}
	}
	t.mu.open++
}

// End registers the end of an operation: whether it succeeded, and what it counted. It returns the sum if this was the
// last running operation and any has succeeded.
func (t *Tally) End(now time.Time, well bool, count int) (Sum, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.open--
	if well {
		t.mu.sum.Times++
		t.mu.sum.Count += count
	}
	t.mu.sum.Took = now.Sub(t.mu.began)
	return t.mu.sum, t.mu.open == 0 && t.mu.sum.Times > 0
}
