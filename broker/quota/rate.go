package quota

import (
	"math"
	"time"
)

// Windows are the periods that a rate is measured over (quota.window.num, quota.window.size.seconds).
type Windows struct {
	Count int
	Size  time.Duration
}

func (w Windows) full() time.Duration { return time.Duration(w.Count-1) * w.Size }

// Rate is an amount per second over the last windows (Rate and SampledStat, 3.9). Not safe for concurrent use. The zero
// value with Windows set is ready to use.
type Rate struct {
	Windows Windows
	// AtOnce measures over the time that has passed, at least one window, rather than over all windows but one from the
	// beginning: no allowance accumulates (SimpleRate, 3.9, for replication).
	AtOnce  bool
	windows []window // oldest first, at most one more than Windows.Count
}

type window struct {
	start, last time.Time
	amount      float64
}

// Add records an amount; a negative one is subtracted.
func (r *Rate) Add(amount float64, now time.Time) {
	r.forget(now)
	n := len(r.windows)
	if n == 0 || now.Sub(r.windows[n-1].start) >= r.Windows.Size {
		r.windows = append(r.windows, window{start: now})
		n++
	}
	w := &r.windows[n-1]
	w.amount += amount
	w.last = now
}

// forget drops the windows that are older than the measured period.
func (r *Rate) forget(now time.Time) {
	old := 0
	for old < len(r.windows) && now.Sub(r.windows[old].last) >= time.Duration(r.Windows.Count)*r.Windows.Size {
		old++
	}
	if old > 0 {
		r.windows = append(r.windows[:0], r.windows[old:]...)
	}
}

// measure returns the rate and the time that it was measured over: at least all windows but the one that is filling.
func (r *Rate) measure(now time.Time) (rate float64, over time.Duration) {
	sum := r.sum(now)
	if len(r.windows) > 0 {
		over = now.Sub(r.windows[0].start)
	}
	if r.AtOnce {
		over = max(over, r.Windows.Size)
	} else if missing := r.Windows.full() - over.Truncate(r.Windows.Size); missing > 0 {
		over += missing
	}
	over = max(over, time.Millisecond) // a single window has just begun
	return sum / over.Seconds(), over
}

// sum returns what was added within the windows.
func (r *Rate) sum(now time.Time) float64 {
	r.forget(now)
	var sum float64
	for _, w := range r.windows {
		sum += w.amount
	}
	return sum
}

// Exceeds reports whether the rate is above a limit.
func (r *Rate) Exceeds(bound float64, now time.Time) bool {
	rate, _ := r.measure(now)
	return rate > bound
}

// excess returns for how long nothing may be added so that the rate falls to a limit.
func (r *Rate) excess(bound float64, now time.Time) time.Duration {
	rate, over := r.measure(now)
	if rate <= bound {
		return 0
	}
	if bound <= 0 {
		return over
	}
	return millis((rate - bound) / bound * float64(over.Milliseconds()))
}

// longest is a wait that no client sits out.
const longest = 100 * 365 * 24 * time.Hour

// millis rounds a wait to milliseconds.
func millis(wait float64) time.Duration {
	if wait >= float64(longest.Milliseconds()) {
		return longest
	}
	return time.Duration(math.Round(wait)) * time.Millisecond
}

// Quiet reports whether nothing was added within the windows.
func (r *Rate) Quiet(now time.Time) bool {
	r.forget(now)
	return len(r.windows) == 0
}
