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

// pendingRoles holds the roles of partitions whose logs are still being loaded. The controller is answered as if the
// roles had been assumed, so that it can go on with everything else: to the controller and to clients, a partition that
// this broker leads without saying so yet looks like one whose leader has just been elected. Until the log is loaded
// the partition is not hosted: clients and followers get NOT_LEADER_OR_FOLLOWER and retry. Meanwhile no follower is
// considered in sync or truncated, since nothing is known about it, and this broker does not fetch. If the log turns
// out to be lost, the controller is notified as for any log that is lost later.
type pendingRoles struct {
	wake chan struct{} // capacity 1: logs have been loaded

	mu struct {
		sync.Mutex // leaf
		roles      map[logstore.TopicPartition]role
		loaded     []logstore.TopicPartition // for runPending
	}
}

func (w *pendingRoles) init() {
	w.wake = make(chan struct{}, 1)
	w.mu.roles = make(map[logstore.TopicPartition]role)
}

func (w *pendingRoles) role(tp logstore.TopicPartition) (role, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.mu.roles[tp]
	return r, ok
}

func (w *pendingRoles) forget(tp logstore.TopicPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.mu.roles, tp)
}

// add records a role unless the pending one is newer. One in the same leader epoch may name other replicas (see
// reassignLocked).
func (w *pendingRoles) add(r *role) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before, ok := w.mu.roles[r.TP]; ok {
		switch current := before.State.LeaderEpoch; {
		case r.State.LeaderEpoch < current:
			return fmt.Errorf("%v: leader epoch %d, current %d: %w", r.TP, r.State.LeaderEpoch, current, kerr.StaleControllerEpoch)
		case r.State.LeaderEpoch == current:
			w.mu.roles[r.TP] = *r
			return errSameEpoch
		}
	}
	w.mu.roles[r.TP] = *r
	return nil
}

// supersede forgets a role that is no newer than one that is being assumed now.
func (w *pendingRoles) supersede(r *role) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before, ok := w.mu.roles[r.TP]; ok && before.State.LeaderEpoch <= r.State.LeaderEpoch {
		delete(w.mu.roles, r.TP)
	}
}

// take removes and returns the roles of partitions whose logs are loaded.
func (w *pendingRoles) take() []role {
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

// postpone keeps a role until the partition's log is loaded. The caller holds Manager.control, as does the one who takes
// it, so none is missed.
func (m *Manager) postpone(r *role) error {
	if err := m.pending.add(r); err != nil {
		return err
	}
	if r.leads(m.cfg.BrokerID) { // clients wait for a leader, while a follower can catch up later
		m.cfg.Logs.Prioritize(r.TP)
	}
	return nil
}

// Loaded announces that a partition's log is loaded, or will not be. It does not block.
func (m *Manager) Loaded(tp logstore.TopicPartition) {
	w := &m.pending
	w.mu.Lock()
	w.mu.loaded = append(w.mu.loaded, tp)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// runPending lets partitions assume the roles that they were assigned while their logs were being loaded.
func (m *Manager) runPending(ctx context.Context) {
	for {
		select {
		case <-m.pending.wake:
		case <-ctx.Done():
			return
		}
		if m.assumePending() {
			m.cfg.StorageFailed()
		}
	}
}

// assumePending reports whether one of the logs is lost.
func (m *Manager) assumePending() (lost bool) {
	m.control.Lock()
	defer m.control.Unlock()
	roles := m.pending.take()
	if len(roles) == 0 {
		return false
	}
	return slices.ContainsFunc(m.assumeLocked(roles), func(err error) bool { return errors.Is(err, kerr.KafkaStorageError) })
}
