package metrics

import (
	"math"
	"testing"
	"time"
)

func TestRecent(t *testing.T) {
	var r Recent
	start := time.Unix(1_790_000_010, 0).Truncate(recentWindow)
	expect := func(after time.Duration, mean, longest float64) {
		t.Helper()
		gotMean, gotLongest := r.Millis(start.Add(after))
		if gotMean != mean && !(math.IsNaN(mean) && math.IsNaN(gotMean)) || gotLongest != longest && !math.IsNaN(longest) {
			t.Errorf("after %v: mean %v, longest %v; want %v, %v", after, gotMean, gotLongest, mean, longest)
		}
	}
	none := math.NaN()
	expect(0, none, none)
	r.Add(10*time.Millisecond, start)
	r.Add(40*time.Millisecond, start.Add(time.Second))
	expect(2*time.Second, 25, 40)
	r.Add(100*time.Millisecond, start.Add(recentWindow))
	expect(recentWindow, 50, 100)
	expect(2*recentWindow, 100, 100)
	expect(3*recentWindow, none, none)
	r.Add(time.Millisecond, start.Add(4*recentWindow))
	expect(4*recentWindow, 1, 1)
}
