package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"barnabas/internal/logx"
	"barnabas/logstore/record"
)

// recover checks the segments that an unclean shutdown may have damaged, or whose indexes cannot be trusted, and
// returns the log end offset. If something was truncated, the segments after it are dropped.
func (ld *loader) recover(l *Log, segments []*segment) (end int64, err error) {
	if err := ld.recoverDue(l, segments); err != nil {
		return 0, err
	}
	segments = *l.segments.Load()
	active := segments[len(segments)-1]
	end, err = active.end()
	var pathErr *fs.PathError
	if err == nil && end-1-active.base > math.MaxInt32 {
		return 0, &overfullError{active.base}
	}
	if err == nil || errors.As(err, &pathErr) {
		return end, err
	}
	rescans := ld.startRescans([]*segment{active}, segments) // incomplete although the shutdown was clean
	defer rescans.end()
	if _, err = ld.recoverSegment(l, rescans.bySegment[active], segments[:len(segments)-1]); err != nil {
		return 0, err
	}
	return active.end()
}

// recoverDue recovers what is necessary, up to the first segment that had to be truncated.
func (ld *loader) recoverDue(l *Log, segments []*segment) error {
	var due []*segment
	for i, s := range segments {
		if !ld.clean && (i == len(segments)-1 || segments[i+1].base > ld.recoveryPoint) {
			due = append(due, s)
		} else if why := ld.checkIndexes(s); why != nil {
			l.logger.WithError(why).WithField(logx.Segment, s.base).Warn("making the indexes of a segment anew")
			due = append(due, s)
		}
	}
	if len(due) == 0 {
		return ld.findOverfull(segments, nil)
	}
	rescans := ld.startRescans(due, segments)
	defer rescans.end()
	if err := ld.findOverfull(segments, rescans.bySegment); err != nil {
		return err
	}
	for i, s := range segments {
		r := rescans.bySegment[s]
		if r == nil {
			continue
		}
		cut, err := ld.recoverSegment(l, r, segments[:i])
		if err != nil {
			return err
		}
		if i < len(segments)-1 && (cut || ld.lostTail(l, segments[i+1])) {
			rescans.end() // before the files are removed
			return ld.dropBehind(l, segments, i)
		}
	}
	return nil
}

// lostTail reports whether the segment before next, just recovered, has lost its tail without a trace, as can happen
// when a power failure coincides with the end of a batch. In doubt nothing counts as lost: the segments after it may be
// all that is left of old records. Below the log start offset nothing is missing: a truncation to it leaves a gap
// before it.
func (ld *loader) lostTail(l *Log, next *segment) bool {
	return !ld.flushedUnknown && !ld.compacted && !ld.cfg.Compact && next.base > ld.recoveryPoint &&
		max(l.mu.producers.end, ld.logStart) < next.base
}

// checkIndexes decides whether a segment's indexes must be rebuilt: one of them is missing or incomplete, or the
// transaction index does not belong to this segment. An empty segment needs none. (Apache Kafka notices only missing
// offset indexes and wrong transaction indexes, 3.9; it leaves a missing time index empty, and takes the modification
// time of the segment for that of its newest record.) The entries of the others are not read, which would take a while
// for many segments.
func (ld *loader) checkIndexes(s *segment) error {
	switch {
	case s.size.Load() == 0:
		return nil
	case !ld.names[fileName(s.base, indexSuffix)]:
		return errors.New("the offset index is missing")
	case !ld.names[fileName(s.base, timeIndexSuffix)]:
		return errors.New("the time index is missing")
	}
	if _, err := s.index.checkSize(); err != nil {
		return err
	}
	size, err := s.times.checkSize()
	if err != nil {
		return err
	}
	if size == 0 {
		if first, err := s.rollStart(); err == nil && first >= 0 {
			return errors.New("the time index is empty")
		}
	}
	if !ld.names[fileName(s.base, txnIndexSuffix)] {
		return nil // there may be no aborted transactions
	}
	return s.txns.check(s.base)
}

