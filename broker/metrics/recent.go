package metrics

import (
	"math"
	"sync"
	"time"
)

// Recent summarizes the durations of the last 30 to 60 seconds, in two windows of 30 seconds, which is Apache Kafka's
// default (metrics.num.samples, metrics.sample.window.ms). The zero value is ready to use. Safe for concurrent use.
type Recent struct {
	mu struct {
		sync.Mutex
		windows [2]durations
	}
}

const recentWindow = 30 * time.Second

// durations summarizes one window.
type durations struct {
	number   int64 // of the window, counted from 1970
	count    int
	sum, max time.Duration
}

// Add records a duration.
func (r *Recent) Add(d time.Duration, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number := windowOf(now)
	w := &r.mu.windows[number%2]
	if w.number != number {
		*w = durations{number: number}
	}
	w.count++
	w.sum += d
	w.max = max(w.max, d)
}

// Millis returns the mean and the maximum in milliseconds, NaN if there are no durations.
func (r *Recent) Millis(now time.Time) (mean, longest float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all durations
	for _, w := range r.mu.windows {
		if windowOf(now)-w.number < int64(len(r.mu.windows)) {
			all.count += w.count
			all.sum += w.sum
			all.max = max(all.max, w.max)
		}
	}
	if all.count == 0 {
		return math.NaN(), math.NaN()
	}
	return millis(all.sum) / float64(all.count), millis(all.max)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func windowOf(now time.Time) int64 { return now.UnixNano() / int64(recentWindow) }
