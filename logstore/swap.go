package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// swapIn replaces the segments that out, which is complete and synced, was made from. The order ensures that a load
// after a crash finds either the old segments or the new one, never parts of both (LocalLog.replaceSegments, 3.9):
//
//  1. out's files get the suffix .swap, durably: from here on a load completes the replacement. Before that their names
//     are durable, so that a power failure leaves each of them with one or the other suffix,
//  2. the log reads from out, and the old files get the suffix .deleted, durably: before that, out's plain names beside
//     them would show records twice,
//  3. out's files get their plain names.
//
// The caller excludes truncation and retention. An error before step 2 leaves the log as it was; a later one takes the
// directory offline, except that it waits while too many files are open.
func (l *Log) swapIn(out *segment, old []*segment) error {
	err := l.syncNames()
	if err == nil {
		err = out.rename(swapSuffix)
	}
	if err == nil {
		err = l.syncNames()
	}
	if err == nil {
		err = l.replace(out, old)
	}
	if err == nil {
		err = l.insist(l.syncNames)
	}
	if err == nil {
		err = l.unveil(out)
	}
	if err == nil {
		err = l.insist(l.syncNames)
	}
	return err
}

// unveil gives the files of a segment that is being read their plain names.
func (l *Log) unveil(s *segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts.Add(1)
	defer l.cuts.Add(1)
	return s.rename("")
}

// errChanged reports that the segments of a compaction no longer belong to the log.
var errChanged = errors.New("segments have changed")

// replace makes the log read from out instead of old, whose files are dropped.
func (l *Log) replace(out *segment, old []*segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	segments := *l.segments.Load()
	i := slices.Index(segments, old[0])
	if i < 0 || i+len(old) >= len(segments) || !slices.Equal(segments[i:i+len(old)], old) {
		return fmt.Errorf("replace %d segments of %v from %d on: %w", len(old), l.tp, out.base, errChanged)
	}
	for _, s := range old {
		if err := s.index.view(func([]byte, int) {}); err != nil { // readers that still hold it may need the index: another segment's will have its name
			return err
		}
	}
	l.cuts.Add(1)
	defer l.cuts.Add(1)
	next := make([]*segment, 0, len(segments)-len(old)+1)
	next = append(append(append(next, segments[:i]...), out), segments[i+len(old):]...)
	l.setSegmentsLocked(next)
	for _, s := range old {
		if err := l.supersedeLocked(s, out.base); err != nil {
			return l.disk.failEvenIfFull("swap in a compacted segment", err)
		}
	}
	return nil
}

// supersedeLocked drops a segment that is replaced by another one with the given base.
func (l *Log) supersedeLocked(s *segment, base int64) error {
	if err := s.drop(); err != nil {
		return err
	}
	snapshot := ""
	if s.base != base {
		var err error
		if snapshot, err = l.mu.snaps.retire(s.base); err != nil {
			return err
		}
	}
	l.removeLater(s, snapshot)
	return nil
}

// undoSwap gives the files of a compaction that is not swapped in their first names again, durably: a load that finds only
// some of them, while they are being removed, then removes the others, too.
func (l *Log) undoSwap(s *segment) error {
	undone := false
	for _, kind := range segmentSuffixes {
		plain := filepath.Join(l.path(), fileName(s.base, kind))
		err := l.env.fs.Rename(plain+swapSuffix, plain+cleanedSuffix)
		if ignoreNotExist(err) != nil {
			return err
		}
		undone = undone || err == nil
	}
	if !undone {
		return nil
	}
	return l.insist(l.syncNames)
}

// discard removes the files of an unfinished compaction, under any of their names.
func (s *segment) discard() error {
	s.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.closeIndexes()
	for _, kind := range segmentSuffixes {
		for _, suffix := range []string{swapSuffix, cleanedSuffix} {
			name := filepath.Join(s.mu.dir, fileName(s.base, kind)+suffix)
			err = errors.Join(err, ignoreNotExist(s.fs.Remove(name)))
		}
	}
	return err
}
