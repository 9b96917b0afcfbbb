package logstore

import (
	"errors"
	"maps"
)

// cleanedTo returns the offset up to which a log is compacted; false if it never was.
func (m *Manager) cleanedTo(l *Log) (int64, bool) {
	c := &m.volumeOf(l).checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	offset, ok := c.mu.cleaned[l.tp]
	return offset, ok
}

// setCleanedTo stores it, unless the log was deleted meanwhile: its partition may have got another one.
func (m *Manager) setCleanedTo(l *Log, offset int64) error {
	return m.changeCleaned(m.volumeOf(l), func(cleaned map[TopicPartition]int64) bool {
		if l.closed.Load() {
			return false
		}
		cleaned[l.tp] = offset
		return true
	})
}

// copyCleaned stores for a copy what is stored for its log.
func (m *Manager) copyCleaned(of, copied *Log) error {
	offset, compacted := m.cleanedTo(of)
	if !compacted {
		return m.dropCleaned(m.volumeOf(copied), copied.tp)
	}
	return m.setCleanedTo(copied, offset)
}

// dropCleaned removes what is stored for a copy that did not take its log's place.
func (m *Manager) dropCleaned(v *volume, tp TopicPartition) error {
	return m.changeCleaned(v, func(cleaned map[TopicPartition]int64) bool {
		_, ok := cleaned[tp]
		delete(cleaned, tp)
		return ok
	})
}

// lowerCleaned keeps it within the log after a truncation: records that are appended later are not compacted.
func (m *Manager) lowerCleaned(l *Log) error {
	return m.changeCleaned(m.volumeOf(l), func(cleaned map[TopicPartition]int64) bool {
		offset, ok := cleaned[l.tp]
		end := l.end.offset.Load()
		if !ok || offset <= end {
			return false
		}
		cleaned[l.tp] = end
		return true
	})
}

// forgetCleaned removes a partition that leaves the directory. As in Apache Kafka, the first one to leave creates the
// file, whether the cleaner has run or not (LogManager.asyncDelete, 3.9).
func (m *Manager) forgetCleaned(v *volume, tp TopicPartition) error {
	return m.changeCleaned(v, func(cleaned map[TopicPartition]int64) bool {
		_, ok := cleaned[tp]
		delete(cleaned, tp)
		return ok || v.checkpoints.mu.cleaned == nil
	})
}

// changeCleaned writes a directory's cleaner checkpoint if change has modified it. Partitions that no longer exist are
// removed.
func (m *Manager) changeCleaned(v *volume, change func(map[TopicPartition]int64) bool) error {
	c := &v.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	cleaned := maps.Clone(c.mu.cleaned)
	if cleaned == nil {
		cleaned = make(map[TopicPartition]int64)
	}
	if !change(cleaned) && !c.mu.unsure[cleanerFile] {
		return nil
	}
	maps.DeleteFunc(cleaned, func(tp TopicPartition, _ int64) bool { return !m.holds(v, tp) })
	return c.storeLocked(v, m.cfg.FS, cleanerFile, &c.mu.cleaned, cleaned)
}

// saveTruncated stores the offsets that a truncation has lowered.
func (m *Manager) saveTruncated(l *Log) error {
	return errors.Join(m.lowerCleaned(l), m.checkpointOffsets(m.volumeOf(l)))
}
