// Package seeds tells property tests how many random histories to run.
package seeds

import (
	"os"
	"strconv"
	"testing"
)

// Count is usual, or short with -short. MODEL_SEEDS=N in the environment wants the seeds below N instead, as `make models` does.
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
