package group

import (
	"errors"

	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// tombstoneBatchBytes bounds a batch of tombstones, so that no group is too large to be removed.
const tombstoneBatchBytes = 256 << 10

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

// txnEnded reports whether an append failed because its transaction is not open any more.
func txnEnded(err error) bool {
	return errors.Is(err, kerr.InvalidTxnState) || errors.Is(err, kerr.InvalidProducerEpoch)
}

// forgotten is an offset of a deleted topic whose tombstone could not be written.
type forgotten struct {
	groupID   string
	partition logstore.TopicPartition
	in        []txnID // open transactions in which it has been committed
}

// txnID identifies the open transaction of a producer.
type txnID struct {
	producerID int64
	epoch      int16
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
		if err := errors.Join(t.offsetLocked(f.partition), t.flushLocked()); err != nil && !txnEnded(err) {
			return err
		}
	}
	if g.offsets[f.partition] != nil || g.hasEnded(f.partition) {
		return nil
	}
	t := s.tombstones(g, nil)
	return errors.Join(t.offsetLocked(f.partition), t.flushLocked())
}
