package group

import "sync/atomic"

// Counts is what a coordinator has done since its creation, and how many offsets it holds.
type Counts struct {
	Committed  int64 // offsets whose record was written
	Expired    int64 // offsets past their retention
	Deleted    int64 // offsets deleted on request (OffsetDelete)
	Rebalances int64 // that have led to a stable group
	Offsets    int   // held now, by loaded groups
}

// work is the part of Counts that only grows.
type work struct{ committed, expired, deleted, rebalances atomic.Int64 }

// Counts returns the current counts.
func (c *Coordinator) Counts() Counts {
	n := Counts{Committed: c.done.committed.Load(), Expired: c.done.expired.Load(), Deleted: c.done.deleted.Load(), Rebalances: c.done.rebalances.Load()}
	for _, s := range c.shards() {
		_ = s.each(func(g *group) { n.Offsets += len(g.offsets) }) // a partition that is not served has none
	}
	return n
}
