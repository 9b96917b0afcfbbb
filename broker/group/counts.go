package group

import "sync/atomic"

// Counts is what a coordinator has done since it was made, and how many offsets it keeps.
type Counts struct {
	Committed  int64 // offsets whose record was written
	Expired    int64 // offsets that were kept long enough
	Deleted    int64 // offsets that somebody asked to delete (OffsetDelete)
	Rebalances int64 // that have led to a stable group
	Offsets    int   // kept now, of groups that are loaded
}

// work is the part of Counts that only grows.
type work struct{ committed, expired, deleted, rebalances atomic.Int64 }

// Counts gives what has been done so far.
func (c *Coordinator) Counts() Counts {
	n := Counts{Committed: c.done.committed.Load(), Expired: c.done.expired.Load(), Deleted: c.done.deleted.Load(), Rebalances: c.done.rebalances.Load()}
	for _, s := range c.shards() {
		_ = s.each(func(g *group) { n.Offsets += len(g.offsets) }) // none of a partition that is not served
	}
	return n
}
