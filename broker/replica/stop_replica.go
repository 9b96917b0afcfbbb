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

// StopReplicas ends the service of partitions, and deletes those that are to be deleted.
// It gives an error for each, nil where it was done, or one error for the whole request.
func (m *Manager) StopReplicas(controllerEpoch int32, stops []Stop) ([]error, error) {
	m.control.Lock()
	defer m.control.Unlock()
	if err := m.checkControllerLocked(controllerEpoch); err != nil {
		return nil, err
	}
	errs := make([]error, len(stops))
	for i, s := range stops {
		errs[i] = m.stop(s)
	}
	m.fetchers.endIdle()
	return errs, nil
}

func (m *Manager) stop(s Stop) error {
	if p, ok := m.Partition(s.TP); ok && s.LeaderEpoch >= 0 {
		if current := p.State().LeaderEpoch; s.LeaderEpoch < current {
			return fmt.Errorf("%v: leader epoch %d, current %d: %w", s.TP, s.LeaderEpoch, current, kerr.FencedLeaderEpoch)
		}
	}
	m.fetchers.remove(s.TP)
	if !s.Delete {
		if p, ok := m.Partition(s.TP); ok {
			p.goOffline()
		}
		m.cfg.LeadershipChanged(s.TP, s.LeaderEpoch, false)
		return nil
	}
	m.drop(s.TP)
	m.cfg.LeadershipChanged(s.TP, s.LeaderEpoch, false)
	err := m.cfg.Logs.Delete(s.TP)
	m.cfg.Forget(s.TP.Topic)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil // gone already
	}
	return err
}

// goOffline ends the service of the partition until the next LeaderAndIsr.
func (p *Partition) goOffline() {
	p.mu.Lock()
	p.mu.role = Offline
	p.mu.Unlock()
	p.Changed.Notify()
}

// DirectoryFailed takes the partitions of a failed log directory out of service: they answer KAFKA_STORAGE_ERROR.
func (m *Manager) DirectoryFailed(dir string) []logstore.TopicPartition {
	var lost []logstore.TopicPartition
	for _, p := range m.Partitions() {
		if p.log.Dir() == dir {
			m.fetchers.remove(p.TP)
			p.goOffline()
			m.cfg.LeadershipChanged(p.TP, p.State().LeaderEpoch, false)
			lost = append(lost, p.TP)
		}
	}
	return lost
}
