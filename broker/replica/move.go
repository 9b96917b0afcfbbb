package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// MoveConfig configures moves of replicas to other log directories.
type MoveConfig struct {
	Threads  int      // num.replica.alter.log.dirs.threads
	MaxBytes int32    // replica.fetch.max.bytes, copied at once
	Throttle Throttle // replica.alter.log.dirs.io.max.bytes.per.second
}

// movedCopy is a copy of a partition's log in another directory, which is to replace the log.
type movedCopy struct {
	sync.Mutex                              // below Partition.mu; held while the copy is written, or the log is truncated
	log        atomic.Pointer[logstore.Log] // nil: there is no move; changed with the lock held
}

// MoveTo begins to move a replica to one of log.dirs (KIP-113). If the replica is in that directory, it ends a move
// that is in progress. For the errors see logstore.Manager.MoveTo.
func (m *Manager) MoveTo(tp logstore.TopicPartition, dir string) error {
	m.control.Lock()
	defer m.control.Unlock()
	p, ok := m.Partition(tp)
	if _, there := m.cfg.Logs.Log(tp); !ok && there {
		return fmt.Errorf("%v is not yet assigned by the controller: %w", tp, kerr.ReplicaNotAvailable)
	}
	if !ok {
		_, err := m.cfg.Logs.MoveTo(tp, dir) // it remembers the directory
		return err
	}
	if err := p.moveTo(m.cfg.Logs, dir); err != nil {
		return err
	}
	m.mover.add(p)
	return nil
}

func (p *Partition) moveTo(logs *logstore.Manager, dir string) error {
	p.moved.Lock()
	defer p.moved.Unlock()
	copied, err := logs.MoveTo(p.TP, dir)
	if err == nil {
		p.moved.log.Store(copied)
	}
	return err
}

// dropMove aborts the move of a partition, if there is one.
func (m *Manager) dropMove(p *Partition) {
	p.moved.Lock()
	defer p.moved.Unlock()
	if p.moved.log.Load() == nil {
		return
	}
	p.moved.log.Store(nil)
	if err := m.cfg.Logs.DropFuture(p.TP); err != nil {
		m.log.WithError(err).WithFields(logrus.Fields{logx.Topic: p.TP.Topic, logx.Partition: p.TP.Partition}).
			Error("the copy of a log that was being moved cannot be removed")
	}
}

// mover copies the logs that are to be moved, on a few goroutines, each one partition at a time.
type mover struct {
	cfg  MoveConfig
	logs *logstore.Manager
	log  *logrus.Entry
	lost func(*Partition) // called with a partition that was moved into a failed directory
	wake chan struct{}    // capacity 1

	retries logx.Sampler // their lines: a disk may be full for hours

	mu struct {
		sync.Mutex // leaf
		waiting    []*Partition
	}
}

func newMover(cfg MoveConfig, logs *logstore.Manager, log *logrus.Entry, lost func(*Partition)) *mover {
	return &mover{cfg: cfg, logs: logs, log: log, lost: lost, wake: make(chan struct{}, 1), retries: logx.Sampler{Interval: time.Minute}}
}

// add adds a partition, if it is to be moved. It does not block and may be called under any lock.
func (v *mover) add(p *Partition) {
	if p.moved.log.Load() == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Contains(v.mu.waiting, p) {
		v.mu.waiting = append(v.mu.waiting, p)
	}
	v.ring()
}

