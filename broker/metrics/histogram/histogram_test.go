package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

var asked = []float64{0, 0.001, 0.5, 0.75, 0.95, 0.98, 0.99, 0.999, 1}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// exact computes a quantile of a sorted list by definition: the smallest value such that at least this share of the
// values does not exceed it.
func exact(sorted []int64, q float64) int64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func check(t *testing.T, h *Histogram, now time.Time, recent []int64) {
	t.Helper()
	slices.Sort(recent)
	for i, got := range h.Read(asked, now).Quantiles {
		switch {
		case len(recent) == 0:
			if !math.IsNaN(got) {
				t.Errorf("quantile %v of no values: %v", asked[i], got)
			}
		case math.Abs(got-float64(exact(recent, asked[i]))) > float64(exact(recent, asked[i]))/64:
			t.Errorf("quantile %v of %d values: %v, want %d", asked[i], len(recent), got, exact(recent, asked[i]))
		}
	}
}

// distributions are kinds of random values with which quantiles are tested.
var distributions = map[string]func(*rand.Rand) int64{
	"small, each of its own bucket": func(r *rand.Rand) int64 { return r.Int64N(64) },
	"over all magnitudes":           func(r *rand.Rand) int64 { return r.Int64() >> r.IntN(63) },
	"around a millisecond":          func(r *rand.Rand) int64 { return int64(1e6 * math.Exp(r.NormFloat64())) },
	"fast, and now and then slow":   func(r *rand.Rand) int64 { return 20_000 + r.Int64N(1000) + 5e9*(r.Int64N(500)/499) },
	"always the same":               func(*rand.Rand) int64 { return 500_000_000 },
	"none":                          func(*rand.Rand) int64 { return 0 },
	"the largest":                   func(*rand.Rand) int64 { return math.MaxInt64 },
}

func TestQuantilesAreNearTheExactOnes(t *testing.T) {
	for name, next := range distributions {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for _, n := range []int{0, 1, 2, 10, 999, 20_000} {
				var h Histogram
				var all []int64
				sum := 0.0
				for range n {
					v := next(r)
					all, sum = append(all, v), sum+float64(v)
					h.Observe(v, start)
				}
				check(t, &h, start, all)
				if s := h.Read(nil, start); s.Count != uint64(n) || s.Sum != sum || s.Quantiles != nil {
					t.Errorf("%+v, want %d of %v", s, n, sum)
				}
			}
		})
	}
}

// TestValuesAge: quantiles are computed from the current window and the four before it, count and sum from all values.
func TestValuesAge(t *testing.T) {
	type seen struct{ value, window int64 }
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var h Histogram
		var all []seen
		now := start
		window := func() int64 { return int64(now.Sub(start) / windowLength) }
		for range 300 {
			v := r.Int64N(1 << r.IntN(40))
			h.Observe(v, now)
			all = append(all, seen{v, window()})
			now = now.Add(pause(r))
			if r.IntN(10) > 0 {
				continue
			}
			var recent []int64
			for _, s := range all {
				if s.window > window()-windows {
					recent = append(recent, s.value)
				}
			}
			check(t, &h, now, recent)
			if got := h.Read(nil, now).Count; got != uint64(len(all)) {
				t.Errorf("count %d, want %d", got, len(all))
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// pause returns the time between two values: mostly a fraction of a window, and sometimes many windows.
func pause(r *rand.Rand) time.Duration {
	if r.IntN(50) == 0 {
		return time.Duration(r.Int64N(int64(2 * windows * windowLength)))
	}
	return time.Duration(r.Int64N(int64(windowLength / 10)))
}

func TestWhatIsOddIsCounted(t *testing.T) {
	var h Histogram
	h.Observe(-5, start)
	h.Observe(7, start.Add(3*windowLength))
	h.Observe(9, start.Add(-time.Hour)) // the clock was set back
	if s := h.Read([]float64{0, 1}, start); s.Count != 3 || s.Sum != 16 || s.Quantiles[0] != 0 || s.Quantiles[1] != 9 {
		t.Errorf("%+v", s)
	}
}

// TestConcurrentUse: no values are lost while several goroutines observe and read.
func TestConcurrentUse(t *testing.T) {
	const goroutines, each = 8, 5000
	var h Histogram
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range each {
				h.Observe(int64(i), start.Add(time.Duration(i)*time.Millisecond))
				if i%100 == g {
					h.Read(asked, start)
				}
			}
		})
	}
	all.Wait()
	s := h.Read([]float64{1}, start)
	if s.Count != goroutines*each || s.Sum != goroutines*each*(each-1)/2 || math.Abs(s.Quantiles[0]-each) > each/64 {
		t.Errorf("%+v", s)
	}
}

func TestNothingIsAllocatedForAValue(t *testing.T) {
	var h Histogram
	now := start
	h.Observe(1000, now)
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Minute)
		h.Observe(1000, now)
	}); n != 0 {
		t.Errorf("%v", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		var h Histogram
		b.ReportAllocs()
		v := int64(1)
		for b.Loop() {
			v = v * 29 & 0xfffff
			h.Observe(v, start)
		}
	})
	b.Run("all processors at once", func(b *testing.B) {
		var h Histogram
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for v := int64(1); pb.Next(); v = v * 29 & 0xfffff {
				h.Observe(v, start)
			}
		})
	})
}

// BenchmarkRead measures how long Observe may have to wait while a histogram is read.
func BenchmarkRead(b *testing.B) {
	var h Histogram
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		h.Observe(int64(1e6*math.Exp(r.NormFloat64())), start)
	}
	b.ReportAllocs()
	for b.Loop() {
		h.Read(asked, start)
	}
}
