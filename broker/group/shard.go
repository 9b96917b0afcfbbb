package group

import (
	"context"
	"errors"
	"sync"
	"time"

	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// errNoGroup reports that a group does not exist. It never leaves the package.
var errNoGroup = errors.New("there is no such group")

// phase is the phase in a shard's life.
type phase int8

const (
	loading phase = iota
	serving
	failed // its partition could not be read and is about to be read again
	closed
)

// shard holds the groups of one partition of the internal topic while this broker leads it.
type shard struct {
	coordinator *Coordinator
	number      int32
	partition   Partition
	began       int32 // leader epoch since which this broker has been the leader
	log         *logrus.Entry

	ctx    context.Context // ends when the shard is dropped
	cancel context.CancelFunc

	commits waitingCommits // that arrive at the same time

	mu struct {
		sync.Mutex
		phase  phase
		epoch  int32 // leader epoch in which the log is known
		groups map[string]*group
		open   map[int64]map[*group]struct{} // groups with offsets in a producer's open transaction

		// What has happened while loading.
		ended   []Marker
		deleted []logstore.TopicPartition

		unwritten []forgotten // whose tombstones will be written
	}
}

func newShard(c *Coordinator, number, epoch int32, p Partition) *shard {
	s := &shard{coordinator: c, number: number, partition: p, began: epoch}
	s.log = c.log.WithFields(logrus.Fields{logx.Partition: number, logx.LeaderEpoch: epoch})
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	s.mu.epoch = epoch
	s.mu.groups = make(map[string]*group)
	s.mu.open = make(map[int64]map[*group]struct{})
	return s
}

func (s *shard) setEpoch(epoch int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch = max(s.mu.epoch, epoch)
}

// close drops the groups: this broker no longer leads the partition.
func (s *shard) close() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.phase = closed
	for _, g := range s.mu.groups {
		g.unload()
		if g.timer != nil {
			g.timer.Stop()
		}
	}
	s.mu.groups, s.mu.open = nil, nil
	s.log.Debug("unloaded the groups of a partition")
}

func (s *shard) serving() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servingLocked()
}

func (s *shard) servingLocked() error {
	switch s.mu.phase {
	case loading:
		return kerr.CoordinatorLoadInProgress
	case failed:
		return kerr.CoordinatorNotAvailable
	case closed:
		return kerr.NotCoordinator
	}
	return nil
}

// loadingLocked reports whether the groups will be known later: what happens to them has to be noted until then.
func (s *shard) loadingLocked() bool { return s.mu.phase == loading || s.mu.phase == failed }

// each calls f with every group.
func (s *shard) each(f func(*group)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.servingLocked(); err != nil {
		return err
	}
	for _, g := range s.mu.groups {
		f(g)
	}
	return nil
}

// step lets a group handle one event. missing is the error if it does not exist; if nil, it is created.
func (s *shard) step(groupID string, missing error, event func(*group, *step)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groupStepLocked(groupID, missing, s.coordinator.cfg.Now(), event)
}

func (s *shard) groupStepLocked(groupID string, missing error, now time.Time, event func(*group, *step)) error {
	if err := s.servingLocked(); err != nil {
		return err
	}
	g := s.mu.groups[groupID]
	if g == nil {
		if missing != nil {
			return missing
		}
		g = newGroup(groupID, s.coordinator.limits, now)
		s.mu.groups[groupID] = g
	}
	s.stepLocked(g, now, event)
	return nil
}

func (s *shard) stepLocked(g *group, now time.Time, event func(*group, *step)) {
	state, generation := g.state, g.generation
	st := &step{now: now}
	event(g, st)
	s.writeLocked(g, st)
	if g.state != state || g.generation != generation {
		s.logChange(g, st)
	}
	if state == CompletingRebalance && g.state == Stable {
		s.coordinator.done.rebalances.Add(1)
	}
	s.armLocked(g, now)
}

