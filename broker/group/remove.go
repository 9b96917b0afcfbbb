package group

import (
	"errors"
	"maps"
	"slices"

	"barnabas/internal/logx"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Delete removes a group with its offsets. Errors: NON_EMPTY_GROUP while it has members, GROUP_ID_NOT_FOUND.
func (c *Coordinator) Delete(groupID string) error {
	var result error
	err := c.onGroup(groupID, true, func(s *shard, g *group) {
		if g.state != Empty {
			result = kerr.NonEmptyGroup
			return
		}
		result = s.removeLocked(g, slices.Collect(maps.Keys(g.partitions())))
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
	s.topicsDeletedLocked(partitions)
}

// topicsDeletedLocked also forgets offsets whose tombstones cannot be written, when the disk is full for instance:
// otherwise they would be those of the next topics with these names.
func (s *shard) topicsDeletedLocked(partitions []logstore.TopicPartition) {
	of := offsetsOf(partitions)
	s.cleanLocked("of deleted topics", of)
	for _, g := range s.mu.groups {
		for _, tp := range of(g) {
			f := forgotten{groupID: g.id, partition: tp}
			for producerID, open := range g.open {
				if _, in := open.offsets[tp]; in {
					f.in = append(f.in, txnID{producerID, open.epoch})
					s.forgetOpenLocked(g, producerID, tp)
				}
			}
			g.forget(tp)
			s.mu.unwritten = append(s.mu.unwritten, f)
		}
	}
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
		s.writeTombstones()
		highWatermark := s.partition.Log().HighWatermark()
		expired := s.clean("that expired", func(g *group) []logstore.TopicPartition {
			return g.expired(now, c.cfg.Retention, highWatermark)
		})
		c.done.expired.Add(int64(expired))
	}
	c.removeGone()
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
	highWatermark := s.partition.Log().HighWatermark()
	for _, g := range s.mu.groups {
		g.settle(highWatermark)
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
// need not be replicated first: what comes back after a failover is removed again. If an error occurs on the way, the
// offsets whose tombstones have been written are dropped. A group that never had a generation has no record to remove.
func (s *shard) removeLocked(g *group, partitions []logstore.TopicPartition) error {
	last := g.emptyWithout(partitions)
	t := s.tombstones(g, nil)
	t.written = g.forget
	for _, tp := range partitions {
		if g.offsets[tp] == nil && !g.hasEnded(tp) {
			continue
		}
		if err := t.offsetLocked(tp); err != nil {
			return commitError(err)
		}
	}
	if len(g.open) > 0 {
		// First the others: where an offset is kept, since its tombstone could not be written, none in a transaction must
		// supersede it when the log is compacted.
		err := t.flushLocked()
		if err == nil {
			err = s.removeOpenLocked(g, t, partitions)
		}
		if err != nil {
			return commitError(err)
		}
	}
	if last && g.generation > 0 {
		t.batch.Add(t.nowMs, groupIDKey(g.id), nil)
	}
	if err := t.flushLocked(); err != nil {
		return commitError(err)
	}
	if last {
		s.dropLocked(g)
	}
	return nil
}

// removeOpenLocked removes offsets from the group's open transactions, with tombstones that belong to these: a tombstone
// outside of them would not keep whoever loads the partition from applying the offsets when they are committed. Offsets
// of transactions that have just ended, whose markers are about to be noticed, are removed like all others, with plain.
func (s *shard) removeOpenLocked(g *group, plain *tombstones, partitions []logstore.TopicPartition) error {
	for producerID, open := range g.open {
		t := s.tombstones(g, &txnID{producerID, open.epoch})
		t.written = func(tp logstore.TopicPartition) { s.forgetOpenLocked(g, producerID, tp) }
		var err error
		var in []logstore.TopicPartition
		for _, tp := range partitions {
			if _, found := open.offsets[tp]; found && err == nil {
				in = append(in, tp)
				err = t.offsetLocked(tp)
			}
		}
		if err == nil {
			err = t.flushLocked()
		}
		if txnEnded(err) {
			err = nil
			for _, tp := range in {
				s.forgetOpenLocked(g, producerID, tp)
				err = errors.Join(err, plain.offsetLocked(tp))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetOpenLocked drops an offset of a group from a producer's open transaction.
func (s *shard) forgetOpenLocked(g *group, producerID int64, tp logstore.TopicPartition) {
	open := g.open[producerID]
	if open == nil {
		return
	}
	if delete(open.offsets, tp); len(open.offsets) == 0 {
		delete(g.open, producerID)
		removeFrom(s.mu.open, producerID, g)
	}
}
