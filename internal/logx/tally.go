package logx

import (
	"sync"
	"time"
)

// Tally makes one line of what happens many times at once: it sums up until nothing of it is under way. The zero value is
// ready. It is safe for concurrent use.
type Tally struct {
	mu struct {
		sync.Mutex // leaf
		open       int
		sum        Sum
		began      time.Time
	}
}

// Sum is what a Tally has seen.
type Sum struct {
	Times int           // ended well
	Count int           // what these counted, in all
	Took  time.Duration // from the first beginning to the last end
}

// Begin tells that one begins.
func (t *Tally) Begin(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.open == 0 {
		t.mu.began, t.mu.sum = now, Sum{}
	}
	t.mu.open++
}

// End tells that one has ended, well with what it counted. It gives the sum when that was the last and any has ended well.
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
