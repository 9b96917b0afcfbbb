package zkcoord_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"barnabas/zkcoord"
	"barnabas/zkcoord/zktest"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestTooLarge: a server closes the connection on a request that is larger than it accepts, and again on each attempt.
func TestTooLarge(t *testing.T) {
	c := zktest.Client(t, zktest.Connect(t))
	ok(t, c.EnsureTopNodes(t.Context()))
	ok(t, c.EnsureTokenNodes(t.Context()))
	var lost atomic.Int32
	defer c.OnSession(func(zkcoord.SessionEvent) { lost.Add(1) })()
	topic := zkcoord.Entity{Kind: zkcoord.Topics, Name: "t"}
	write := func(size int) error {
		return c.UpdateEntityConfigEarly(t.Context(), topic, func(map[string]string) (map[string]string, error) {
			return map[string]string{"k": strings.Repeat("x", size)}, nil
		})
	}
	refused := 0
	for size := 1_048_300; size <= 0xfffff; size += 11 { // around the limit: what is sent is accepted
		if err := write(size); errors.Is(err, zkcoord.ErrTooLarge) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Error("the limit was not reached")
	}
	ok(t, write(1_000_000))
	for name, err := range map[string]error{
		"settings": write(1_100_000),
		"token":    c.CreateDelegationToken(t.Context(), zkcoord.DelegationToken{ID: "a", Owner: "User:a", Renewers: []string{"User:" + strings.Repeat("x", 1_100_000)}}),
	} {
		if !errors.Is(err, zkcoord.ErrTooLarge) || !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if found, err := c.EntityConfig(t.Context(), topic); err != nil || len(found["k"]) != 1_000_000 || lost.Load() > 0 {
		t.Errorf("then there are %d bytes, %v, and the session has changed %d times", len(found["k"]), err, lost.Load())
	}
}
