package logstore

import (
	"cmp"
	"slices"

	"barnabas/internal/logx"
)

// replayUpTo brings the producer state to that before offset, from the newest snapshot and the batches after it.
func (l *Log) replayUpTo(offset int64, segments []*segment) error {
	t := l.mu.producers
	if t.end == offset && offset > 0 {
		return nil
	}
	start := int64(0)
	if len(segments) > 0 {
		start = segments[0].base
	}
	if err := l.mu.snaps.restore(t, min(max(l.start.Load(), start), offset), offset, l.env.now()); err != nil {
		return err
	}
	for _, s := range segments[max(floor(segments, t.end), 0):] {
		if err := l.replay(s, offset); err != nil {
			return err
		}
	}
	t.end = offset
	l.refreshUnstableLocked()
	return nil
}

// replay adds the batches of a segment between the state's offset and the given one to the producer state.
func (l *Log) replay(s *segment, offset int64) error {
	t := l.mu.producers
	if t.end >= offset {
		return nil
	}
	position, size, err := s.find(t.end)
	if err != nil || size == 0 {
		return err
	}
	f, err := s.open()
	if err != nil {
		return err
	}
	w := batchWalk{file: f, size: s.size.Load(), end: position}
	for w.next() && w.batch.BaseOffset() < offset {
		if _, _, err := t.apply(w.batch); err != nil {
			l.logger.WithError(err).WithField(logx.Offset, w.batch.BaseOffset()).Warn("cannot read a control batch")
		}
	}
	return w.err
}

// rebuildProducersLocked sets the producer state to that of a log that ends at end, after a truncation.
func (l *Log) rebuildProducersLocked(end int64) error {
	if err := l.mu.snaps.removeIf(func(o int64) bool { return o > end }); err != nil {
		return err
	}
	l.mu.producers.reset(-1)
	l.mu.restored = end
	if err := l.replayUpTo(end, *l.segments.Load()); err != nil {
		return err
	}
	l.mu.producers.replicated(l.hw.Load())
	l.refreshUnstableLocked()
	if err := l.restoreBatchesLocked(); err != nil {
		return err
	}
	return l.snapshotIfRoomLocked()
}

// snapshotIfRoomLocked takes a snapshot of the producer state. If the disk is full there is none: the state can be read
// from the records.
func (l *Log) snapshotIfRoomLocked() error {
	err := l.mu.snaps.take(l.mu.producers, false)
	if noSpace(err) {
		l.logger.WithError(err).Warn("no room for a producer snapshot")
		return nil
	}
	return err
}

// loadProducers sets the producer state and removes the snapshots that will not be needed: all except the newest and
// those at the base of a segment.
func (ld *loader) loadProducers(l *Log, end int64) error {
	// Snapshots above the end are of records that a power failure has taken.
	if err := l.mu.snaps.removeIf(func(o int64) bool { return o > end }); err != nil {
		return err
	}
	latest := l.mu.snaps.latest()
	err := l.mu.snaps.removeIf(func(o int64) bool {
		_, atBase := slices.BinarySearchFunc(*l.segments.Load(), o, func(s *segment, o int64) int { return cmp.Compare(s.base, o) })
		return o != latest && !atBase
	})
	if err != nil {
		return err
	}
	if t := l.mu.producers; t.end == end && end > 0 { // recovery has just read the last segments
		t.replicated(l.hw.Load())
		l.refreshUnstableLocked()
		if len(t.byID) == 0 {
			return nil // another crash would have the segment read again anyway
		}
		if err := l.restoreBatchesLocked(); err != nil {
			return err
		}
		return l.snapshotIfRoomLocked()
	}
	return l.rebuildProducersLocked(end)
}
