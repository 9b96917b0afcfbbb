package logstore

import (
	"fmt"
	"path/filepath"

	"barnabas/internal/logx"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TruncateTo removes all records from offset on. If offset is within a batch, the whole batch is removed. If it is
// above the log end offset, only leader epochs that begin there are forgotten.
func (l *Log) TruncateTo(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("truncate %v to %d: %w", l.tp, offset, kerr.OffsetOutOfRange)
	}
	return l.cut(func() error {
		if end := l.end.offset.Load(); offset >= end {
			return l.insist(func() error { return l.epochs.truncateEnd(end) })
		}
		l.logger.WithField(logx.Offset, offset).Info("truncating log")
		if (*l.segments.Load())[0].base > offset {
			return l.restartLocked(offset)
		}
		return l.truncateLocked(offset)
	})
}

// TruncateFullyAndStartAt removes everything and begins again, empty, at offset.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	return l.cut(func() error {
		l.logger.WithField(logx.Offset, offset).Info("dropping the whole log")
		return l.restartLocked(offset)
	})
}

// cut runs fn, which removes the end of the log, with the locks held. The effect of fn is durable before cut returns:
// otherwise a crash could bring back what was removed, after what was appended since, and the stored recovery point
// would vouch for it. What has begun must not be left unfinished: it waits while too many files are open, and any other
// error takes the directory offline.
func (l *Log) cut(fn func() error) error {
	defer l.cleaning.hold()()
	l.flushing.Lock() // a flush in progress must not advance the recovery point beyond what is cut
	defer l.flushing.Unlock()
	lower, err := l.cutLocking(fn)
	if err == nil && lower {
		err = l.insist(l.syncNames)
	}
	if err == nil && lower {
		err = l.insist(func() error { return l.env.truncated(l) })
	}
	return l.disk.failEvenIfFull("truncate", err)
}

func (l *Log) cutLocking(fn func() error) (lower bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return false, err
	}
	l.cuts.Add(1)
	defer l.cuts.Add(1)
	end := l.end.offset.Load()
	err = fn()
	return l.end.offset.Load() != end, err
}

// truncateLocked truncates at an offset within some segment.
func (l *Log) truncateLocked(offset int64) error {
	segments := l.segmentsLocked()
	i := floor(segments, offset)
	kept, dropped := segments[:i+1], segments[i+1:]
	l.setSegmentsLocked(kept)
	l.start.Store(min(l.start.Load(), offset))
	l.endAtLocked(offset, kept[i])
	if err := l.dropLocked(dropped); err != nil {
		return err
	}
	var end int64
	err := l.insist(func() (err error) {
		if _, err = kept[i].truncate(offset, l.env.now()); err == nil {
			end, err = kept[i].end()
		}
		return err
	})
	if err != nil {
		return err
	}
	end = max(end, kept[i].base, l.start.Load()) // compaction may have left nothing between the last two
	l.endAtLocked(end, kept[i])
	l.start.Store(min(l.start.Load(), end))
	l.recovery.Store(min(l.recovery.Load(), end))
	if err := l.insist(func() error { return l.epochs.truncateEnd(end) }); err != nil {
		return err
	}
	return l.insist(func() error { return l.rebuildProducersLocked(end) })
}

// endAtLocked publishes a lower end before the bytes above it are removed, so that no new reader finds them.
func (l *Log) endAtLocked(offset int64, active *segment) {
	position := active.size.Load()
	l.hw.Store(min(l.hw.Load(), offset))
	l.end.store(offset, active.base, position)
}

// restartLocked replaces all segments with an empty one at offset.
func (l *Log) restartLocked(offset int64) error {
	cfg := l.config.Load()
	old := *l.segments.Load()
	if err := l.dropLocked(old); err != nil { // first, since the new segment may have the name of an old one
		return err
	}
	var s *segment
	err := l.insist(func() (err error) {
		s, err = createSegment(l.env.fs, l.mu.dir, offset, cfg, l.env.now())
		return err
	})
	if err != nil {
		return err
	}
	s.jitter = rollJitter(cfg)
	l.start.Store(offset)
	l.setSegmentsLocked([]*segment{s})
	l.end.store(offset, offset, 0)
	l.hw.Store(offset)
	l.mu.restored = offset
	l.recovery.Store(offset)
	if err := l.insist(l.epochs.clear); err != nil {
		return err
	}
	if err := l.mu.snaps.removeIf(func(int64) bool { return true }); err != nil {
		return err
	}
	l.mu.producers.reset(offset)
	l.mu.snaps.taken = offset
	l.refreshUnstableLocked()
	return nil
}

// dropLocked removes segments from the directory: it renames them at once and deletes them after a delay, with their
// snapshots. They must not be in the list of segments any more, or be about to be replaced in it.
func (l *Log) dropLocked(segments []*segment) error {
	for _, s := range segments {
		if err := s.drop(); err != nil {
			return err
		}
		snapshot, err := l.mu.snaps.retire(s.base)
		if err != nil {
			return err
		}
		l.removeLater(s, snapshot)
	}
	return nil
}

// removeLater releases the segment, and removes its files and the retired snapshot after file.delete.delay.ms.
func (l *Log) removeLater(s *segment, snapshot string) {
	s.release()
	l.env.later(l.config.Load().FileDeleteDelay, func() {
		if err := l.removeDropped(s, snapshot); err != nil {
			l.logger.WithError(err).WithField(logx.Segment, s.base).Warn("cannot remove a dropped segment")
		}
	})
}

// removeDropped removes the files of a dropped segment, and its snapshot if it had one, from wherever the log is: its
// directory may have been renamed since. A log that was retired meanwhile is removed as a whole.
func (l *Log) removeDropped(s *segment, snapshot string) error {
	for {
		dir, retired := l.place()
		if retired {
			return nil
		}
		s.relocate(dir)
		err := s.remove()
		if err == nil && snapshot != "" {
			err = ignoreNotExist(l.env.fs.Remove(filepath.Join(dir, snapshot)))
		}
		if now, _ := l.place(); now == dir {
			return err
		}
	}
}

// place returns the log's directory, and whether that has been set aside.
func (l *Log) place() (dir string, retired bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.dir, l.closed.Load()
}
