package logstore

import (
	"fmt"
	"time"

	"barnabas/internal/logx"

	"github.com/twmb/franz-go/pkg/kerr"
)

// AdvanceLogStart advances the log start offset, so that records below it can no longer be read (KIP-107). Their
// segments are removed with the next round of retention. An offset above the high watermark is refused:
// kerr.OffsetOutOfRange.
func (l *Log) AdvanceLogStart(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if hw := l.hw.Load(); offset > hw {
		return fmt.Errorf("log start of %v cannot move to %d, above the high watermark %d: %w", l.tp, offset, hw, kerr.OffsetOutOfRange)
	}
	l.advanceStartLocked(offset)
	return nil
}

// advanceStartLocked writes no file: appends wait for it, as do changes of the replica's role.
func (l *Log) advanceStartLocked(offset int64) {
	if offset <= l.start.Load() {
		return
	}
	l.start.Store(offset)
	l.mu.producers.end = max(l.mu.producers.end, offset)
	l.epochs.forgetStart(offset)
}

// Retain drops the oldest segments that are no longer needed: those below the log start offset, above retention.bytes,
// or older than retention.ms. It returns their number. Only segments below the high watermark are dropped, the active
// one after a new one was created. A log that is being compacted keeps them until the next time.
func (l *Log) Retain() (int, error) {
	release, ok := l.cleaning.tryHold()
	if !ok {
		return 0, nil
	}
	defer release()
	n, err := l.retain()
	if n > 0 {
		l.dropped.Store(true)
	}
	if err == nil && l.dropped.Load() { // perhaps by an earlier round that could not open the directory
		if err = l.syncNames(); err == nil { // otherwise a crash may bring some back, with gaps between them
			l.dropped.Store(false)
		}
	}
	return n, l.disk.fail("drop segments", err)
}

func (l *Log) retain() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return 0, nil // nothing to retain
	}
	return l.retainLocked(l.config.Load(), l.env.now())
}

func (l *Log) retainLocked(cfg *Config, now time.Time) (int, error) {
	dropped, err := l.dropWhileLocked("log start", func(_ *segment, next *segment) (bool, error) {
		return next != nil && next.base <= l.start.Load(), nil
	})
	if err != nil || !cfg.Delete {
		return dropped, err
	}
	n, err := l.retainBytesLocked(cfg.RetentionBytes)
	dropped += n
	if err != nil || cfg.RetentionTime < 0 {
		return dropped, err
	}
	n, err = l.dropWhileLocked("retention time", func(s, _ *segment) (bool, error) {
		newest, err := s.largestTime()
		return saturatedMillis(now.UnixMilli()-newest) > cfg.RetentionTime, err
	})
	return dropped + n, err
}

func (l *Log) retainBytesLocked(limit int64) (int, error) {
	excess := l.Size() - limit
	if limit < 0 || excess < 0 {
		return 0, nil
	}
	return l.dropWhileLocked("retention size", func(s, _ *segment) (bool, error) {
		excess -= s.size.Load()
		return excess >= 0, nil
	})
}

// dropWhileLocked drops segments, beginning with the oldest, while due returns true. next is nil for the active
// segment.
func (l *Log) dropWhileLocked(reason string, due func(s, next *segment) (bool, error)) (int, error) {
	segments := *l.segments.Load()
	n := 0
	for n < len(segments) {
		s, upper := segments[n], l.end.offset.Load()
		var next *segment
		if n+1 < len(segments) {
			next = segments[n+1]
			upper = next.base
		}
		if l.hw.Load() < upper || next == nil && s.size.Load() == 0 {
			break
		}
		ok, err := due(s, next)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	l.logger.WithField(logx.Count, n).WithField(logx.Value, reason).Info("dropping old segments")
	return n, l.dropOldestLocked(n)
}

func (l *Log) dropOldestLocked(n int) error {
	l.cuts.Add(1)
	defer l.cuts.Add(1)
	if n == len(*l.segments.Load()) {
		if err := l.rollLocked(l.end.offset.Load()); err != nil {
			return err
		}
	}
	segments := l.segmentsLocked()
	old, kept := segments[:n], segments[n:]
	l.advanceStartLocked(kept[0].base)
	if err := l.epochs.flush(); err != nil && !noSpace(err) { // what makes room must not need any; the next load drops the same
		return err
	}
	l.setSegmentsLocked(kept)
	return l.dropLocked(old)
}

// expireProducers forgets producers that have been idle for too long.
func (l *Log) expireProducers(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.producers.expire(now)
}
