package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// GetOrCreate returns the log of a partition, creating it if there is none in the directory with the fewest logs. If
// isNew is false, the log may be in a directory that is offline: then none is created, and the error wraps
// kerr.KafkaStorageError. If it is still being loaded, the error is ErrLoading; OnLoaded will be called when it is
// done. A zero topicID is unknown; one that differs from the stored id is kerr.InconsistentTopicID.
func (m *Manager) GetOrCreate(tp TopicPartition, topicID [16]byte, cfg Config, isNew bool) (*Log, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.isLoading(tp) {
		return nil, fmt.Errorf("%v: %w", tp, ErrLoading)
	}
	if l, ok := m.Log(tp); ok {
		if err := l.disk.usable(); err != nil {
			return nil, err
		}
		if topicID == ([16]byte{}) {
			return l, nil
		}
		return l, l.SetTopicID(topicID)
	}
	if m.mu.closed {
		return nil, errClosed
	}
	if !isNew && m.liveDisks() < len(m.disks) {
		return nil, fmt.Errorf("%v may be in a log directory that is offline: %w", tp, kerr.KafkaStorageError)
	}
	return m.create(tp, topicID, cfg)
}

// create creates a log in the requested directory, or else in the one with the fewest logs; if a directory fails, in
// the next one.
func (m *Manager) create(tp TopicPartition, topicID [16]byte, cfg Config) (*Log, error) {
	var errs []error
	wish := m.takePreferredDir(tp)
	for tried := 0; tried <= len(m.disks); tried++ {
		v := m.place(wish)
		wish = nil
		if v == nil {
			break
		}
		l, err := m.createIn(v, tp.String(), tp, topicID, cfg)
		if err != nil {
			errs = append(errs, v.fail("create log", err)) // it is not tried again
			m.placed(v)
			continue
		}
		m.setLog(tp, l)
		m.setProducerExpiry(l) // it may have changed before the log could be found
		m.placed(v)
		return l, nil
	}
	return nil, fmt.Errorf("no log directory for %v: %w", tp, errors.Join(append(errs, kerr.KafkaStorageError)...))
}

// createIn creates a log, or the copy of one, under the given name in a directory that has nothing of the partition
// yet.
func (m *Manager) createIn(v *volume, name string, tp TopicPartition, topicID [16]byte, cfg Config) (*Log, error) {
	if err := m.forgetStored(v, tp); err != nil {
		return nil, err
	}
	return createLog(m.env, &v.disk, loadOptions{tp: tp, dir: filepath.Join(v.path, name), cfg: cfg, clean: true}, topicID)
}

// place chooses a directory for another log, the requested one or that with the fewest logs; nil if none is left.
// placed must be called afterwards.
func (m *Manager) place(wish *volume) *volume {
	m.placing.Lock()
	defer m.placing.Unlock()
	live := m.disks
	if wish != nil && !wish.failed.Load() {
		live = []*volume{wish}
	} else if len(m.disks) > 1 || m.disks[0].failed.Load() {
		live = m.emptiest()
	}
	if len(live) == 0 {
		return nil
	}
	m.placing.count[&live[0].disk]++
	return live[0]
}

// emptiest returns the usable directories, those with room and the fewest logs first, including logs that are being
// created.
func (m *Manager) emptiest() []*volume {
	counts := maps.Clone(m.placing.count)
	for _, v := range m.disks {
		logs, unloaded := m.contentsOf(v)
		counts[&v.disk] += len(logs) + len(unloaded)
	}
	live := slices.DeleteFunc(slices.Clone(m.disks), func(v *volume) bool { return v.failed.Load() })
	without := func(v *volume) int {
		if v.space.low.Load() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(live, func(a, b *volume) int {
		return cmp.Or(without(a)-without(b), counts[&a.disk]-counts[&b.disk])
	})
	return live
}

func (m *Manager) placed(v *volume) {
	m.placing.Lock()
	defer m.placing.Unlock()
	m.placing.count[&v.disk]--
}

// preferDir remembers where a log is to be created.
func (m *Manager) preferDir(tp TopicPartition, v *volume) {
	m.placing.Lock()
	defer m.placing.Unlock()
	m.placing.preferred[tp] = v
}

// takePreferredDir returns where a log is to be created, if that was requested, and forgets it.
func (m *Manager) takePreferredDir(tp TopicPartition) *volume {
	m.placing.Lock()
	defer m.placing.Unlock()
	v := m.placing.preferred[tp]
	delete(m.placing.preferred, tp)
	return v
}