func (ld *loader) dropBehind(l *Log, segments []*segment, i int) error {
	l.setSegmentsLocked(segments[: i+1 : i+1])
	for _, s := range segments[i+1:] {
		l.logger.WithField(logx.Segment, s.base).Warn("dropping a segment after a damaged one")
		s.release()
		if err := s.remove(); err != nil {
			return err
		}
		if err := l.mu.snaps.remove(s.base); err != nil {
			return err
		}
	}
	return ld.env.fs.SyncDir(ld.dir) // durably: they must not come back after what is appended from now on
}

// recoverSegment applies the results of a segment's rescan, and truncates the segment at the first batch that is not
// complete and valid.
func (ld *loader) recoverSegment(l *Log, r *rescan, before []*segment) (cut bool, err error) {
	s := r.s
	if err := l.replayUpTo(s.base, before); err != nil {
		return false, err
	}
	if err := ld.fold(l, r); err != nil {
		return false, err
	}
	ld.compacted = ld.compacted || r.holes
	padded, err := r.padded()
	if err != nil {
		return false, err
	}
	if padded && !ld.flushed(r) {
		s.padded = r.size
		s.size.Store(r.valid) // finish cuts the rest off
	} else if r.valid < r.size {
		if err := ld.cut(l, r); err != nil {
			return false, err
		}
		cut = true
	}
	if err := s.finish(); err != nil && !noSpace(err) {
		return false, err
	}
	if ld.newEpochs && !ld.noEpochs {
		if err := l.epochs.flush(); err != nil && !noSpace(err) { // a full disk must not prevent a log from being loaded and truncated
			return false, err
		}
		ld.newEpochs = false
	}
	if r.size > 0 {
		l.logger.WithFields(map[string]any{logx.Segment: s.base, logx.SizeBytes: r.valid, logx.TookMs: r.took.Milliseconds()}).
			Info("recovered segment")
	}
	if s == l.active() {
		return cut, nil // loadProducers takes one at the log end
	}
	return cut, l.snapshotIfRoomLocked()
}

// fold adds the notes of a rescan to the producer state and the leader epochs, which are those before the segment.
func (ld *loader) fold(l *Log, r *rescan) error {
	err := r.each(func(b record.Batch) error {
		if b.Magic() >= 2 && l.epochs.remember(b.LeaderEpoch(), b.BaseOffset()) {
			ld.newEpochs = true
		}
		return l.trackBatchLocked(r.s, b)
	})
	if err != nil {
		return err
	}
	if r.valid > 0 {
		l.mu.producers.end = r.end
	}
	l.refreshUnstableLocked()
	return nil
}

// flushed reports whether there were flushed records where the valid batches of a segment end. Below the log start
// offset nothing may be left, after a truncation to it.
func (ld *loader) flushed(r *rescan) bool { return max(r.end, ld.logStart) < ld.recoveryPoint }

// cut removes the broken tail of a segment, unless it had been flushed: then it is damage, and stays.
func (ld *loader) cut(l *Log, r *rescan) error {
	f, err := r.s.open()
	if err != nil {
		return err
	}
	if ld.flushedUnknown && (r.s != l.active() || ld.clean || r.validBatchFollows(f)) {
		return fmt.Errorf("%w: %s at position %d, offset %d, is broken (%v), records follow, and it is not known what was flushed",
			ErrDamaged, f.Name(), r.valid, r.end, r.bad)
	}
	if ld.flushed(r) {
		return fmt.Errorf("%w: %s at position %d, offset %d, is broken (%v), but all below offset %d was flushed",
			ErrDamaged, f.Name(), r.valid, r.end, r.bad, ld.recoveryPoint)
	}
	line := l.logger.WithFields(map[string]any{logx.Segment: r.s.base, logx.Offset: r.end, logx.SizeBytes: r.size - r.valid})
	if ld.cfg.Preallocate && r.zerosFollow(f) {
		line.Info("cutting preallocated space")
	} else {
		line.WithError(r.bad).Warn("cutting a broken tail")
	}
	if err := f.Truncate(r.valid); err != nil {
		return err
	}
	r.s.size.Store(r.valid)
	return f.Sync() // the next crash must not bring back the tail, after what is appended from now on
}
