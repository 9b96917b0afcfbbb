package broker

import (
	"testing"
	"time"
)

func TestSetupTimeout(t *testing.T) {
	const first, longest = 10 * time.Second, 30 * time.Second
	for _, test := range []struct {
		failures int
		random   float64
		want     time.Duration
	}{{0, 0.5, first}, {1, 0.5, 20 * time.Second}, {2, 0.5, longest}, {100, 0.5, longest}, {0, 0, 8 * time.Second}, {0, 1, 12 * time.Second}} {
		if got := setupTimeout(first, longest, test.failures, test.random); got.Round(time.Millisecond) != test.want {
			t.Errorf("after %d failures, at %v: %v, want %v", test.failures, test.random, got, test.want)
		}
	}
	if got := setupTimeout(longest, first, 0, 0.5); got != longest {
		t.Errorf("a first that is longer than the longest: %v", got)
	}
}
