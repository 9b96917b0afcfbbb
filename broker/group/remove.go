package group

import (
	"barnabas/internal/logx"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
)

// tombstoneBatchBytes bounds a batch of tombstones, so that no group is too large to be removed.
const tombstoneBatchBytes = 256 << 10

// Delete removes a group with its offsets. Errors: NON_EMPTY_GROUP while it has members, GROUP_ID_NOT_FOUND.
func (c *Coordinator) Delete(groupID string) error {
	var result error
	err := c.onGroup(groupID, true, func(s *shard, g *group) {
		if g.state != Empty {
			result = kerr.NonEmptyGroup
			return
		}
		all := make([]logstore.TopicPartition, 0, len(g.offsets))
		for tp := range g.offsets {
			all = append(all, tp)
		}
		open := g.open
		g.open = nil
		if result = s.removeLocked(g, all); result != nil {
			g.open = open
		}
	})
	if err != nil {
		return err
	}
	return result
}

// DeleteOffsets removes a group's offsets for partitions of topics that its members do not subscribe to. It returns one
// error for each, GROUP_SUBSCRIBED_TO_TOPIC, or one for the request: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
func (c *Coordinator) DeleteOffsets(groupID string, partitions []logstore.TopicPartition) ([]error, error) {
	errs := make([]error, len(partitions))
	var result error
	err := c.onGroup(groupID, false, func(s *shard, g *group) {
		if g.state != Empty && g.protocolType != consumerProtocol {
			result = kerr.NonEmptyGroup
			return
		}
		var free []logstore.TopicPartition
		for i, tp := range partitions {
			if g.consumes(tp.Topic) {
				errs[i] = kerr.GroupSubscribedToTopic
			} else {
				free = append(free, tp)
			}
		}
		if len(free) > 0 {
			kept := len(g.offsets)
			result = s.removeLocked(g, free)
			c.done.deleted.Add(int64(kept - len(g.offsets)))
		}
	})
	if err != nil {
		return nil, err
	}
	return errs, result
}

// consumes reports whether members subscribe to a topic. If that is unknown, they may.
func (g *group) consumes(topic string) bool {
	if g.state == Empty {
		return false
	}
	_, in := g.subscribed[topic]
	return in || g.subscribed == nil
}

func (c *Coordinator) onGroup(groupID string, emptyAllowed bool, f func(*shard, *group)) error {
	s, err := c.shardOf(groupID, emptyAllowed)
	if err != nil {
		return err
	}
	return s.step(groupID, kerr.GroupIDNotFound, func(g *group, _ *step) { f(s, g) })
}

// TopicsDeleted removes all groups' offsets for deleted partitions.
func (c *Coordinator) TopicsDeleted(partitions []logstore.TopicPartition) {
	for _, s := range c.shards() {
		s.topicsDeleted(partitions)
	}
}

func (s *shard) topicsDeleted(partitions []logstore.TopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loadingLocked() {
		s.mu.deleted = append(s.mu.deleted, partitions...)
		return
	}
	s.cleanLocked("of deleted topics", offsetsOf(partitions))
}

// offsetsOf chooses a group's offsets for some partitions.
func offsetsOf(partitions []logstore.TopicPartition) func(*group) []logstore.TopicPartition {
	return func(g *group) []logstore.TopicPartition {
		var has []logstore.TopicPartition
		for _, tp := range partitions {
			if _, ok := g.offsets[tp]; ok || g.inTxn(tp) {
				has = append(has, tp)
			}
		}
		return has
	}
}

// expire removes offsets past their retention, and empty groups.
func (c *Coordinator) expire() {
	now := c.cfg.Now()
	for _, s := range c.shards() {
		highWatermark := s.partition.Log().HighWatermark()
		expired := s.clean("that expired", func(g *group) []logstore.TopicPartition {
			return g.expired(now, c.cfg.Retention, highWatermark)
		})
		c.done.expired.Add(int64(expired))
	}
}

// clean removes the offsets that choose returns for each group, and counts them.
func (s *shard) clean(which string, choose func(*group) []logstore.TopicPartition) (removed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cleanLocked(which, choose)
}

func (s *shard) cleanLocked(which string, choose func(*group) []logstore.TopicPartition) (removed int) {
	if s.servingLocked() != nil {
		return 0
	}
	for _, g := range s.mu.groups {
		partitions := choose(g)
		if len(partitions) == 0 && !g.abandoned() {
			continue
		}
		if err := s.removeLocked(g, partitions); err != nil {
			s.coordinator.logger(g.id).WithError(err).Warn("cannot remove offsets")
			continue
		}
		removed += len(partitions)
	}
	if removed > 0 {
		s.log.WithField(logx.Count, removed).Infof("removed offsets %s", which)
	}
	return removed
}

// removeLocked writes tombstones for offsets, and for the group itself if nothing is left of it, and drops them. They
// need not be replicated first: what comes back after a failover is removed again. A group that never had a generation
// has no record to remove.
func (s *shard) removeLocked(g *group, partitions []logstore.TopicPartition) error {
	now := s.coordinator.cfg.Now().UnixMilli()
	b := s.batch()
	add := func(key []byte) error {
		b.Add(now, key, nil)
		if b.Size() < tombstoneBatchBytes {
			return nil
		}
		_, err := s.appendLocked(b, false)
		b = s.batch()
		return err
	}
	for _, tp := range partitions {
		if g.offsets[tp] == nil {
			continue
		}
		if err := add(offsetKey(g.id, tp)); err != nil {
			return commitError(err)
		}
	}
	last := g.emptyWithout(partitions)
	if last && g.generation > 0 {
		if err := add(groupIDKey(g.id)); err != nil {
			return commitError(err)
		}
	}
	if b.Count() > 0 {
		if _, err := s.appendLocked(b, false); err != nil {
			return commitError(err)
		}
	}
	for _, tp := range partitions {
		g.forget(tp)
	}
	if last {
		s.dropLocked(g)
	}
	return nil
}

// emptyWithout reports whether nothing would be left of the group without some offsets.
func (g *group) emptyWithout(partitions []logstore.TopicPartition) bool {
	if g.state != Empty || len(g.open) > 0 {
		return false
	}
	gone := make(map[logstore.TopicPartition]struct{}, len(partitions))
	for _, tp := range partitions {
		gone[tp] = struct{}{}
	}
	for tp := range g.offsets {
		if _, ok := gone[tp]; !ok {
			return false
		}
	}
	return true
}
