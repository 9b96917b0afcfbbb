package sim

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// setting is a number from the environment.
func setting(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// length is how many steps a seed's history has; SIM_STEPS overrides it.
func length(seed uint64) int { return int(setting("SIM_STEPS", 60+seed%9*50)) }

// TestSeed replays one history, SIM_SEED, and prints what happens and what the brokers log.
func TestSeed(t *testing.T) {
	seed := setting("SIM_SEED", 0)
	if seed == 0 {
		t.Skip("no SIM_SEED is set")
	}
	if err := Run(History{Seed: seed, Steps: length(seed), Trace: os.Stdout, Log: os.Stdout}); err != nil {
		t.Fatal(err)
	}
}

// TestHistories runs histories, SIM_COUNT of them from SIM_FIRST on.
func TestHistories(t *testing.T) {
	first, count := setting("SIM_FIRST", 1), setting("SIM_COUNT", 1500)
	if testing.Short() {
		count = min(count, 200)
	}
	const workers = 2
	var work sync.WaitGroup
	for n := range uint64(workers) {
		work.Go(func() {
			for seed := first + n; seed < first+count; seed += workers {
				if err := Run(History{Seed: seed, Steps: length(seed)}); err != nil {
					t.Errorf("%v\nreplay: SIM_SEED=%d SIM_STEPS=%d go test ./controller/sim -run TestSeed", err, seed, shortest(seed))
				}
			}
		})
	}
	work.Wait()
}

// shortest looks for a beginning of a failing history that fails too once the cluster is healed.
func shortest(seed uint64) int {
	full := length(seed)
	for steps := 20; steps < full; steps += max(1, steps/10) {
		if Run(History{Seed: seed, Steps: steps}) != nil {
			return steps
		}
	}
	return full
}

// TestFailedBefore runs the histories that once failed, each for a reason of its own.
func TestFailedBefore(t *testing.T) {
	for _, h := range []History{
		{Seed: 1806, Steps: 343},   // a leader let a replica into the ISR that its controller had just dropped
		{Seed: 7205, Steps: 310},   // a leader had dropped all of a target when the controller took the reassignment for done
		{Seed: 39, Steps: 196},     // a controller took up a term again that it had given up
		{Seed: 6621, Steps: 360},   // brokers were not told of a reassignment that could not end yet
		{Seed: 316832, Steps: 310}, // a controller died when a leader had just let a replica in that was moved off
		{Seed: 49523, Steps: 310},  // a replica was made anew by what its broker was told of another one that left with it
	} {
		if err := Run(h); err != nil {
			t.Error(err)
		}
	}
}

// A seed is a history: whoever runs it sees the same.
func TestSameSeedSameHistory(t *testing.T) {
	for seed := range uint64(5) {
		var once, again bytes.Buffer
		for _, trace := range []*bytes.Buffer{&once, &again} {
			if err := Run(History{Seed: seed, Steps: 600, Trace: trace}); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(once.Bytes(), again.Bytes()) {
			t.Errorf("seed %d: two runs differ: %s", seed, cmp.Diff(strings.Split(once.String(), "\n"), strings.Split(again.String(), "\n")))
		}
	}
}
