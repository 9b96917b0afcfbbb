// Package histogram tells how values are distributed that were seen lately: it gives their quantiles without keeping them.
//
// Values are counted in buckets: one for each value below 64, and from there on 32 for every doubling, so that a quantile is off by
// less than 1.6 % of itself. A value costs a lock and an addition; memory is taken when a doubling has its first value.
package histogram

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

// Quantiles are of the last eight to ten minutes: of five windows, the oldest of which is emptied for the next one.
const (
	windows      = 5
	windowLength = 2 * time.Minute
)

const (
	rangeBits = 5 // of a value, those after its first one that are told apart
	inRange   = 1 << rangeBits
	ranges    = 63 - rangeBits + 1 // that an int64 which isn't negative may be in
)

// Histogram counts values. The zero value is ready. Safe for concurrent use.
type Histogram struct {
	mu struct {
		sync.Mutex // a leaf

		count uint64
		sum   float64

		start  time.Time                // of the first window
		window int64                    // the current one, from 0 on
		ranges [ranges]*[windows]counts // nil: no value of that range was seen yet
	}
}

// counts are those of the buckets of one range.
type counts [inRange]uint32

// Observe counts a value; a negative one is taken for 0.
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

// advanceLocked begins the windows that have come since the last value, empty. A clock that goes back stays in the current one.
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

// Summary is what a histogram tells.
type Summary struct {
	Count     uint64    // of all values since the beginning
	Sum       float64   // of them
	Quantiles []float64 // of the last minutes, as they were asked for; NaN where there was none
}

// Read gives the quantiles that are asked for, which rise: 0.5 is the median.
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
	i := -1 // of the bucket up to whose end seen values are
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

// recentLocked adds the windows up, bucket by bucket.
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

// place is the bucket of a value. Range 0 is of values below 32; each next one goes to twice the end of the one before it.
func place(v uint64) (r, bucket int) {
	if v < inRange {
		return 0, int(v)
	}
	cut := bits.Len64(v) - rangeBits - 1
	return cut + 1, int(v>>cut) - inRange
}

// middle is the one of a bucket's values.
func middle(r, bucket int) float64 {
	if r == 0 {
		return float64(bucket)
	}
	width := uint64(1) << (r - 1)
	return float64(uint64(inRange+bucket)*width + (width-1)/2)
}
