package group

import (
	"errors"

	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/logstore/record"

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
			return
		}
		for producerID := range open {
			removeFrom(s.mu.open, producerID, g)
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
	s.topicsDeletedLocked(partitions)
}

// topicsDeletedLocked also forgets offsets whose tombstones cannot be written, when the disk is full for instance:
// otherwise they would be those of the next topics with these names.
func (s *shard) topicsDeletedLocked(partitions []logstore.TopicPartition) {
	of := offsetsOf(partitions)
	s.cleanLocked("of deleted topics", of)
	for _, g := range s.mu.groups {
		for _, tp := range of(g) {
			if g.forget(tp) {
				s.mu.unwritten = append(s.mu.unwritten, forgotten{g.id, tp})
			}
		}
	}
}

// writeTombstones tries again to write tombstones for what was forgotten without them, and has not been committed since.
func (s *shard) writeTombstones() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servingLocked() != nil || len(s.mu.unwritten) == 0 {
		return
	}
	t := s.tombstones()
	var err error
	for _, f := range s.mu.unwritten {
		if g := s.mu.groups[f.groupID]; g == nil || g.offsets[f.partition] == nil {
			err = errors.Join(err, t.addLocked(offsetKey(f.groupID, f.partition)))
		}
	}
	if err = errors.Join(err, t.flushLocked()); err == nil {
		s.mu.unwritten = nil
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
	t := s.tombstones()
	for _, tp := range partitions {
		if g.offsets[tp] == nil {
			continue
		}
		if err := t.addLocked(offsetKey(g.id, tp)); err != nil {
			return commitError(err)
		}
	}
	last := g.emptyWithout(partitions)
	if last && g.generation > 0 {
		if err := t.addLocked(groupIDKey(g.id)); err != nil {
			return commitError(err)
		}
	}
	if err := t.flushLocked(); err != nil {
		return commitError(err)
	}
	for _, tp := range partitions {
		g.forget(tp)
	}
	if last {
		s.dropLocked(g)
	}
	return nil
}

// tombstones writes tombstones in batches.
type tombstones struct {
	shard *shard
	nowMs int64
	batch *record.Builder
}

func (s *shard) tombstones() *tombstones {
	return &tombstones{s, s.coordinator.cfg.Now().UnixMilli(), s.batch()}
}

func (t *tombstones) addLocked(key []byte) error {
	t.batch.Add(t.nowMs, key, nil)
	if t.batch.Size() < tombstoneBatchBytes {
		return nil
	}
	return t.flushLocked()
}

func (t *tombstones) flushLocked() error {
	if t.batch.Count() == 0 {
		return nil
	}
	_, err := t.shard.appendLocked(t.batch, false)
	t.batch = t.shard.batch()
	return err
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
