package logstore

import (
	"errors"
	"io/fs"
	"slices"

	"barnabas/internal/logx"
	"barnabas/logstore/record"
)

// restoreBatchesBytes bounds how much of a log's end is searched for its producers' last batches: five of the largest
// ones that are allowed by default. Of large batches only the headers are read.
const restoreBatchesBytes = 8 << 20

// restoreBatchesLocked finds the batches before those that are known of each producer. A snapshot has only the last
// one; but a producer resends what was in flight when the broker stopped or the leader changed, up to five batches, and
// they must be recognised. Apache Kafka forgets them.
func (l *Log) restoreBatchesLocked() error {
	records, ok := l.batchesMissingLocked()
	if !ok {
		return nil
	}
	tails, err := l.endOfLog(l.mu.producers.end - rememberedBatches*records)
	if err != nil {
		return err
	}
	earlier := make(map[int64][]producerBatch)
	for _, r := range slices.Backward(tails) {
		err := r.segment.scan(r.position, func(h header) (bool, error) {
			l.mu.producers.noteEarlier(earlier, h.batch)
			return true, nil
		})
		var unreadable *fs.PathError
		switch {
		case errors.As(err, &unreadable):
			return err
		case err != nil: // whoever reads these records will be told
			l.logger.WithError(err).WithField(logx.Segment, r.segment.base).Warn("cannot find the batches that producers may send again")
			clear(earlier)
		}
	}
	for id, batches := range earlier {
		l.mu.producers.byID[id].restoreBatches(batches)
	}
	return nil
}

// batchesMissingLocked returns how many records the last batches have of those producers that are active at the end of
// the log and may have sent batches that are not known; false if there are none.
func (l *Log) batchesMissingLocked() (records int64, ok bool) {
	segments := *l.segments.Load()
	for i := len(segments) - 1; i >= 0; i-- {
		if segments[i].size.Load() == 0 {
			continue
		}
		for _, p := range l.mu.producers.byID {
			if p.mayHaveEarlier() && p.last().lastOffset >= segments[i].base {
				records += int64(p.last().offsetDelta) + 1
			}
		}
		break
	}
	return records, records > 0
}

// mayHaveEarlier reports whether there may be batches before those that are known.
func (p *producer) mayHaveEarlier() bool {
	return p.n > 0 && p.n < rememberedBatches && p.batches[0].firstSeq() != 0
}

// noteEarlier adds a batch to those of its producer if it is before those that are known.
func (t *producerTable) noteEarlier(earlier map[int64][]producerBatch, b record.Batch) {
	if !b.HasProducerID() || b.Control() || b.BaseSequence() == record.NoSequence {
		return
	}
	p := t.byID[b.ProducerID()]
	if p != nil && p.mayHaveEarlier() && p.epoch == b.ProducerEpoch() && b.LastOffset() < p.batches[0].lastOffset {
		earlier[p.id] = append(earlier[p.id], newProducerBatch(b))
	}
}

// segmentTail is a segment from a position on.
type segmentTail struct {
	segment  *segment
	position int64
}

// endOfLog returns where the log has everything from an offset on, but no more than restoreBatchesBytes, the last
// segment first.
func (l *Log) endOfLog(from int64) (tails []segmentTail, err error) {
	left, end := int64(restoreBatchesBytes), l.mu.producers.end
	for _, s := range slices.Backward(*l.segments.Load()) {
		position, back := int64(0), end-from
		for {
			if position, err = s.index.lookup(end - back); err != nil {
				return nil, err
			}
			if s.size.Load()-position <= left || back <= 1 {
				break
			}
			back /= 2
		}
		if left -= s.size.Load() - position; left < 0 {
			break
		}
		tails = append(tails, segmentTail{s, position})
		if s.base <= from || position > 0 {
			break
		}
		end = s.base
	}
	return tails, nil
}

// restoreBatches inserts batches before those that are known, as far as their sequence numbers lead up to them without
// a gap.
func (p *producer) restoreBatches(earlier []producerBatch) {
	known := slices.Clone(p.batches[:p.n])
	for _, m := range slices.Backward(earlier) {
		if len(known) == rememberedBatches || record.AddSequence(m.lastSeq, 1) != known[0].firstSeq() {
			break
		}
		known = slices.Insert(known, 0, m)
	}
	p.n = copy(p.batches[:], known)
}
