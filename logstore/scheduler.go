package logstore

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"barnabas/internal/logx"
)

// scheduler runs a Manager's background work: periodic tasks, flushing closed segments, and removing what was dropped a
// while ago.
type scheduler struct {
	m  *Manager
	wg sync.WaitGroup

	mu struct {
		sync.Mutex // leaf
		cancel     context.CancelFunc
		stopped    bool
		tasks      []task // ordered by due time
		flush      map[*Log]bool
		writing    bool // the recovery points will be written in a moment
	}
	taskAdded  chan struct{} // capacity 1
	flushAdded chan struct{} // capacity 1
}

// task is something to be done later.
type task struct {
	due time.Time
	do  func()
}

func newScheduler(m *Manager) *scheduler {
	k := &scheduler{m: m, taskAdded: make(chan struct{}, 1), flushAdded: make(chan struct{}, 1)}
	k.mu.flush = make(map[*Log]bool)
	return k
}

func (s *scheduler) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopped || s.mu.cancel != nil {
		cancel()
		return
	}
	s.mu.cancel = cancel
	cfg := &s.m.cfg
	s.wg.Go(func() { s.runTasks(ctx) })
	s.wg.Go(func() { s.runFlushes(ctx) })
	if cfg.MaxOpenFiles > 0 {
		s.wg.Go(func() { s.runCloser(ctx) })
	}
	s.every(ctx, cfg.RetentionCheckInterval, s.retain)
	s.every(ctx, cfg.FlushCheckInterval, s.flushDue)
	s.every(ctx, cfg.ProducerExpiryInterval, s.expireProducers)
	s.every(ctx, cfg.RecoveryPointInterval, func() { s.checkpoint((*Manager).checkpointRecoveryPoints) })
	s.every(ctx, cfg.LogStartInterval, func() { s.checkpoint((*Manager).checkpointStarts) })
	if cfg.OnSpaceFreed != nil {
		s.every(ctx, askAgainAfter, s.checkShortages)
	}
	s.every(ctx, cfg.HighWatermarkInterval, func() { s.checkpoint((*Manager).checkpointHighWatermarks) })
}

// stop stops it. Tasks that are not due remain undone: the next start recognises by their names what is to be removed.
func (s *scheduler) stop() {
	s.mu.Lock()
	s.mu.stopped = true
	cancel := s.mu.cancel
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	s.wg.Wait()
}

// every calls fn at an interval, on a goroutine of its own.
func (s *scheduler) every(ctx context.Context, interval time.Duration, fn func()) {
	if interval <= 0 {
		return
	}
	s.wg.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fn()
			case <-ctx.Done():
				return
			}
		}
	})
}

// checkShortages notices that a full directory has room again, even if nobody writes to it, and that its files can be
// opened again.
func (s *scheduler) checkShortages() {
	for _, v := range s.m.disks {
		if v.space.low.Load() {
			v.measure(s.m.cfg.FS)
		}
		if v.starved.Load() && canOpen(s.m.cfg.FS, filepath.Join(v.path, metaFile)) {
			v.starved.Store(false)
			s.m.fed(&v.disk)
		}
	}
}

func (s *scheduler) retain() {
	for _, l := range s.m.Logs() {
		if _, err := l.Retain(); err != nil {
			l.logger.WithError(err).Error("cannot drop old segments")
		}
	}
}

func (s *scheduler) flushDue() {
	now := s.m.cfg.Now()
	for _, l := range s.m.Logs() {
		if l.flushDue(now) {
			s.flushLog(l)
		}
	}
}

func (s *scheduler) flushLog(l *Log) {
	if err := l.Flush(); err != nil {
		l.logger.WithError(err).Error("cannot flush log")
	}
}

func (s *scheduler) expireProducers() {
	now := s.m.cfg.Now()
	for _, l := range s.m.Logs() {
		l.expireProducers(now)
	}
}

func (s *scheduler) checkpoint(write func(*Manager, *volume) error) {
	for _, v := range s.m.disks {
		_ = v.fail("write checkpoint", write(s.m, v)) // fail reports the error
	}
}

// later calls fn after the delay, unless the scheduler is stopped before. It may be called under any lock.
func (s *scheduler) later(delay time.Duration, fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.laterLocked(delay, fn)
}

func (s *scheduler) laterLocked(delay time.Duration, fn func()) {
	due := time.Now().Add(max(delay, 0))
	i, _ := slices.BinarySearchFunc(s.mu.tasks, due, func(c task, due time.Time) int { return c.due.Compare(due) })
	s.mu.tasks = slices.Insert(s.mu.tasks, i, task{due, fn})
	ring(s.taskAdded)
}

// ring wakes the receiver of a channel of capacity 1.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // being woken already
	}
}

func (s *scheduler) runTasks(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		do, next := s.dueTask(time.Now())
		if do != nil {
			do()
			wait = 0
		} else if !next.IsZero() {
			wait = time.Until(next)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.taskAdded:
		case <-ctx.Done():
			return
		}
	}
}

// dueTask takes a task that is due, or returns when the next one will be.
func (s *scheduler) dueTask(now time.Time) (do func(), next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.tasks) == 0 {
		return nil, time.Time{}
	}
	if first := s.mu.tasks[0]; first.due.After(now) {
		return nil, first.due
	}
	do = s.mu.tasks[0].do
	s.mu.tasks = slices.Delete(s.mu.tasks, 0, 1)
	return do, time.Time{}
}

// flushSoon schedules flushing a log's closed segments. It may be called under any lock.
func (s *scheduler) flushSoon(l *Log) {
	s.mu.Lock()
	s.mu.flush[l] = true
	s.mu.Unlock()
	ring(s.flushAdded)
}

func (s *scheduler) runFlushes(ctx context.Context) {
	for {
		select {
		case <-s.flushAdded:
		case <-ctx.Done():
			return
		}
		for _, l := range s.takeFlushes() {
			if ctx.Err() != nil {
				return
			}
			if err := l.flush(l.active().base, false); err != nil {
				l.logger.WithError(err).WithField(logx.Offset, l.active().base).Error("cannot flush closed segments")
			}
		}
		s.checkpointSoon()
	}
}

// checkpointDelay combines the segments flushed within it into one write of the recovery points.
const checkpointDelay = 100 * time.Millisecond

// checkpointSoon schedules writing the recovery points after segments were flushed, so that a start after a crash does
// not read those again. Apache Kafka waits for log.flush.offset.checkpoint.interval.ms.
func (s *scheduler) checkpointSoon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.writing {
		return
	}
	s.mu.writing = true
	s.laterLocked(checkpointDelay, func() {
		s.mu.Lock()
		s.mu.writing = false
		s.mu.Unlock()
		s.checkpoint((*Manager).checkpointRecoveryPoints)
	})
}

func (s *scheduler) takeFlushes() []*Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := make([]*Log, 0, len(s.mu.flush))
	for l := range s.mu.flush {
		logs = append(logs, l)
	}
	clear(s.mu.flush)
	return logs
}
