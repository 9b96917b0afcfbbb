package logstore

import (
	"math"
	"time"

	"barnabas/internal/logx"
)

// dirtyPart is the part of a log that may be compacted and has not been.
type dirtyPart struct {
	from, upTo int64 // offsets; upTo is the base of a segment
	reset      bool  // the stored offset was invalid and replaced by from
	ratio      float64
	bytes      int64 // of the dirty segments
	// late is by how much the oldest dirty segment exceeds max.compaction.lag.ms; 0: not at all.
	late time.Duration
	more bool // there are further closed segments, which time or the high watermark will make due
}

// due reports whether compaction is worthwhile or overdue.
func (d *dirtyPart) due(cfg *Config) bool {
	return d.bytes > 0 && (d.late > 0 || d.ratio > cfg.MinCleanableRatio)
}

// dirtyPart determines what part of the log is to be compacted. cleaned is the offset up to which it was compacted
// before; known is false if it never was (LogCleanerManager.cleanableOffsets, 3.9).
func (l *Log) dirtyPart(cleaned int64, known bool, now time.Time) (dirtyPart, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cfg := l.config.Load()
	segments := *l.segments.Load()
	closed := segments[:len(segments)-1]
	d := dirtyPart{from: l.firstDirty(cfg, cleaned, known)}
	d.reset = known && d.from != cleaned
	d.upTo = segments[len(segments)-1].base
	d.more = d.from < d.upTo
	if i := floor(segments, l.LastStableOffset()); i >= 0 {
		d.upTo = min(d.upTo, segments[i].base)
	}
	if l.hw.Load() < l.mu.restored { // then the last stable offset is not reliable
		d.upTo = d.from
	}
	if err := d.excludeRecent(cfg, closed, now); err != nil {
		return d, err
	}
	d.upTo = max(d.upTo, segments[0].base)
	if d.from >= d.upTo {
		return d, nil
	}
	d.measure(closed)
	return d, d.checkLate(cfg, closed, now)
}

// firstDirty returns where the dirty part begins. The stored offset may be wrong after a truncation that the checkpoint
// has missed.
func (l *Log) firstDirty(cfg *Config, cleaned int64, known bool) int64 {
	start, end := l.start.Load(), l.end.offset.Load()
	switch {
	case !known:
		return start
	case cleaned < start:
		if !cfg.Delete { // otherwise that is normal
			l.logger.WithField(logx.Offset, cleaned).Warn("the cleaner's checkpoint is below the log start offset, compacting from there")
		}
		return start
	case cleaned > end:
		l.logger.WithField(logx.Offset, cleaned).Warn("the cleaner's checkpoint is above the log end offset, compacting from the log start offset")
		return start
	}
	return cleaned
}

// excludeRecent ends the part before the first segment with records that must stay for min.compaction.lag.ms.
func (d *dirtyPart) excludeRecent(cfg *Config, closed []*segment, now time.Time) error {
	if cfg.MinCompactionLag <= 0 {
		return nil
	}
	for _, s := range closed[max(floor(closed, d.from), 0):] {
		if s.base >= d.upTo {
			break
		}
		newest, err := s.largestTime()
		if err != nil {
			return err
		}
		if saturatedMillis(now.UnixMilli()-newest) < cfg.MinCompactionLag {
			d.upTo = s.base
			break
		}
	}
	return nil
}

// measure sets the dirty bytes and all bytes up to upTo.
func (d *dirtyPart) measure(closed []*segment) {
	clean := int64(0)
	for i, s := range closed {
		switch {
		case s.base >= d.upTo:
		case s.base >= d.from || i+1 == len(closed) || closed[i+1].base > d.from:
			d.bytes += s.size.Load()
		default:
			clean += s.size.Load()
		}
	}
	if total := clean + d.bytes; total > 0 {
		d.ratio = float64(d.bytes) / float64(total)
	}
}

// checkLate determines whether the oldest dirty segment has exceeded max.compaction.lag.ms.
func (d *dirtyPart) checkLate(cfg *Config, closed []*segment, now time.Time) error {
	if cfg.MaxCompactionLag < 0 || cfg.MaxCompactionLag == math.MaxInt64 {
		return nil
	}
	for _, s := range closed[max(floor(closed, d.from), 0):] {
		first, err := s.rollStart()
		if err != nil {
			return err
		}
		if waited := saturatedMillis(now.UnixMilli() - first); first > 0 && waited > cfg.MaxCompactionLag {
			d.late = waited - cfg.MaxCompactionLag
			return nil
		}
	}
	return nil
}
