package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
)

// awaited are the roles of partitions whose logs are still being loaded. The controller is answered as if they had been taken on,
// so that it can go on with everything else: for it and for clients a partition of which this broker is the leader, but does not
// say so yet, is one whose leader was elected a moment ago. Until the log is there the partition is not hosted: whoever asks for
// it, a follower too, gets NOT_LEADER_OR_FOLLOWER and asks again. No follower is taken for in sync nor cut meanwhile, since
// nothing is known of it, and this broker fetches nothing. When the log turns out to be lost the controller is told as of any that
// is lost later.
type awaited struct {
	wake chan struct{} // capacity 1: logs are there

	mu struct {
		sync.Mutex // leaf
		roles      map[logstore.TopicPartition]role
		loaded     []logstore.TopicPartition // for runAwaited
	}
}

func (w *awaited) init() {
	w.wake = make(chan struct{}, 1)
	w.mu.roles = make(map[logstore.TopicPartition]role)
}

func (w *awaited) role(tp logstore.TopicPartition) (role, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.mu.roles[tp]
	return r, ok
}

func (w *awaited) forget(tp logstore.TopicPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.mu.roles, tp)
}

// add takes note of a role that is newer than the one that is awaited.
func (w *awaited) add(r *role) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before, ok := w.mu.roles[r.TP]; ok {
		switch current := before.State.LeaderEpoch; {
		case r.State.LeaderEpoch < current:
			return fmt.Errorf("%v: leader epoch %d, current %d: %w", r.TP, r.State.LeaderEpoch, current, kerr.StaleControllerEpoch)
		case r.State.LeaderEpoch == current:
			return errSameEpoch
		}
	}
	w.mu.roles[r.TP] = *r
	return nil
}

// supersede forgets a role that is not newer than one which is taken on now.
func (w *awaited) supersede(r *role) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before, ok := w.mu.roles[r.TP]; ok && before.State.LeaderEpoch <= r.State.LeaderEpoch {
		delete(w.mu.roles, r.TP)
	}
}

// take hands out the roles of partitions whose logs are there.
func (w *awaited) take() []role {
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []role
	for _, tp := range w.mu.loaded {
		if r, ok := w.mu.roles[tp]; ok {
			due = append(due, r)
			delete(w.mu.roles, tp)
		}
	}
	w.mu.loaded = nil
	return due
}

// await keeps a role until the partition's log is there. The caller holds Manager.control, and so does who takes it: none is missed.
func (m *Manager) await(r *role) error {
	if err := m.awaited.add(r); err != nil {
		return err
	}
	if r.leads(m.cfg.BrokerID) { // clients wait for it, where a follower is only missed
		m.cfg.Logs.Hasten(r.TP)
	}
	return nil
}

// Loaded tells that a partition's log is there, or will not come. It does not block.
func (m *Manager) Loaded(tp logstore.TopicPartition) {
	w := &m.awaited
	w.mu.Lock()
	w.mu.loaded = append(w.mu.loaded, tp)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// runAwaited gives partitions the role that they were given while their logs were loaded.
func (m *Manager) runAwaited(ctx context.Context) {
	for {
		select {
		case <-m.awaited.wake:
		case <-ctx.Done():
			return
		}
		if m.takeOnAwaited() {
			m.cfg.StorageFailed()
		}
	}
}

// takeOnAwaited tells whether one of the logs is lost.
func (m *Manager) takeOnAwaited() (lost bool) {
	m.control.Lock()
	defer m.control.Unlock()
	roles := m.awaited.take()
	if len(roles) == 0 {
		return false
	}
	return slices.ContainsFunc(m.takeOn(roles), func(err error) bool { return errors.Is(err, kerr.KafkaStorageError) })
}
