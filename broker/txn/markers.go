package txn

import (
	"context"
	"fmt"
	"maps"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// markersRetryDelay is the pause before retrying markers that could not be written, unless leaders change.
const markersRetryDelay = 100 * time.Millisecond

// finish writes the markers of a transaction, decided by the record that ends at offset end of a leader epoch, to all
// its partitions, and then records that it is complete. It ends early only if the shard is closed: then the next leader
// continues.
func (c *Coordinator) finish(s *shard, id string, epoch int32, end int64) {
	if s.awaitHeld(epoch, end) != nil {
		return
	}
	t, found, err := s.view(id)
	if err != nil || !found || !t.ending() {
		return
	}
	log := c.log.WithFields(logrus.Fields{logx.TxnID: id, logx.ProducerID: t.ID, logx.ProducerEpoch: t.Epoch})
	c.writeMarkers(s, id, t, log)
	for s.ctx.Err() == nil {
		done, err := s.complete(id, c.now())
		if err == nil {
			if s.awaitHeld(done.epoch, done.end) == nil {
				s.changed.Notify()
			}
			return
		}
		log.WithError(err).Info("cannot record the completion of a transaction, trying again")
		await.Pause(s.ctx, markersRetryDelay)
	}
}

// writeMarkers returns when every partition has its marker or is gone, or the shard is closed.
func (c *Coordinator) writeMarkers(s *shard, id string, t transaction, log *logrus.Entry) {
	left := maps.Clone(t.partitions)
	for s.ctx.Err() == nil {
		done := c.tryMarkers(s, t, left, log)
		s.written(id, done)
		for _, tp := range done {
			delete(left, tp)
		}
		if len(left) == 0 {
			return
		}
		c.awaitLeaders(s.ctx)
	}
}

// awaitLeaders waits for changes of leaders, but not for long.
func (c *Coordinator) awaitLeaders(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, markersRetryDelay)
	defer cancel()
	news := false
	_ = await.Until(ctx, func() (bool, error) {
		was := news
		news = true
		return was, nil
	}, c.cfg.MetadataChanged)
}

// tryMarkers sends markers to the leaders of partitions once, and returns the partitions that are done.
func (c *Coordinator) tryMarkers(s *shard, t transaction, left partitions, log *logrus.Entry) (done []logstore.TopicPartition) {
	byLeader := make(map[int32][]logstore.TopicPartition)
	for tp, topic := range left {
		leader, exists := c.cfg.Leader(tp)
		switch {
		case !exists, c.replaced(tp, topic):
			log.WithFields(logrus.Fields{logx.Topic: tp.Topic, logx.Partition: tp.Partition}).
				Info("a partition of a transaction is deleted and needs no marker")
			done = append(done, tp)
		case leader >= 0:
			byLeader[leader] = append(byLeader[leader], tp)
		}
	}
	answers := make(chan markerAnswer, len(byLeader))
	for leader, tps := range byLeader {
		c.sendMarker(leader, markerOrder{markerFor(t, s.epoch(), tps), answers})
	}
	for range byLeader {
		select {
		case <-s.ctx.Done():
			return done
		case a := <-answers:
			done = append(done, a.written(log)...)
		}
	}
	return done
}

// replaced reports whether a partition no longer belongs to the transaction's topic, but to another one with that name.
// If leaders ask before they append, nothing of the transaction can be in it; if they do not, it gets its marker.
func (c *Coordinator) replaced(tp logstore.TopicPartition, joined topicID) bool {
	return c.cfg.Verified() && joined.replacedBy(c.cfg.TopicID(tp.Topic))
}

