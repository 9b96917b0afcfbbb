package replica

import (
	"context"
	"time"

	"barnabas/internal/await"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ControllerClient sends a request to the current controller.
type ControllerClient interface {
	ToController(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

// isrSender sends ISR changes to the controller, all that are pending in one AlterPartition request, one request at a
// time (KIP-497).
type isrSender struct {
	isrQueue
	brokerID    int32
	brokerEpoch func() int64
	version     int16 // of AlterPartition, the newest that every controller knows
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
