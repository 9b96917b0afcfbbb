package replica

import (
	"testing"
	"time"
)

// TestThrottledReplica: whichever side is too fast, a follower out of sync gets nothing until it no longer is, and then
// everything; what goes over is counted on both sides.
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
				t.Fatalf("it has %d records", end)
			}
			limit.exceeded.Store(false)
			sameLogs(t, leader, follower)
			eventually(t, "both in the ISR", func() bool { return len(leader.State().ISR) == 2 })
			if one.leading.bytes.Load() == 0 || two.following.bytes.Load() == 0 {
				t.Error("what was replicated is not counted")
			}

			limit.exceeded.Store(true) // acks=all of clients waits for who is in sync: that is not slowed down
			appendTo(t, leader, "c")
			sameLogs(t, leader, follower)
		})
	}
}