func (v *mover) ring() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// next waits for a partition to move; nil when ctx has ended.
func (v *mover) next(ctx context.Context) *Partition {
	for {
		v.mu.Lock()
		if len(v.mu.waiting) > 0 {
			p := v.mu.waiting[0]
			v.mu.waiting = v.mu.waiting[1:]
			if len(v.mu.waiting) > 0 {
				v.ring() // for another goroutine
			}
			v.mu.Unlock()
			return p
		}
		v.mu.Unlock()
		select {
		case <-v.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

const (
	// moveRetry is the pause after an error that may be temporary, such as a full disk.
	moveRetry = time.Second
	// moveThrottled is the pause after exceeding the throttle.
	moveThrottled = 50 * time.Millisecond
)

func (v *mover) run(ctx context.Context) {
	buf := make([]byte, 0, max(v.cfg.MaxBytes, 1))
	for p := v.next(ctx); p != nil; p = v.next(ctx) {
		var err error
		if buf, err = v.move(ctx, p, buf); err == nil || ctx.Err() != nil {
			continue
		}
		log := v.log.WithError(err).WithFields(logrus.Fields{logx.Topic: p.TP.Topic, logx.Partition: p.TP.Partition})
		if errors.Is(err, kerr.KafkaStorageError) && !p.movable() {
			log.Error("cannot move a replica to another directory")
			if p.Log().Usable() != nil {
				v.lost(p)
			}
			continue
		}
		const retry = "cannot move a replica to another directory at the moment, trying again"
		if line, ok := v.retries.Line(retry, log); ok {
			line.Warn(retry)
		}
		await.Pause(ctx, moveRetry)
		v.add(p)
	}
}

// movable reports whether a move is still in progress and both directories work. Storage errors are temporary then: a
// disk is full, or too many files are open.
func (p *Partition) movable() bool {
	copied := p.moved.log.Load()
	return copied != nil && copied.Usable() == nil && p.Log().Usable() == nil
}

// move copies until the copy has replaced the log, or the move is aborted.
func (v *mover) move(ctx context.Context, p *Partition, buf []byte) ([]byte, error) {
	for ctx.Err() == nil {
		if v.cfg.Throttle.holdsBack(p.TP) {
			await.Pause(ctx, moveThrottled)
			continue
		}
		n, state, grown, err := p.copySome(buf)
		buf = grown
		if err != nil {
			return buf, err
		}
		v.cfg.Throttle.record(p.TP, int64(n))
		switch state {
		case moveOver:
			return buf, nil
		case moveNear:
			return buf, p.endMove(v.logs, buf)
		}
	}
	return buf, nil
}

// moveState is the state of a move.
type moveState int8

const (
	moveFar  moveState = iota // there is more to copy
	moveNear                  // little is left
	moveOver                  // there is no move, or the partition is not serving: the move continues with its next LeaderAndIsr
)

// copySome copies as much as fits into the buffer. Meanwhile the role may change and appends go on; only truncating the
// log or replacing it has to wait.
func (p *Partition) copySome(buf []byte) (n int, state moveState, grown []byte, err error) {
	p.reading.RLock()
	defer p.reading.RUnlock()
	offline := p.State().Role == Offline
	p.moved.Lock()
	defer p.moved.Unlock()
	copied := p.moved.log.Load()
	if copied == nil || offline {
		return 0, moveOver, buf, nil
	}
	n, grown, err = copied.CatchUp(p.Log(), buf)
	if n > 0 && copied.LogEndOffset() < p.Log().LogEndOffset() {
		return n, moveFar, grown, err
	}
	return n, moveNear, grown, err
}

// endMove copies the remainder with appends blocked, and replaces the log with the copy
// (Partition.maybeReplaceCurrentWithFutureReplica, 3.9).
func (p *Partition) endMove(logs *logstore.Manager, buf []byte) error {
	if err := p.flushCopy(); err != nil { // most of it while appends go on
		return err
	}
	p.reading.Lock() // waits for long reads before anything else has to wait for this
	defer p.reading.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved.Lock()
	defer p.moved.Unlock()
	copied := p.moved.log.Load()
	if copied == nil || p.mu.role == Offline {
		return nil
	}
	for {
		n, grown, err := copied.CatchUp(p.Log(), buf)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		buf = grown
	}
	old := p.Log()
	log, err := logs.Replace(p.TP)
	if err != nil {
		return err
	}
	p.log.Store(log)
	log.GoOnVerifying(old) // now that the old log is no longer asked
	p.moved.log.Store(nil)
	p.Changed.Notify()
	return log.Usable()
}

func (p *Partition) flushCopy() error {
	copied := p.moved.log.Load()
	if copied == nil {
		return nil
	}
	if err := copied.Flush(); err != nil && !errors.Is(err, kerr.KafkaStorageError) {
		return err
	}
	return nil // a failed disk, or a copy that was dropped meanwhile, shows in the next step
}
