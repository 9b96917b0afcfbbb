package replica

import (
	"slices"

	"barnabas/logstore"
)

// Throttle slows down the replication of some partitions while an out-of-sync replica catches up, so that clients are
// not crowded out (KIP-73). The zero value does not throttle.
type Throttle struct {
	Covers   func(logstore.TopicPartition) bool // this broker's replica is throttled
	Exceeded func() bool                        // the rate is too high at the moment
	Record   func(bytes int64)
}

func (t Throttle) covers(tp logstore.TopicPartition) bool { return t.Covers != nil && t.Covers(tp) }

func (t Throttle) holdsBack(tp logstore.TopicPartition) bool { return t.covers(tp) && t.Exceeded() }

func (t Throttle) record(tp logstore.TopicPartition, bytes int64) {
	if bytes > 0 && t.covers(tp) {
		t.Record(bytes)
	}
}

// Sent counts records that were sent to a follower.
func (p *Partition) Sent(bytes int64) { p.env.throttle.record(p.TP, bytes) }

// heldBackLocked reports whether a follower must wait for records: it is out of sync, and the partition is throttled
// (ReplicaManager.shouldLeaderThrottle, 3.9).
func (p *Partition) heldBackLocked(follower int32) bool {
	return !slices.Contains(p.mu.isr.committed, follower) && p.env.throttle.holdsBack(p.TP)
}
