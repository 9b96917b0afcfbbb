package logstore

import (
	"maps"
	"slices"
)

// Log returns the log of a partition, even if its directory is offline.
func (m *Manager) Log(tp TopicPartition) (*Log, bool) {
	m.table.RLock()
	defer m.table.RUnlock()
	l, ok := m.table.logs[tp]
	return l, ok
}

// Logs returns the logs in directories that are online, in no particular order.
func (m *Manager) Logs() []*Log {
	return m.logsIf(func(l *Log) bool { return !l.disk.failed.Load() })
}

// logsOn returns the logs and copies of logs in a directory.
func (m *Manager) logsOn(v *volume) []*Log {
	logs, _ := m.contentsOf(v)
	return logs
}

// contentsOf returns the logs and copies of logs in a directory, and the partitions whose log in it is not loaded.
func (m *Manager) contentsOf(v *volume) (logs []*Log, unloaded []TopicPartition) {
	m.table.RLock()
	defer m.table.RUnlock()
	for _, l := range m.table.logs {
		if l.disk == &v.disk {
			logs = append(logs, l)
		}
	}
	return append(logs, m.futuresLocked(v)...), slices.Collect(maps.Keys(v.unloaded))
}

// holds reports whether a partition's log or a copy of it is in a directory, loaded or not.
func (m *Manager) holds(v *volume, tp TopicPartition) bool {
	m.table.RLock()
	defer m.table.RUnlock()
	l, ok := m.table.logs[tp]
	mv, moving := m.table.moves[tp]
	return ok && l.disk == &v.disk || moving && mv.future.disk == &v.disk || v.unloaded[tp]
}

func (m *Manager) futuresOn(v *volume) []*Log {
	m.table.RLock()
	defer m.table.RUnlock()
	return m.futuresLocked(v)
}

func (m *Manager) futuresLocked(v *volume) []*Log {
	var logs []*Log
	for _, mv := range m.table.moves {
		if mv.future.disk == &v.disk {
			logs = append(logs, mv.future)
		}
	}
	return logs
}

func (m *Manager) logsIf(want func(*Log) bool) []*Log {
	m.table.RLock()
	defer m.table.RUnlock()
	var logs []*Log
	for _, l := range m.table.logs {
		if want(l) {
			logs = append(logs, l)
		}
	}
	return logs
}

// setLog adds a log to the table, or removes it if it is nil.
func (m *Manager) setLog(tp TopicPartition, l *Log) {
	m.table.Lock()
	defer m.table.Unlock()
	if l == nil {
		delete(m.table.logs, tp)
		return
	}
	m.table.logs[tp] = l
}
