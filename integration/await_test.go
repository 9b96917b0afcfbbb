package integration

import (
	"context"
	"testing"
	"time"
)

// await calls look until it reports true. After 90 s the test fails with what look saw last. One call may take 20 s.
func await(t testing.TB, what string, look func(context.Context) (seen string, so bool)) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		seen, so := look(ctx)
		cancel()
		if so {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within 90 s; %s", what, seen)
		}
	}
}

// until is await for a condition that has nothing else to show.
func until(t testing.TB, what string, so func(context.Context) bool) {
	t.Helper()
	await(t, what, func(ctx context.Context) (string, bool) { return "", so(ctx) })
}
