package logstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"barnabas/internal/logx"
)

// keeper runs a Manager's background work: periodic tasks, flushing closed segments, and removing what was dropped a
// while ago.
type keeper struct {
	m  *Manager
	wg sync.WaitGroup

	mu struct {
		sync.Mutex // leaf
		cancel     context.CancelFunc
		stopped    bool
		chores     []chore // ordered by due time
		flush      map[*Log]bool
		writing    bool // the recovery points will be written in a moment
	}
	choreAdded chan struct{} // capacity 1
	flushAdded chan struct{} // capacity 1
}

// chore is something to be done later.
type chore struct {
	due time.Time
	do  func()
}

func newKeeper(m *Manager) *keeper {
	k := &keeper{m: m, choreAdded: make(chan struct{}, 1), flushAdded: make(chan struct{}, 1)}
	k.mu.flush = make(map[*Log]bool)
	return k
}

func (k *keeper) start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.stopped || k.mu.cancel != nil {
		cancel()
		return
	}
	k.mu.cancel = cancel
	cfg := &k.m.cfg
	k.wg.Go(func() { k.runChores(ctx) })
	k.wg.Go(func() { k.runFlushes(ctx) })
	if cfg.MaxOpenFiles > 0 {
		k.wg.Go(func() { k.runCloser(ctx) })
	}
	k.every(ctx, cfg.RetentionCheckInterval, k.retain)
	k.every(ctx, cfg.FlushCheckInterval, k.flushDue)
	k.every(ctx, cfg.ProducerExpiryInterval, k.expireProducers)
	k.every(ctx, cfg.RecoveryPointInterval, func() { k.checkpoint((*Manager).checkpointRecoveryPoints) })
	k.every(ctx, cfg.LogStartInterval, func() { k.checkpoint((*Manager).checkpointStarts) })
	if cfg.OnRoom != nil {
		k.every(ctx, askAgainAfter, k.lookForRoom)
	}
	k.every(ctx, cfg.HighWatermarkInterval, func() { k.checkpoint((*Manager).checkpointHighWatermarks) })
}

// stop stops it. Chores that are not due remain undone: the next start recognises by their names what is to be removed.
func (k *keeper) stop() {
	k.mu.Lock()
	k.mu.stopped = true
	cancel := k.mu.cancel
	k.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	k.wg.Wait()
}

// every calls fn at an interval, on a goroutine of its own.
func (k *keeper) every(ctx context.Context, interval time.Duration, fn func()) {
	if interval <= 0 {
		return
	}
	k.wg.Go(func() {
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

// lookForRoom notices that a full directory has room again, even if nobody writes to it.
func (k *keeper) lookForRoom() {
	for _, v := range k.m.disks {
		if v.room.low.Load() {
			v.measure(k.m.cfg.FS)
		}
	}
}

func (k *keeper) retain() {
	for _, l := range k.m.Logs() {
		if _, err := l.Retain(); err != nil {
			l.logger.WithError(err).Error("cannot drop old segments")
		}
	}
}

func (k *keeper) flushDue() {
	now := k.m.cfg.Now()
	for _, l := range k.m.Logs() {
		if l.flushDue(now) {
			k.flushLog(l)
		}
	}
}

func (k *keeper) flushLog(l *Log) {
	if err := l.Flush(); err != nil {
		l.logger.WithError(err).Error("cannot flush log")
	}
}

func (k *keeper) expireProducers() {
	now := k.m.cfg.Now()
	for _, l := range k.m.Logs() {
		l.expireProducers(now)
	}
}

func (k *keeper) checkpoint(write func(*Manager, *volume) error) {
	for _, v := range k.m.disks {
		_ = v.fail("write checkpoint", write(k.m, v)) // fail reports the error
	}
}

// later calls fn after the delay, unless the keeper is stopped before. It may be called under any lock.
func (k *keeper) later(delay time.Duration, fn func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.laterLocked(delay, fn)
}

func (k *keeper) laterLocked(delay time.Duration, fn func()) {
	due := time.Now().Add(max(delay, 0))
	i, _ := slices.BinarySearchFunc(k.mu.chores, due, func(c chore, due time.Time) int { return c.due.Compare(due) })
	k.mu.chores = slices.Insert(k.mu.chores, i, chore{due, fn})
	ring(k.choreAdded)
}

// ring wakes the receiver of a channel of capacity 1.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // being woken already
	}
}

func (k *keeper) runChores(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		do, next := k.dueChore(time.Now())
		if do != nil {
			do()
			wait = 0
		} else if !next.IsZero() {
			wait = time.Until(next)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-k.choreAdded:
		case <-ctx.Done():
			return
		}
	}
}

// dueChore takes a chore that is due, or returns when the next one will be.
func (k *keeper) dueChore(now time.Time) (do func(), next time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.mu.chores) == 0 {
		return nil, time.Time{}
	}
	if first := k.mu.chores[0]; first.due.After(now) {
		return nil, first.due
	}
	do = k.mu.chores[0].do
	k.mu.chores = slices.Delete(k.mu.chores, 0, 1)
	return do, time.Time{}
}

// flushSoon schedules flushing a log's closed segments. It may be called under any lock.
func (k *keeper) flushSoon(l *Log) {
	k.mu.Lock()
	k.mu.flush[l] = true
	k.mu.Unlock()
	ring(k.flushAdded)
}

func (k *keeper) runFlushes(ctx context.Context) {
	for {
		select {
		case <-k.flushAdded:
		case <-ctx.Done():
			return
		}
		for _, l := range k.takeFlushes() {
			if ctx.Err() != nil {
				return
			}
			if err := l.flush(l.active().base, false); err != nil {
				l.logger.WithError(err).WithField(logx.Offset, l.active().base).Error("cannot flush closed segments")
			}
		}
		k.checkpointSoon()
	}
}

// checkpointDelay combines the segments flushed within it into one write of the recovery points.
const checkpointDelay = 100 * time.Millisecond

// checkpointSoon schedules writing the recovery points after segments were flushed, so that a start after a crash does
// not read those again. Apache Kafka waits for log.flush.offset.checkpoint.interval.ms.
func (k *keeper) checkpointSoon() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.writing {
		return
	}
	k.mu.writing = true
	k.laterLocked(checkpointDelay, func() {
		k.mu.Lock()
		k.mu.writing = false
		k.mu.Unlock()
		k.checkpoint((*Manager).checkpointRecoveryPoints)
	})
}

func (k *keeper) takeFlushes() []*Log {
	k.mu.Lock()
	defer k.mu.Unlock()
	logs := make([]*Log, 0, len(k.mu.flush))
	for l := range k.mu.flush {
		logs = append(logs, l)
	}
	clear(k.mu.flush)
	return logs
}
