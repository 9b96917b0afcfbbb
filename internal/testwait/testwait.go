// Package testwait lets tests wait for changes that nothing announces. A test that can wait for a channel, or that runs
// in a synctest bubble, does not need it.
package testwait

import (
	"fmt"
	"testing"
	"time"
)

// patience is long, since it only matters to a test that fails: other programs may keep the machine busy.
const patience = 30 * time.Second

// The pause between two checks doubles from the first to the last of these.
const (
	firstPause = time.Millisecond
	lastPause  = 50 * time.Millisecond
)

// Until calls check until it returns true. After 30 s the test fails with what it has waited for.
func Until(t testing.TB, what string, check func() bool) {
	t.Helper()
	if !repeat(check) {
		t.Fatalf("%s: has not happened within %v", what, patience)
	}
}

// See is Until for a check that also returns what it saw, which the failure message shows.
func See[T any](t testing.TB, what string, look func() (seen T, ok bool)) {
	t.Helper()
	var seen T
	if !repeat(func() (ok bool) { seen, ok = look(); return ok }) {
		t.Fatalf("%s: has not happened within %v, last seen: %s", what, patience, fmt.Sprint(seen))
	}
}

func repeat(check func() bool) bool {
	pause := firstPause
	for end := time.Now().Add(patience); !check(); pause = min(2*pause, lastPause) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
