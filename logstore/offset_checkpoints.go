package logstore

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"sync"

	"barnabas/internal/logx"
	"barnabas/internal/vfs"

	"github.com/sirupsen/logrus"
)

// checkpoints are the offsets by partition in a directory's checkpoint files, as last read or written.
type checkpoints struct {
	mu struct {
		sync.Mutex          // leaf but for Manager.table; held while a file is being written
		recovery, start, hw map[TopicPartition]int64
		cleaned             map[TopicPartition]int64 // end of the clean part of compacted logs; nil until the file has been written
		// flushedUnknown: the recovery points could not be parsed, or are missing, so nothing is known to be flushed.
		// The file stays as it is until all logs are loaded, so that a start after another kill also knows.
		flushedUnknown bool
		// unsure are the files that may have another content than is known here: they were written, but their
		// directory could not be synced.
		unsure map[string]bool
		// compactedUnknown: the cleaner's checkpoint could not be parsed, or is missing: any log may have been
		// compacted.
		compactedUnknown bool
	}
}

// describe tells what is stored about a log that is about to be loaded.
func (c *checkpoints) describe(o *loadOptions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, compacted := c.mu.cleaned[o.tp]
	o.compacted = compacted || c.mu.compactedUnknown
	o.recoveryPoint, o.flushedUnknown = c.mu.recovery[o.tp], c.mu.flushedUnknown
	o.logStart, o.highWatermark = c.mu.start[o.tp], c.mu.hw[o.tp]
}

// storeLocked writes a file of offsets and remembers its content in last.
func (c *checkpoints) storeLocked(v *volume, fsys vfs.FS, name string, last *map[TopicPartition]int64, offsets map[TopicPartition]int64) error {
	err := writeCheckpoint(fsys, filepath.Join(v.path, name), offsets)
	switch {
	case err == nil:
		delete(c.mu.unsure, name)
		*last = offsets
	case unsynced(err):
		c.mu.unsure[name] = true
	}
	return err
}

// load reads the files. One that cannot be parsed is ignored, which costs time but no records: everything is recovered,
// records deleted by DeleteRecords may come back, and leaders determine the high watermark again.
func (c *checkpoints) load(fsys vfs.FS, dir string, logger *logrus.Entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.unsure = make(map[string]bool)
	c.mu.compactedUnknown = isLost(fsys, filepath.Join(dir, cleanerFile))
	for _, file := range []struct {
		name, without string
		offsets       *map[TopicPartition]int64
		unknown       *bool
	}{
		{recoveryPointFile, "logs are recovered from their start, unless they were shut down cleanly", &c.mu.recovery, &c.mu.flushedUnknown},
		{logStartFile, "log start offsets are those of the first segments", &c.mu.start, nil},
		{highWatermarkFile, "high watermarks are at the log start offset until the leader has determined them", &c.mu.hw, nil},
		{cleanerFile, "logs will be compacted from their start", &c.mu.cleaned, nil},
	} {
		offsets, err := readCheckpoint(fsys, filepath.Join(dir, file.name))
		if errors.Is(err, errMalformed) {
			logger.WithError(err).WithField(logx.Dir, dir).Warn("cannot parse a checkpoint, ignoring it: " + file.without)
			err = nil
			c.mu.compactedUnknown = c.mu.compactedUnknown || file.name == cleanerFile
		}
		if err != nil {
			return err
		}
		if offsets == nil && file.unknown != nil {
			*file.unknown = true
		}
		*file.offsets = offsets
	}
	if len(c.mu.cleaned) == 0 {
		c.mu.cleaned = nil
	}
	return nil
}

// isLost reports whether a checkpoint is missing that every directory has from its first start on.
func isLost(fsys vfs.FS, name string) bool {
	_, err := fsys.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// create creates the files that exist from the first start on, empty and durably: if one is missing later, it was lost.
func (c *checkpoints) create(fsys vfs.FS, dir string) error {
	for _, name := range []string{recoveryPointFile, logStartFile, cleanerFile} {
		f, err := fsys.OpenFile(filepath.Join(dir, name), vfs.ReadWrite|vfs.Create)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}

// checkpointOffsets writes the recovery points and log start offsets of a directory.
func (m *Manager) checkpointOffsets(v *volume) error {
	return errors.Join(m.checkpointRecoveryPoints(v), m.checkpointStarts(v))
}

func (m *Manager) checkpointRecoveryPoints(v *volume) error {
	c := &v.checkpoints
	c.mu.Lock()
	if c.mu.flushedUnknown {
		_, unloaded := m.contentsOf(v)
		c.mu.flushedUnknown = len(unloaded) > 0
	}
	unknown := c.mu.flushedUnknown
	c.mu.Unlock()
	if unknown {
		return nil
	}
	return m.checkpoint(v, recoveryPointFile, &c.mu.recovery, func(l *Log) (int64, bool) { return l.recovery.Load(), true })
}

// checkpointStarts writes the log start offsets that differ from the base of the first segment.
func (m *Manager) checkpointStarts(v *volume) error {
	return m.checkpoint(v, logStartFile, &v.checkpoints.mu.start, func(l *Log) (int64, bool) {
		start := l.start.Load()
		return start, start > (*l.segments.Load())[0].base
	})
}

func (m *Manager) checkpointHighWatermarks(v *volume) error {
	return m.checkpoint(v, highWatermarkFile, &v.checkpoints.mu.hw, func(l *Log) (int64, bool) { return l.hw.Load(), true })
}

// checkpoint writes one file of offsets, unless it is up to date.
func (m *Manager) checkpoint(v *volume, name string, last *map[TopicPartition]int64, offset func(*Log) (int64, bool)) error {
	if v.failed.Load() {
		return nil
	}
	c := &v.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	offsets := make(map[TopicPartition]int64)
	logs, unloaded := m.contentsOf(v)
	for _, tp := range unloaded { // only the stored values are known
		if o, ok := (*last)[tp]; ok {
			offsets[tp] = o
		}
	}
	for _, l := range logs {
		if o, ok := offset(l); ok {
			offsets[l.tp] = o
		}
	}
	if maps.Equal(offsets, *last) && len(offsets) > 0 && !c.mu.unsure[name] {
		return nil
	}
	return c.storeLocked(v, m.cfg.FS, name, last, offsets)
}

// lowerRecoveryPoint stores a lower recovery point for a log that is not in the table yet.
func (m *Manager) lowerRecoveryPoint(v *volume, tp TopicPartition, point int64) error {
	c := &v.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	stored, ok := c.mu.recovery[tp]
	if !ok || stored <= point && !c.mu.unsure[recoveryPointFile] || v.failed.Load() {
		return nil
	}
	lowered := maps.Clone(c.mu.recovery)
	lowered[tp] = min(stored, point)
	return c.storeLocked(v, m.cfg.FS, recoveryPointFile, &c.mu.recovery, lowered)
}
