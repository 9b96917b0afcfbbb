package logstore

import (
	"errors"
	"path/filepath"
	"time"

	"barnabas/internal/logx"
)

// Delete deletes a partition's log, and its copy if it is being moved: the directory is renamed now and removed after
// log.segment.delete.delay.ms. It is not an error if there is no log; it does not wait for a log that is still being
// loaded.
func (m *Manager) Delete(tp TopicPartition) error {
	if err := m.abandon(tp); err != nil {
		return err
	}
	if l, ok := m.Log(tp); ok { // before other creations and deletions have to wait
		defer l.cleaning.hold()()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.Log(tp)
	if !ok {
		return nil
	}
	if err := l.disk.usable(); err != nil {
		return err
	}
	defer l.cleaning.hold()()
	if err := m.dropFutureLocked(tp); err != nil { // first, since a copy without its log would be removed at the next start
		return err
	}
	if err := m.discard(l); err != nil {
		return err
	}
	m.setLog(tp, nil)
	v := m.volumeOf(l)
	err := errors.Join(m.checkpointOffsets(v), m.forgetCleaned(v, tp))
	if noSpace(err) || tooManyFiles(err) { // what makes room must not need any: see forgetStored
		return nil
	}
	return v.fail("write checkpoint", err)
}

// forgetStored removes from a directory's checkpoints what is left there of a former log of the partition, which was
// deleted while the disk was full, or just before a crash. After the next crash it would be taken for the new log's.
func (m *Manager) forgetStored(v *volume, tp TopicPartition) error {
	c := &v.checkpoints
	c.mu.Lock()
	has := func(name string, offsets map[TopicPartition]int64) bool {
		_, stored := offsets[tp]
		return stored || c.mu.unsure[name]
	}
	offsets, mark := has(recoveryPointFile, c.mu.recovery) || has(logStartFile, c.mu.start), has(highWatermarkFile, c.mu.hw)
	cleaned := has(cleanerFile, c.mu.cleaned)
	c.mu.Unlock()
	var errs []error
	if offsets {
		errs = append(errs, m.checkpointOffsets(v))
	}
	if mark {
		errs = append(errs, m.checkpointHighWatermarks(v))
	}
	if cleaned {
		errs = append(errs, m.dropCleaned(v, tp))
	}
	return errors.Join(errs...)
}

// discard schedules the removal of a log's directory after log.segment.delete.delay.ms.
func (m *Manager) discard(l *Log) error {
	dir, err := l.retire()
	if err == nil {
		m.removeDirLater(dir)
	}
	return err
}

// removeAgainAfter is when the removal of a directory is tried again for which there was no file descriptor.
const removeAgainAfter = time.Minute

func (m *Manager) removeDirLater(dir string) {
	m.removeDirAfter(time.Duration(m.segmentDeleteDelay.Load()), dir)
}

func (m *Manager) removeDirAfter(delay time.Duration, dir string) {
	m.scheduler.later(delay, func() {
		err := m.cfg.FS.RemoveAll(dir)
		if err != nil {
			m.cfg.Logger.WithError(err).WithField(logx.Dir, dir).Warn("cannot remove a deleted partition")
		}
		if tooManyFiles(err) {
			m.removeDirAfter(removeAgainAfter, dir)
		}
	})
}

// retire closes the log of a deleted partition and renames its directory.
func (l *Log) retire() (string, error) {
	l.mu.Lock()
	dir := filepath.Join(l.disk.path, deletedDirName(l.tp))
	err := l.renameLocked(dir)
	if err == nil {
		l.closed.Store(true)
	}
	l.mu.Unlock()
	if err != nil {
		return "", l.disk.fail("rename directory of deleted partition", err)
	}
	l.releaseAll()
	return dir, nil
}
