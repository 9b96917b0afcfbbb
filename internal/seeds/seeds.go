// Package seeds tells property tests how many random histories to run.
package seeds

import (
	"os"
	"strconv"
	"testing"
)

// Count returns usual, or short with -short. If the environment has MODEL_SEEDS=N, as `make models` sets it, Count
// returns N instead.
func Count(t testing.TB, usual, short uint64) uint64 {
	t.Helper()
	if text := os.Getenv("MODEL_SEEDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("MODEL_SEEDS: %v", err)
		}
		return n
	}
	if testing.Short() {
		return short
	}
	return usual
}
