package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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

// endOffsets returns a topic's end offsets. Its leaders may have been elected just now and not know them for a moment
// (KIP-207); the client library does not ask again.
func endOffsets(t testing.TB, adm *kadm.Client, topic string) (ends kadm.ListedOffsets) {
	t.Helper()
	await(t, "the end offsets of "+topic+" are known", func(ctx context.Context) (string, bool) {
		var err error
		if ends, err = adm.ListEndOffsets(ctx, topic); err == nil {
			err = ends.Error()
		}
		return fmt.Sprint(err), err == nil
	})
	return ends
}
