package replica

import (
	"testing"
	"time"

	"barnabas/internal/testwait"
)

// TestThrottledReplica: whichever side exceeds its limit, an out-of-sync follower gets nothing until the limit is no
// longer exceeded, and then everything; the traffic is counted on both sides.
func TestThrottledReplica(t *testing.T) {
	for _, side := range []string{"leader", "follower"} {
		t.Run(side, func(t *testing.T) {
			_, one, two := pair(t)
			limit := &one.leading
			if side == "follower" {
				limit = &two.following
			}
			limit.exceeded.Store(true)
			leader := one.must(t, 1, 0, both, []int32{1})
			appendTo(t, leader, "a", "b")
			follower := two.must(t, 1, 0, both, []int32{1})
			time.Sleep(50 * time.Millisecond)
			if end := follower.Log().LogEndOffset(); end != 0 {
				t.Fatalf("the log ends at %d", end)
			}
			limit.exceeded.Store(false)
			sameLogs(t, leader, follower)
			testwait.Until(t, "both in the ISR", func() bool { return len(leader.State().ISR) == 2 })
			if one.leading.bytes.Load() == 0 || two.following.bytes.Load() == 0 {
				t.Error("replicated bytes are not counted")
			}

			limit.exceeded.Store(true) // in-sync replicas are not throttled, since acks=all waits for them
			appendTo(t, leader, "c")
			sameLogs(t, leader, follower)
		})
	}
}