func markerFor(t transaction, epoch int32, tps []logstore.TopicPartition) kmsg.WriteTxnMarkersRequestMarker {
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.Committed, m.CoordinatorEpoch = t.ID, t.Epoch, t.state == PrepareCommit, epoch
	index := make(map[string]int)
	for _, tp := range tps {
		i, ok := index[tp.Topic]
		if !ok {
			i = len(m.Topics)
			index[tp.Topic] = i
			m.Topics = append(m.Topics, kmsg.WriteTxnMarkersRequestMarkerTopic{Topic: tp.Topic})
		}
		m.Topics[i].Partitions = append(m.Topics[i].Partitions, tp.Partition)
	}
	return m
}

// markerOrder is a marker for some partitions on one broker, and where its answer goes.
type markerOrder struct {
	marker kmsg.WriteTxnMarkersRequestMarker
	answer chan<- markerAnswer // buffered
}

// markerAnswer is a broker's answer to a marker: a code for each partition, or no answer at all.
type markerAnswer struct {
	codes map[logstore.TopicPartition]int16
	err   error
}

// written lists the partitions that are done. All other codes lead to a retry, including that of a newer coordinator:
// if there is one, this one is about to be told (TransactionMarkerRequestCompletionHandler, 3.9).
func (a markerAnswer) written(log *logrus.Entry) (done []logstore.TopicPartition) {
	if a.err != nil {
		log.WithError(a.err).Debug("cannot send transaction markers, trying again")
		return nil
	}
	for tp, code := range a.codes {
		log := log.WithFields(logrus.Fields{logx.Topic: tp.Topic, logx.Partition: tp.Partition})
		switch err := kerr.ErrorForCode(code); {
		case err == nil:
			done = append(done, tp)
		case isOne(err, kerr.InvalidProducerEpoch, kerr.UnsupportedForMessageFormat, kerr.UnsupportedVersion):
			// A newer epoch of the producer is writing there already, or nothing of this transaction can be there.
			log.WithError(err).Warn("a partition rejects a transaction marker")
			done = append(done, tp)
		case isOne(err, kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas,
			kerr.NotEnoughReplicasAfterAppend, kerr.KafkaStorageError, kerr.TransactionCoordinatorFenced):
			log.WithError(err).Debug("cannot write a transaction marker, trying again")
		default:
			log.WithError(err).Error("cannot write a transaction marker, trying again")
		}
	}
	return done
}

// sendMarker delivers a marker to a broker: directly to this one; to another one with one request at a time, which
// carries the markers of all waiting transactions.
func (c *Coordinator) sendMarker(broker int32, o markerOrder) {
	deliver := func(orders []markerOrder) []markerOrder {
		c.deliverMarkers(broker, orders)
		return nil
	}
	if broker == c.cfg.BrokerID {
		c.background(func() { deliver([]markerOrder{o}) })
		return
	}
	c.markers.to(broker).add(o, c.background, deliver)
}

func (c *Coordinator) deliverMarkers(broker int32, orders []markerOrder) {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version = c.cfg.MarkersVersion
	for _, o := range orders {
		req.Markers = append(req.Markers, o.marker)
	}
	answer, err := c.cfg.Send(c.ctx, broker, req)
	if err != nil {
		for _, o := range orders {
			o.answer <- markerAnswer{err: err}
		}
		return
	}
	codes := markerCodes(answer.(*kmsg.WriteTxnMarkersResponse))
	for _, o := range orders {
		if of, ok := codes[o.marker.ProducerID]; ok {
			o.answer <- markerAnswer{codes: of}
		} else {
			o.answer <- markerAnswer{err: fmt.Errorf("broker %d does not mention producer %d", broker, o.marker.ProducerID)}
		}
	}
}

func markerCodes(resp *kmsg.WriteTxnMarkersResponse) map[int64]map[logstore.TopicPartition]int16 {
	all := make(map[int64]map[logstore.TopicPartition]int16, len(resp.Markers))
	for _, m := range resp.Markers {
		codes := all[m.ProducerID]
		if codes == nil {
			codes = make(map[logstore.TopicPartition]int16)
			all[m.ProducerID] = codes
		}
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				codes[logstore.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p.ErrorCode
			}
		}
	}
	return all
}
