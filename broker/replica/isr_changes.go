package replica

import (
	"context"
	"maps"
	"slices"
	"sync"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// isrChange is a proposed ISR of a partition that this broker leads.
type isrChange struct {
	partition       *Partition
	topicID         [16]byte
	controllerEpoch int32 // of the controller that made this broker the leader
	leaderEpoch     int32
	partitionEpoch  int32
	isr             []int32
	epochs          []int64 // broker epochs of isr; -1: unknown
}

// isrAnswer is the controller's answer to an isrChange.
type isrAnswer struct {
	err            error // a *kerr.Error
	isr            []int32
	leaderEpoch    int32
	partitionEpoch int32
}

// isrRoute publishes ISR changes: through the controller (isrSender) or directly (isrWriter). Its goroutine is run.
type isrRoute interface {
	submit(*isrChange)
	run(context.Context)
}

// isrQueue holds the pending changes, the last one for each partition.
type isrQueue struct {
	wake chan struct{}
	mu   struct {
		sync.Mutex // leaf
		pending    map[*Partition]*isrChange
	}
}

func (q *isrQueue) init() {
	q.wake = make(chan struct{}, 1)
	q.mu.pending = make(map[*Partition]*isrChange)
}

// submit queues a partition's new change, which replaces any earlier one.
func (q *isrQueue) submit(c *isrChange) {
	q.mu.Lock()
	q.mu.pending[c.partition] = c
	q.mu.Unlock()
	q.wakeUp()
}

// submitAgain queues changes that could not be published, except where the partition has proposed another one since: a
// LeaderAndIsr has come between, and nobody waits for the first one any more.
func (q *isrQueue) submitAgain(changes []*isrChange) {
	q.mu.Lock()
	for _, c := range changes {
		if q.mu.pending[c.partition] == nil {
			q.mu.pending[c.partition] = c
		}
	}
	q.mu.Unlock()
	q.wakeUp()
}

func (q *isrQueue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the queued changes that partitions are still waiting for. The others' partitions have been removed or
// have another role since.
func (q *isrQueue) take() []*isrChange {
	return slices.DeleteFunc(q.takeAll(), func(c *isrChange) bool { return !c.partition.awaits(c) })
}

func (q *isrQueue) takeAll() []*isrChange {
	q.mu.Lock()
	defer q.mu.Unlock()
	changes := slices.Collect(maps.Values(q.mu.pending))
	clear(q.mu.pending)
	return changes
}

// StoredState is what ZooKeeper has of a partition.
type StoredState struct {
	Leader, LeaderEpoch, PartitionEpoch int32
	ISR                                 []int32
}

// settle completes a change with its answer. It reports whether to try again.
//
// If the state is a newer one of the same leader epoch, no LeaderAndIsr follows from which the leader could learn it. Its
// controllers write no such state, but somebody else may have, and the leader would never change its ISR again: it takes
// over what is stored.
func settle(ctx context.Context, log *logrus.Entry, c *isrChange, a isrAnswer) (retry bool) {
	logSettled(log, c, a)
	if a.err != kerr.InvalidUpdateVersion {
		return c.partition.settleISR(c, a)
	}
	env := c.partition.env
	now, err := env.stored(ctx, c.partition.TP)
	switch {
	case err != nil:
		log.WithError(err).Debug("cannot read a partition's state, trying again")
		return true
	case now.LeaderEpoch < c.leaderEpoch || now.PartitionEpoch <= c.partitionEpoch:
		return true // the ZooKeeper server lags behind
	case now.LeaderEpoch > c.leaderEpoch || now.Leader != env.brokerID:
		return c.partition.settleISR(c, a)
	}
	env.counts.refused.Add(1)
	return c.partition.settleISR(c, isrAnswer{isr: now.ISR, leaderEpoch: now.LeaderEpoch, partitionEpoch: now.PartitionEpoch})
}

func logSettled(log *logrus.Entry, c *isrChange, a isrAnswer) {
	l := log.WithFields(logrus.Fields{
		logx.Topic: c.partition.TP.Topic, logx.Partition: c.partition.TP.Partition, logx.LeaderEpoch: c.leaderEpoch, logx.ISR: c.isr})
	if a.err != nil {
		l.WithError(a.err).Info("an ISR change was refused")
		return
	}
	l.Info("ISR changed")
}
