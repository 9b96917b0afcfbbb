package logstore

import (
	"errors"
	"maps"
	"path/filepath"
)

// cleanedTo is the offset up to which a log is compacted. It is false for one that never was.
func (m *Manager) cleanedTo(l *Log) (int64, bool) {
	c := &m.volumeOf(l).checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	offset, ok := c.cleaned[l.tp]
	return offset, ok
}

// setCleanedTo stores it.
func (m *Manager) setCleanedTo(l *Log, offset int64) error {
	return m.changeCleaned(m.volumeOf(l), func(cleaned map[TopicPartition]int64) bool {
		cleaned[l.tp] = offset
		return true
	})
}

// lowerCleaned keeps it within the log after a truncation: what is appended there was not compacted.
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

// forgetCleaned takes a partition out that leaves the directory. As in Apache Kafka the first one to leave gives the file its
// header, whether the cleaner has been at work or not (LogManager.asyncDelete, 3.9).
func (m *Manager) forgetCleaned(v *volume, tp TopicPartition) error {
	return m.changeCleaned(v, func(cleaned map[TopicPartition]int64) bool {
		_, ok := cleaned[tp]
		delete(cleaned, tp)
		return ok || v.checkpoints.cleaned == nil
	})
}

// changeCleaned writes a directory's checkpoint of the cleaner if change has changed something. Partitions that are not there are
// left out.
func (m *Manager) changeCleaned(v *volume, change func(map[TopicPartition]int64) bool) error {
	c := &v.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	cleaned := maps.Clone(c.cleaned)
	if cleaned == nil {
		cleaned = make(map[TopicPartition]int64)
	}
	if !change(cleaned) {
		return nil
	}
	maps.DeleteFunc(cleaned, func(tp TopicPartition, _ int64) bool { return !m.holds(v, tp) })
	if err := writeCheckpoint(m.cfg.FS, filepath.Join(v.path, cleanerFile), cleaned); err != nil {
		return err
	}
	c.cleaned = cleaned
	return nil
}

// saveTruncated stores what a truncation has lowered.
func (m *Manager) saveTruncated(l *Log) error {
	return errors.Join(m.lowerCleaned(l), m.checkpointOffsets(m.volumeOf(l)))
}
