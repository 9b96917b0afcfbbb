package network

import (
	"context"
	"math"
	"testing"
)

// TestBudgetTellsWhatIsTaken: a request that is larger than the whole budget counts as the whole budget.
func TestBudgetTellsWhatIsTaken(t *testing.T) {
	s := &Server{budget: newBudget(100)}
	expect := func(wantUsed, wantLeft int64) {
		t.Helper()
		if used, left := s.Budget(); used != wantUsed || left != wantLeft {
			t.Errorf("%d used, %d left; want %d, %d", used, left, wantUsed, wantLeft)
		}
	}
	expect(0, 100)
	if !s.budget.tryTake(60) || s.budget.tryTake(60) {
		t.Error("60 should fit into 100 once")
	}
	expect(60, 40)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if s.budget.take(ended, 60) == nil {
		t.Error("60 were taken twice")
	}
	expect(60, 40)
	s.budget.release(60)
	if err := s.budget.take(t.Context(), 1000); err != nil {
		t.Error(err)
	}
	expect(100, 0)
	s.budget.release(1000)
	expect(0, 100)
	s.budget = newBudget(-1)
	expect(0, math.MaxInt64)
}
