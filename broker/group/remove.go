package group

import (
	"errors"
	"maps"
	"slices"

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

// writeTombstones tries again to write tombstones for what was forgotten without them, and has not been committed since.
func (s *shard) writeTombstones() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servingLocked() != nil || len(s.mu.unwritten) == 0 {
		return
	}
	var err error
	for _, f := range s.mu.unwritten {
		g := s.mu.groups[f.groupID]
		if g == nil {
			g = &group{id: f.groupID}
		}
		err = errors.Join(err, s.writeForgottenLocked(g, f))
	}
	if err == nil {
		s.mu.unwritten = nil
	}
}

// writeForgottenLocked writes tombstones in the transactions first: what one of them has committed meanwhile is removed
// by the last one.
func (s *shard) writeForgottenLocked(g *group, f forgotten) error {
	for _, in := range f.in {
		if open := g.open[in.producerID]; open != nil {
			if _, again := open.offsets[f.partition]; again {
				continue
			}
		}
		t := s.tombstones(g, &in)
		if err := errors.Join(t.offsetLocked(f.partition), t.flushLocked()); err != nil && !hasEnded(err) {
			return err
		}
	}
	if g.offsets[f.partition] != nil || g.hasEnded(f.partition) {
		return nil
	}
	t := s.tombstones(g, nil)
	return errors.Join(t.offsetLocked(f.partition), t.flushLocked())
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
		if hasEnded(err) {
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

// hasEnded reports whether an append failed because its transaction is not open any more.
func hasEnded(err error) bool {
	return errors.Is(err, kerr.InvalidTxnState) || errors.Is(err, kerr.InvalidProducerEpoch)
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

// tombstones writes tombstones for a group's offsets, in batches.
type tombstones struct {
	shard   *shard
	group   *group
	in      *Txn // transaction that they belong to; nil: none
	written func(logstore.TopicPartition)
	nowMs   int64
	batch   *record.Builder
	offsets []logstore.TopicPartition // that the batch is about
}

func (s *shard) tombstones(g *group, in *txnID) *tombstones {
	t := &tombstones{shard: s, group: g, nowMs: s.coordinator.cfg.Now().UnixMilli(), written: func(logstore.TopicPartition) {}}
	if in != nil {
		t.in = &Txn{ProducerID: in.producerID, Epoch: in.epoch, Verify: true} // without a guard: no transaction is opened
	}
	t.begin()
	return t
}

func (t *tombstones) begin() {
	if t.offsets = nil; t.in != nil {
		t.batch = t.shard.txnBatch(t.in)
	} else {
		t.batch = t.shard.batch()
	}
}

func (t *tombstones) offsetLocked(tp logstore.TopicPartition) error {
	t.offsets = append(t.offsets, tp)
	t.batch.Add(t.nowMs, offsetKey(t.group.id, tp), nil)
	if t.batch.Size() < tombstoneBatchBytes {
		return nil
	}
	return t.flushLocked()
}

func (t *tombstones) flushLocked() error {
	if t.batch.Count() == 0 {
		return nil
	}
	_, err := t.shard.appendTxnLocked(t.batch, false, t.in)
	if err == nil {
		for _, tp := range t.offsets {
			t.written(tp)
		}
	}
	t.begin()
	return err
}

// partitionSet is a set of partitions.
type partitionSet map[logstore.TopicPartition]struct{}

// partitions returns the partitions that the group has offsets for, also in transactions.
func (g *group) partitions() partitionSet {
	all := make(partitionSet, len(g.offsets))
	for tp := range g.offsets {
		all[tp] = struct{}{}
	}
	for _, open := range g.open {
		for tp := range open.offsets {
			all[tp] = struct{}{}
		}
	}
	for _, e := range g.ended {
		for tp := range e.offsets {
			all[tp] = struct{}{}
		}
	}
	return all
}

// emptyWithout reports whether nothing would be left of the group without some offsets.
func (g *group) emptyWithout(partitions []logstore.TopicPartition) bool {
	if g.state != Empty {
		return false
	}
	left := g.partitions()
	for _, tp := range partitions {
		delete(left, tp)
	}
	return len(left) == 0
}
