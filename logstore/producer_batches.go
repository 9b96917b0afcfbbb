package logstore

import (
	"slices"

	"barnabas/logstore/record"
)

// restoreBatchesBytes bounds how much of a log's end is read to find its producers' last batches.
const restoreBatchesBytes = 256 << 10

// restoreBatchesLocked finds the batches before each producer's last one. A snapshot has only the last; but a producer
// resends what was in flight when the broker stopped, up to five batches, and they must be recognised. Apache Kafka
// forgets them at each restart.
func (l *Log) restoreBatchesLocked() error {
	t, s := l.mu.producers, l.active()
	if len(t.byID) == 0 || s.size.Load() == 0 {
		return nil
	}
	from, err := l.restoreBatchesFrom(s)
	if err != nil {
		return err
	}
	earlier := make(map[int64][]producerBatch)
	err = s.scan(from, func(h header) (bool, error) {
		b := h.batch
		if !b.HasProducerID() || b.Control() || b.BaseSequence() == record.NoSequence {
			return true, nil
		}
		p := t.byID[b.ProducerID()]
		if p != nil && p.n == 1 && p.epoch == b.ProducerEpoch() && b.LastOffset() < p.last().lastOffset {
			earlier[p.id] = append(earlier[p.id], producerBatch{b.LastSequence(), b.LastOffset(), b.LastOffsetDelta(), b.MaxTimestamp()})
		}
		return true, nil
	})
	for id, batches := range earlier {
		t.byID[id].restoreBatches(batches)
	}
	return err
}

// restoreBatchesFrom returns where to begin reading: five times the size of the last batches before the end, within
// limits.
func (l *Log) restoreBatchesFrom(s *segment) (position int64, err error) {
	records := int64(0)
	for _, p := range l.mu.producers.byID {
		if p.n == 1 && p.last().lastOffset >= s.base {
			records += int64(p.last().offsetDelta) + 1
		}
	}
	if records == 0 {
		return s.size.Load(), nil
	}
	end := l.mu.producers.end
	back := min(rememberedBatches*records, end-s.base)
	for {
		position, err = s.index.lookup(end - back)
		if err != nil || s.size.Load()-position <= restoreBatchesBytes || back <= 1 {
			return position, err
		}
		back /= 2
	}
}

// restoreBatches inserts batches before the last one, as far as their sequence numbers lead up to it without a gap.
func (p *producer) restoreBatches(earlier []producerBatch) {
	next := *p.last()
	known := []producerBatch{next}
	for _, m := range slices.Backward(earlier) {
		if len(known) == rememberedBatches || record.AddSequence(m.lastSeq, 1) != next.firstSeq() {
			break
		}
		known, next = append(known, m), m
	}
	slices.Reverse(known)
	p.n = copy(p.batches[:], known)
}
