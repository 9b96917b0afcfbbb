package sim

import (
	"os"
	"strconv"
	"testing"
)

// TestSeed replays one history: SIM_SEED, with SIM_STEPS, and prints what happens.
func TestSeed(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("SIM_SEED"), 10, 64)
	if err != nil {
		t.Skip("no SIM_SEED is set")
	}
	steps := historySteps(seed)
	if n, err := strconv.Atoi(os.Getenv("SIM_STEPS")); err == nil {
		steps = n
	}
	if err := Run(History{Seed: seed, Steps: steps, Trace: os.Stdout, Log: os.Stdout}); err != nil {
		t.Fatal(err)
	}
}

func historySteps(seed uint64) int { return 200 + int(seed%8)*200 }

// TestHistories runs many histories, SIM_COUNT of them from SIM_FIRST on.
func TestHistories(t *testing.T) {
	first, count := uint64(1), uint64(2000)
	if n, err := strconv.ParseUint(os.Getenv("SIM_FIRST"), 10, 64); err == nil {
		first = n
	}
	if n, err := strconv.ParseUint(os.Getenv("SIM_COUNT"), 10, 64); err == nil {
		count = n
	}
	for seed := first; seed < first+count; seed++ {
		if err := Run(History{Seed: seed, Steps: historySteps(seed)}); err != nil {
			t.Error(err)
		}
	}
}