// writeLocked appends the records of a step, and continues with it if they are replicated at once.
func (s *shard) writeLocked(g *group, st *step) {
	for len(st.writes) > 0 {
		w := st.writes[0]
		st.writes = st.writes[1:]
		b := s.batch()
		b.Add(st.now.UnixMilli(), groupIDKey(g.id), w.value)
		end, err := s.appendLocked(b, s.allAcks())
		done := err != nil || !s.allAcks()
		if !done && w.done != nil {
			done, err = s.partition.Replicated(s.mu.epoch, end)
		}
		switch {
		case err != nil:
			s.coordinator.logger(g.id).WithError(err).Warn("cannot write a group's record")
			fallthrough
		case done:
			w.finish(st, err)
		case w.done != nil:
			epoch := s.mu.epoch
			s.coordinator.tasks.Go(func() { s.awaitWrite(g, w, epoch, end) })
		}
	}
}

func (w *write) finish(st *step, err error) {
	if w.done == nil {
		return
	}
	if err != nil {
		err = groupWriteError(err)
	}
	w.done(st, err)
}

// awaitWrite waits for a group's record, and brings the group the event that it is on all in-sync replicas, or will not
// be in time.
func (s *shard) awaitWrite(g *group, w write, epoch int32, end int64) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.coordinator.cfg.CommitTimeout, kerr.RequestTimedOut)
	defer cancel()
	err := s.partition.AwaitReplicated(ctx, epoch, end)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.groups[g.id] == g {
		s.stepLocked(g, s.coordinator.cfg.Now(), func(_ *group, st *step) { w.finish(st, err) })
	}
}

func (s *shard) allAcks() bool { return s.coordinator.cfg.CommitAcks == -1 }

func (s *shard) batch() *record.Builder {
	b := record.NewBuilder()
	b.Codec = s.coordinator.cfg.Codec
	return b
}

// txnBatch returns a batch that belongs to a transaction.
func (s *shard) txnBatch(txn *Txn) *record.Builder {
	b := s.batch()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = txn.ProducerID, txn.Epoch, 0, true
	return b
}

// appendLocked appends a batch and returns the log end offset after it.
func (s *shard) appendLocked(b *record.Builder, allAcks bool) (end int64, err error) {
	return s.appendTxnLocked(b, allAcks, nil)
}

// appendTxnLocked is appendLocked for a batch that may belong to a transaction; nil: it does not.
func (s *shard) appendTxnLocked(b *record.Builder, allAcks bool, txn *Txn) (end int64, err error) {
	data, err := b.Build()
	if err != nil {
		return 0, err
	}
	o := logstore.LeaderAppend{Origin: logstore.Coordinator}
	if txn != nil {
		o.Verify, o.Guard = txn.Verify, txn.Guard
	}
	info, err := s.partition.AppendInEpoch(s.mu.epoch, data, allAcks, o)
	return info.LastOffset + 1, err
}

// armLocked sets the group's timer if something is due before it would fire. It is not postponed.
func (s *shard) armLocked(g *group, now time.Time) {
	if g.due.IsZero() || !g.armed.IsZero() && !g.due.Before(g.armed) {
		return
	}
	g.armed = g.due
	wait := max(g.due.Sub(now), 0)
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, func() { s.timeUp(g) })
	} else {
		g.timer.Reset(wait)
	}
}

func (s *shard) timeUp(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.groups[g.id] != g {
		return
	}
	g.armed = time.Time{}
	s.stepLocked(g, s.coordinator.cfg.Now(), (*group).expire)
}

// dropLocked forgets a group.
func (s *shard) dropLocked(g *group) {
	delete(s.mu.groups, g.id)
	if g.timer != nil {
		g.timer.Stop()
	}
}

func (s *shard) logChange(g *group, st *step) {
	log := s.coordinator.logger(g.id).WithFields(logrus.Fields{logx.Generation: g.generation, logx.Partition: s.number})
	switch g.state {
	case Empty:
		log.Info("group is empty")
	case PreparingRebalance:
		log.Infof("group rebalances: %s", st.reason)
	case CompletingRebalance:
		log.WithFields(logrus.Fields{logx.Member: g.leader, logx.Count: len(g.order)}).Info("group has a new generation")
	case Stable:
		log.WithField(logx.Count, len(g.order)).Info("group is stable")
	}
}
