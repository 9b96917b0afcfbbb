package replica

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ControllerClient sends a request to the current controller.
type ControllerClient interface {
	ToController(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

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

// isrSender sends ISR changes to the controller, all that are pending in one AlterPartition request, one request at a
// time (KIP-497).
type isrSender struct {
	isrQueue
	brokerID    int32
	brokerEpoch func() int64
	version     int16 // of AlterPartition: 3 with IBP 3.5+, 2 with topic ids (2.8+), else 0
	controller  ControllerClient
	log         *logrus.Entry
}

func newISRSender(brokerID int32, brokerEpoch func() int64, version int16, c ControllerClient, log *logrus.Entry) *isrSender {
	s := &isrSender{brokerID: brokerID, brokerEpoch: brokerEpoch, version: version, controller: c, log: log}
	s.init()
	return s
}

// isrRetryDelay is the pause after a request that the controller did not accept.
const isrRetryDelay = 50 * time.Millisecond

func (s *isrSender) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		changes := s.take()
		if len(changes) == 0 {
			continue
		}
		again := s.send(ctx, changes)
		if len(again) == 0 {
			continue
		}
		if await.Pause(ctx, isrRetryDelay) != nil {
			return
		}
		s.submitAgain(again)
	}
}

// send returns the changes that have to be sent again.
func (s *isrSender) send(ctx context.Context, changes []*isrChange) (again []*isrChange) {
	byVersion := make(map[int16][]*isrChange)
	for _, c := range changes {
		v := s.versionFor(c)
		byVersion[v] = append(byVersion[v], c)
	}
	for version, some := range byVersion {
		again = append(again, s.sendIn(ctx, version, some)...)
	}
	return again
}

// alterByID is the first version of AlterPartition that identifies topics by id.
const alterByID = 2

// versionFor returns an older version for topics without an id, created before inter.broker.protocol.version 2.8.
func (s *isrSender) versionFor(c *isrChange) int16 {
	if c.topicID == ([16]byte{}) {
		return min(s.version, alterByID-1)
	}
	return s.version
}

// sendIn sends changes in one version of AlterPartition.
func (s *isrSender) sendIn(ctx context.Context, version int16, changes []*isrChange) []*isrChange {
	resp, err := s.controller.ToController(ctx, s.request(version, changes))
	if err != nil {
		s.log.WithError(err).Debug("cannot reach the controller with ISR changes")
		return changes
	}
	answer := resp.(*kmsg.AlterPartitionResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		s.log.WithError(err).Info("the controller did not accept ISR changes, trying again")
		return changes
	}
	var again []*isrChange
	answers := s.answers(answer)
	for _, c := range changes {
		a, ok := answers[keyOf(version, c)]
		if !ok {
			a.err = kerr.UnknownServerError
		}
		if settle(ctx, s.log, c, a) {
			again = append(again, c)
		}
	}
	return again
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

// isrKey identifies a partition as that version of AlterPartition does.
type isrKey struct {
	topic     string
	id        [16]byte
	partition int32
}

func keyOf(version int16, c *isrChange) isrKey {
	if version >= alterByID {
		return isrKey{id: c.topicID, partition: c.partition.TP.Partition}
	}
	return isrKey{topic: c.partition.TP.Topic, partition: c.partition.TP.Partition}
}

func (s *isrSender) answers(resp *kmsg.AlterPartitionResponse) map[isrKey]isrAnswer {
	m := make(map[isrKey]isrAnswer)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			m[isrKey{t.Topic, t.TopidID, p.Partition}] = isrAnswer{kerr.ErrorForCode(p.ErrorCode), p.ISR, p.LeaderEpoch, p.PartitionEpoch}
		}
	}
	return m
}

func (s *isrSender) request(version int16, changes []*isrChange) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = version, s.brokerID, s.brokerEpoch()
	index := make(map[isrKey]int)
	for _, c := range changes {
		key := keyOf(version, c)
		key.partition = 0
		i, ok := index[key]
		if !ok {
			i = len(req.Topics)
			index[key] = i
			t := kmsg.NewAlterPartitionRequestTopic()
			t.Topic, t.TopicID = key.topic, key.id
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewAlterPartitionRequestTopicPartition()
		p.Partition, p.LeaderEpoch, p.PartitionEpoch = c.partition.TP.Partition, c.leaderEpoch, c.partitionEpoch
		p.NewISR = c.isr
		for j, id := range c.isr {
			e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			e.BrokerID, e.BrokerEpoch = id, c.epochs[j]
			p.NewEpochISR = append(p.NewEpochISR, e)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	return req
}
