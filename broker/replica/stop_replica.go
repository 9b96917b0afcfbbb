package replica

import (
	"errors"
	"fmt"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Stop is one partition of a StopReplica request.
type Stop struct {
	TP          logstore.TopicPartition
	LeaderEpoch int32 // negative (unknown, or the topic is being deleted): always obeyed
	Delete      bool
}

// StopReplicas stops serving partitions, and deletes those that are to be deleted. It returns an error for each, nil on
// success, or one error for the whole request.
func (m *Manager) StopReplicas(controllerEpoch int32, stops []Stop) ([]error, error) {
	m.control.Lock()
	defer m.control.Unlock()
	if err := m.checkControllerLocked(controllerEpoch); err != nil {
		return nil, err
	}
	errs := make([]error, len(stops))
	for i, s := range stops {
		errs[i] = m.stopLocked(s)
	}
	m.fetchers.endIdle()
	return errs, nil
}

// stopLocked stops serving a partition. The lock is control.
func (m *Manager) stopLocked(s Stop) error {
	if current := m.HostedEpoch(s.TP); s.LeaderEpoch >= 0 && s.LeaderEpoch < current {
		return fmt.Errorf("%v: leader epoch %d, current %d: %w", s.TP, s.LeaderEpoch, current, kerr.FencedLeaderEpoch)
	}
	m.fetchers.remove(s.TP)
	if !s.Delete {
		m.pending.forget(s.TP)
		if p, ok := m.Partition(s.TP); ok {
			p.goOffline()
		}
		m.cfg.LeadershipChanged(s.TP, s.LeaderEpoch, false)
		return nil
	}
	m.drop(s.TP)
	m.cfg.LeadershipChanged(s.TP, s.LeaderEpoch, false)
	err := m.cfg.Logs.Delete(s.TP)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil // gone already
	}
	return err
}

// NotHosted is the leader epoch of a partition that the controller has not assigned yet.
const NotHosted = -1

// HostedEpoch returns the leader epoch of a partition that is hosted, or will be once its log is loaded; otherwise
// NotHosted.
func (m *Manager) HostedEpoch(tp logstore.TopicPartition) int32 {
	if r, ok := m.pending.role(tp); ok {
		return r.State.LeaderEpoch
	}
	if p, ok := m.Partition(tp); ok {
		return p.State().LeaderEpoch
	}
	return NotHosted
}

// goOffline stops serving the partition until the next LeaderAndIsr.
func (p *Partition) goOffline() {
	p.mu.Lock()
	p.mu.role = Offline
	p.mu.Unlock()
	p.Changed.Notify()
}
