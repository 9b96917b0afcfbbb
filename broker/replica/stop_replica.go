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
		errs[i] = m.stop(s)
	}
	m.fetchers.endIdle()
	return errs, nil
}

func (m *Manager) stop(s Stop) error {
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

// DropStray deletes a replica that no longer belongs to its partition, unless the controller has assigned it again
// since its leader epoch was seen (which may be NotHosted).
//
// The controller may have taken the replica off the partition without this broker having heard of it yet. Requests with
// earlier leader epochs are then still on their way: with an empty log this broker must not become a leader, to whose
// log others would truncate theirs. So LeaderAndIsr of the topic are refused up to the leader epoch until.
func (m *Manager) DropStray(tp logstore.TopicPartition, seen int32, topic [16]byte, until int32) (dropped bool, err error) {
	m.control.Lock()
	defer m.control.Unlock()
	if m.HostedEpoch(tp) != seen {
		return false, nil
	}
	m.control.dropped[tp] = droppedReplica{topic, until}
	return true, m.stop(Stop{TP: tp, LeaderEpoch: NotHosted, Delete: true})
}

// droppedReplica is a replica that was deleted as a stray.
type droppedReplica struct {
	topic [16]byte
	until int32
}

// checkDropped refuses to create a replica again that was deleted as a stray, until the controller assigns it anew.
func (m *Manager) checkDropped(a Assignment) error {
	d, ok := m.control.dropped[a.TP]
	if _, hosted := m.Partition(a.TP); !ok || hosted || a.State.IsNew || a.Topic != d.topic || a.State.LeaderEpoch > d.until {
		return nil
	}
	return fmt.Errorf("%v: leader epoch %d, taken off this broker in %d at the latest: %w", a.TP, a.State.LeaderEpoch, d.until, kerr.StaleControllerEpoch)
}

// goOffline stops serving the partition until the next LeaderAndIsr.
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
		if copied, ok := m.cfg.Logs.Future(p.TP); ok && copied.Dir() == dir {
			m.dropMove(p)
		}
		if p.Log().Dir() == dir {
			m.takeOffline(p)
			lost = append(lost, p.TP)
		}
	}
	return lost
}

// takeOffline takes a partition out of service whose log is in a failed directory.
func (m *Manager) takeOffline(p *Partition) {
	m.fetchers.remove(p.TP)
	p.goOffline()
	m.cfg.LeadershipChanged(p.TP, p.State().LeaderEpoch, false)
}

// movedInto takes a partition out of service whose log was moved into a directory while that failed: DirectoryFailed
// may have looked before, and so may the controller.
func (m *Manager) movedInto(p *Partition) {
	m.takeOffline(p)
	m.cfg.StorageFailed()
}
