package api

import (
	"math"
	"testing"
	"time"
)

// TestOpenFor: a filter for transactions that are older than Kafka selects none of them, rather than all.
func TestOpenFor(t *testing.T) {
	for millis, ok := range map[int64]func(time.Duration) bool{
		math.MinInt64: func(d time.Duration) bool { return d < 0 }, -1: func(d time.Duration) bool { return d < 0 }, 0: func(d time.Duration) bool { return d == 0 },
		1000: func(d time.Duration) bool { return d == time.Second }, math.MaxInt64: func(d time.Duration) bool { return d > 290*365*24*time.Hour },
	} {
		if d := openFor(millis); !ok(d) {
			t.Errorf("%d ms are %v", millis, d)
		}
	}
}
