// Package histogram estimates the distribution of recent values: it computes their quantiles without keeping the
// values.
//
// Values are counted in buckets: one for each value below 64, and beyond that 32 for every power of two, so that a
// quantile is off by less than 1.6 %. Recording a value costs a lock and an addition. Memory for a power of two is
// allocated with its first value.
package histogram

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

// Quantiles cover the last eight to ten minutes: five windows, the oldest of which is reused for the next one.
const (
	windows      = 5
	windowLength = 2 * time.Minute
)

const (
	rangeBits = 5 // bits of a value after its first one that are distinguished
	inRange   = 1 << rangeBits
	ranges    = 63 - rangeBits + 1 // of a non-negative int64
)

// Histogram counts values. The zero value is ready to use. Safe for concurrent use.
type Histogram struct {
	mu struct {
		sync.Mutex // a leaf

		count uint64
		sum   float64

		start  time.Time                // of the first window
		window int64                    // the current one, from 0 on
		ranges [ranges]*[windows]counts // nil: no value of that range yet
	}
}

// counts are the counts of the buckets of one range.
type counts [inRange]uint32

// Observe records a value; a negative one counts as 0.
func (h *Histogram) Observe(value int64, now time.Time) {
	v := uint64(max(0, value))
	r, bucket := place(v)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advanceLocked(now)
	h.mu.count++
	h.mu.sum += float64(v)
	if h.mu.ranges[r] == nil {
		h.mu.ranges[r] = new([windows]counts)
	}
	h.mu.ranges[r][h.mu.window%windows][bucket]++
}

// advanceLocked begins, empty, the windows that have started since the last value. If the clock goes back, the current
// window stays.
func (h *Histogram) advanceLocked(now time.Time) {
	if h.mu.start.IsZero() {
		h.mu.start = now
	}
	current := int64(now.Sub(h.mu.start) / windowLength)
	if current <= h.mu.window {
		return
	}
	for w := max(h.mu.window+1, current-windows+1); w <= current; w++ {
		for _, r := range h.mu.ranges {
			if r != nil {
				r[w%windows] = counts{}
			}
		}
	}
	h.mu.window = current
}

// Summary is the content of a histogram.
type Summary struct {
	Count     uint64    // of all values since the start
	Sum       float64   // of all values
	Quantiles []float64 // of the last minutes, as requested; NaN if there are no values
}

// Read returns a summary with the requested quantiles, which must be ascending: 0.5 is the median.
func (h *Histogram) Read(quantiles []float64, now time.Time) Summary {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advanceLocked(now)
	s := Summary{Count: h.mu.count, Sum: h.mu.sum}
	recent := h.recentLocked()
	var total, seen uint64
	for _, n := range recent {
		total += n
	}
	i := -1 // the bucket at whose end the count of values reaches seen
	for _, q := range quantiles {
		if total == 0 {
			s.Quantiles = append(s.Quantiles, math.NaN())
			continue
		}
		for rank := uint64(max(1, math.Ceil(q*float64(total)))); seen < rank; {
			i++
			seen += recent[i]
		}
		s.Quantiles = append(s.Quantiles, middle(i/inRange, i%inRange))
	}
	return s
}

// recentLocked adds up the windows, bucket by bucket.
func (h *Histogram) recentLocked() *[ranges * inRange]uint64 {
	var sums [ranges * inRange]uint64
	for r, all := range h.mu.ranges {
		if all == nil {
			continue
		}
		for _, w := range all {
			for bucket, n := range w {
				sums[r*inRange+bucket] += uint64(n)
			}
		}
	}
	return &sums
}

// place returns the bucket of a value. Range 0 is for values below 32; each further range ends at twice the end of the
// one before it.
func place(v uint64) (r, bucket int) {
	if v < inRange {
		return 0, int(v)
	}
	cut := bits.Len64(v) - rangeBits - 1
	return cut + 1, int(v>>cut) - inRange
}

// middle returns the middle value of a bucket.
func middle(r, bucket int) float64 {
	if r == 0 {
		return float64(bucket)
	}
	width := uint64(1) << (r - 1)
	return float64(uint64(inRange+bucket)*width + (width-1)/2)
}
