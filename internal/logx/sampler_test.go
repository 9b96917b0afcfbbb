package logx

import (
	"testing"
	"time"
)

func TestSampler(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	s := Sampler{Interval: time.Second}
	for i, step := range []struct {
		kind  string
		after time.Duration
		ok    bool
		held  int
	}{
		{"a", 0, true, 0}, {"a", 0, false, 0}, {"b", 0, true, 0}, {"a", 999 * time.Millisecond, false, 0}, {"a", time.Millisecond, true, 2},
		{"a", time.Second, true, 0},
	} {
		now = now.Add(step.after)
		if ok, held := s.Allow(step.kind, now); ok != step.ok || held != step.held {
			t.Errorf("step %d: %v, %d held back", i, ok, held)
		}
	}
	var all Sampler
	for range 2 {
		if ok, _ := all.Allow("a", now); !ok {
			t.Error("the zero value suppresses lines")
		}
	}
}
