package group

import (
	"maps"
	"slices"

	"barnabas/logstore"
)

// removeGone removes the offsets of topics that do not exist: they were deleted while the partition moved from one
// coordinator to the next, and neither of them was told in time, or the former one could not write the tombstones.
// Offsets are only accepted for topics that exist. (Apache Kafka keeps them, and the next topics with these names get
// them.)
func (c *Coordinator) removeGone() {
	if c.cfg.Gone == nil {
		return
	}
	topics := make(topics)
	until := make(map[*shard]int64) // what was committed later may be for a new topic
	for _, s := range c.shards() {
		until[s] = s.partition.Log().LogEndOffset()
		_ = s.each(func(g *group) { // a partition that is not served is none of our business
			for tp := range g.partitions() {
				topics[tp.Topic] = struct{}{}
			}
		})
	}
	gone, err := c.cfg.Gone(c.ctx, slices.Sorted(maps.Keys(topics)))
	if err != nil {
		if c.ctx.Err() == nil {
			c.log.WithError(err).Warn("cannot find out which topics exist")
		}
		return
	}
	if len(gone) == 0 {
		return
	}
	for s, until := range until {
		s.clean("of topics that do not exist", func(g *group) []logstore.TopicPartition { return g.committedBefore(until, gone) })
	}
}

// committedBefore lists the partitions of some topics for which all offsets were committed before an offset of the log.
func (g *group) committedBefore(until int64, topics []string) []logstore.TopicPartition {
	var list []logstore.TopicPartition
	for tp := range g.partitions() {
		if slices.Contains(topics, tp.Topic) && g.newest(tp) <= until {
			list = append(list, tp)
		}
	}
	return list
}

// newest returns the log end offset after the last commit for a partition, also in transactions.
func (g *group) newest(tp logstore.TopicPartition) int64 {
	last := int64(0)
	if of := g.offsets[tp]; of != nil {
		last = of.newest()
	}
	for _, open := range g.open {
		last = max(last, open.offsets[tp].end)
	}
	for _, e := range g.ended {
		last = max(last, e.offsets[tp].end)
	}
	return last
}
