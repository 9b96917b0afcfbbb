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

// setting returns a number from the environment.
func setting(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// length returns the number of steps in a seed's history; SIM_STEPS overrides it.
func length(seed uint64) int { return int(setting("SIM_STEPS", 60+seed%9*50)) }

// TestSeed replays the history of SIM_SEED, and prints what happens and what the brokers log.
func TestSeed(t *testing.T) {
	seed := setting("SIM_SEED", 0)
	if seed == 0 {
		t.Skip("no SIM_SEED is set")
	}
	if err := Run(History{Seed: seed, Steps: length(seed), Trace: os.Stdout, Log: os.Stdout}); err != nil {
		t.Fatal(err)
	}
}

// TestHistories runs SIM_COUNT histories, beginning with seed SIM_FIRST.
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

// shortest looks for a shorter beginning of a failing history after which healing the cluster fails too.
func shortest(seed uint64) int {
	full := length(seed)
	for steps := 20; steps < full; steps += max(1, steps/10) {
		if Run(History{Seed: seed, Steps: steps}) != nil {
			return steps
		}
	}
	return full
}

// TestFailedBefore runs histories that failed once, each for another reason.
func TestFailedBefore(t *testing.T) {
	for _, h := range []History{
		{Seed: 1806, Steps: 343},   // a leader added a replica to the ISR that its controller had just removed
		{Seed: 7205, Steps: 310},   // a leader had removed all of the target from the ISR when the controller considered the reassignment complete
		{Seed: 39, Steps: 196},     // a controller resumed a term that it had given up
		{Seed: 6621, Steps: 360},   // brokers were not told of a reassignment that could not complete yet
		{Seed: 316832, Steps: 310}, // a controller died just after a leader had added a replica to the ISR that was being removed
		{Seed: 49523, Steps: 310},  // a replica was created again by what its broker was told of another one that was removed with it
		{Seed: 1459, Steps: 110},   // a session expired between a broker's registration and the start of its controller
	} {
		if err := Run(h); err != nil {
			t.Error(err)
		}
	}
}

// TestSameSeedSameHistory: a seed determines the whole history.
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
