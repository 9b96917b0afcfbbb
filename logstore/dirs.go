package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"

	"barnabas/internal/logx"
	"barnabas/internal/vfs"
)

const (
	deletedDir = "-delete"
	futureDir  = "-future"
	strayDir   = "-stray"
	// maxDirName is the maximum length of a file name.
	maxDirName = 255
)

// foreignDirs are directories in a log directory that do not belong to partitions and are left alone.
var foreignDirs = map[string]bool{"remote-log-index-cache": true, "__cluster_metadata-0": true, "lost+found": true}

// deletedDirName returns the name for the directory of a deleted partition: topic-partition.<32 hex digits>-delete,
// with the topic truncated so that the name is not too long.
func deletedDirName(tp TopicPartition) string {
	name := renamedDir(tp, deletedDir)
	if over := len(name) - maxDirName; over > 0 {
		name = tp.Topic[:len(tp.Topic)-over] + name[len(tp.Topic):]
	}
	return name
}

// dirKind is the kind of a directory in a log directory.
type dirKind int8

const (
	unknownDir dirKind = iota
	replicaDir
	goneDir   // of a deleted partition, to be removed
	futureOne // of a copy of a partition's log
	otherDir  // neither to be loaded nor removed
)

// parseDir determines the kind of a directory from its name.
func parseDir(name string) (TopicPartition, dirKind) {
	if foreignDirs[name] {
		return TopicPartition{}, otherDir
	}
	kind := replicaDir
	for suffix, k := range map[string]dirKind{deletedDir: goneDir, futureDir: futureOne, strayDir: otherDir} {
		if plain, ok := strings.CutSuffix(name, suffix); ok {
			dot := strings.LastIndexByte(plain, '.')
			if dot < 0 || len(plain)-dot-1 != 32 {
				return TopicPartition{}, unknownDir
			}
			name, kind = plain[:dot], k
		}
	}
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return TopicPartition{}, unknownDir
	}
	partition, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || partition < 0 {
		return TopicPartition{}, unknownDir
	}
	return TopicPartition{name[:dash], int32(partition)}, kind
}

// damaged stands in for a log that cannot be loaded: it behaves as if its directory were offline.
func (m *Manager) damaged(o loading, path string) *Log {
	d := &disk{path: path, report: func(*disk, error) {}, now: m.cfg.Now}
	d.failed.Store(true)
	ld := loader{loading: o, env: m.env}
	l := ld.newLog(d)
	l.setSegmentsLocked([]*segment{newSegment(m.env.fs, o.dir, 0, 0, &o.cfg, m.cfg.Now())})
	return l
}

// partitionsIn lists the logs to load from a directory, and schedules the removal of those of deleted partitions.
func (m *Manager) partitionsIn(v *volume) ([]loading, error) {
	entries, err := m.cfg.FS.ReadDir(v.path)
	if err != nil {
		_ = v.fail("list log directory", err)
		return nil, nil
	}
	var todo []loading
	recovering := make(chan struct{}, max(m.cfg.RecoveryThreadsPerDir, 1))
	for _, e := range entries {
		if !vfs.IsDir(m.cfg.FS, v.path, e) {
			continue
		}
		dir := filepath.Join(v.path, e.Name())
		tp, kind := parseDir(e.Name())
		switch kind {
		case unknownDir:
			return nil, fmt.Errorf("%s is in a log directory, but is not the directory of a partition (topic-partition): move it away", dir)
		case otherDir:
			m.cfg.Logger.WithField(logx.Dir, dir).Warn("ignoring a directory")
		case goneDir:
			m.removeDirLater(dir)
		case replicaDir, futureOne:
			c := &v.checkpoints
			_, compacted := c.cleaned[tp]
			compacted = compacted || c.compactedUnknown
			todo = append(todo, loading{tp: tp, dir: dir, future: kind == futureOne, cfg: m.cfg.Topic(tp.Topic), clean: v.wasClean,
				recoveryPoint: c.recovery[tp], flushedUnknown: c.flushedUnknown, compacted: compacted, logStart: c.start[tp], highWatermark: c.hw[tp],
				recovering: recovering})
		}
	}
	if !v.wasClean {
		m.measureAll(todo)
	}
	v.progress = newProgress(v.path, todo, !v.wasClean && len(todo) > 0, m.cfg.Now, m.cfg.Logger)
	m.cfg.Loading.add(v.progress)
	return todo, nil
}

// measureAll determines how much has to be read. Errors will show when the logs are loaded.
func (m *Manager) measureAll(todo []loading) {
	numbers := make([]int, len(todo))
	for i := range numbers {
		numbers[i] = i
	}
	_ = parallel(numbers, minThreads, func(i int) error {
		todo[i].measure(m.cfg.FS)
		return nil
	})
}

// measure determines the total size of the segments, and of those that reach above the recovery point.
func (o *loading) measure(fsys vfs.FS) {
	entries, err := fsys.ReadDir(o.dir) // sorted by name, so segments by base
	if err != nil {
		return
	}
	for _, e := range entries {
		base, ok := parseFileName(e.Name(), logSuffix)
		if !ok {
			continue
		}
		if base <= o.recoveryPoint { // what is below it need not be read
			o.toRead = 0
		}
		if info, err := e.Info(); err == nil {
			o.size += info.Size()
			o.toRead += info.Size()
		}
	}
}

// checkpoints are the offsets by partition in a directory's checkpoint files, as last read or written.
type checkpoints struct {
	mu                  sync.Mutex // leaf; held while a file is being written
	recovery, start, hw map[TopicPartition]int64
	cleaned             map[TopicPartition]int64 // end of the clean part of compacted logs; nil until the file has been written
	// flushedUnknown: the recovery points could not be parsed, or are missing, so nothing is known to be flushed. The
	// file stays as it is until all logs are loaded, so that a start after another kill also knows.
	flushedUnknown bool
	// unsure are the files that may have another content than is known here: they were written, but their directory
	// could not be synced.
	unsure map[string]bool
	// compactedUnknown: the cleaner's checkpoint could not be parsed, or is missing: any log may have been compacted.
	compactedUnknown bool
}

// storeLocked writes a file of offsets and remembers its content in last.
func (c *checkpoints) storeLocked(v *volume, fsys vfs.FS, name string, last *map[TopicPartition]int64, offsets map[TopicPartition]int64) error {
	err := writeCheckpoint(fsys, filepath.Join(v.path, name), offsets)
	switch {
	case err == nil:
		delete(c.unsure, name)
		*last = offsets
	case unsynced(err):
		c.unsure[name] = true
	}
	return err
}

// load reads the files. One that cannot be parsed is ignored, which costs time but no records: everything is recovered,
// records deleted by DeleteRecords may come back, and leaders determine the high watermark again.
func (c *checkpoints) load(fsys vfs.FS, dir string, logger *logrus.Entry) error {
	c.unsure = make(map[string]bool)
	c.compactedUnknown = isLost(fsys, filepath.Join(dir, cleanerFile))
	for _, file := range []struct {
		name, without string
		offsets       *map[TopicPartition]int64
		unknown       *bool
	}{
		{recoveryPointFile, "logs are recovered from their start, unless they were shut down cleanly", &c.recovery, &c.flushedUnknown},
		{logStartFile, "log start offsets are those of the first segments", &c.start, nil},
		{highWatermarkFile, "high watermarks are at the log start offset until the leader has determined them", &c.hw, nil},
		{cleanerFile, "logs will be compacted from their start", &c.cleaned, nil},
	} {
		offsets, err := readCheckpoint(fsys, filepath.Join(dir, file.name))
		if errors.Is(err, errMalformed) {
			logger.WithError(err).WithField(logx.Dir, dir).Warn("cannot parse a checkpoint, ignoring it: " + file.without)
			err = nil
			c.compactedUnknown = c.compactedUnknown || file.name == cleanerFile
		}
		if err != nil {
			return err
		}
		if offsets == nil && file.unknown != nil {
			*file.unknown = true
		}
		*file.offsets = offsets
	}
	if len(c.cleaned) == 0 {
		c.cleaned = nil
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
	if c.flushedUnknown {
		_, unloaded := m.contentsOf(v)
		c.flushedUnknown = len(unloaded) > 0
	}
	unknown := c.flushedUnknown
	c.mu.Unlock()
	if unknown {
		return nil
	}
	return m.checkpoint(v, recoveryPointFile, &c.recovery, func(l *Log) (int64, bool) { return l.recovery.Load(), true })
}

// checkpointStarts writes the log start offsets that differ from the base of the first segment.
func (m *Manager) checkpointStarts(v *volume) error {
	return m.checkpoint(v, logStartFile, &v.checkpoints.start, func(l *Log) (int64, bool) {
		start := l.start.Load()
		return start, start > (*l.segments.Load())[0].base
	})
}

func (m *Manager) checkpointHighWatermarks(v *volume) error {
	return m.checkpoint(v, highWatermarkFile, &v.checkpoints.hw, func(l *Log) (int64, bool) { return l.hw.Load(), true })
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
	if maps.Equal(offsets, *last) && len(offsets) > 0 && !c.unsure[name] {
		return nil
	}
	return c.storeLocked(v, m.cfg.FS, name, last, offsets)
}

// lowerRecoveryPoint stores a lower recovery point for a log that is not in the table yet.
func (m *Manager) lowerRecoveryPoint(v *volume, tp TopicPartition, point int64) error {
	c := &v.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	stored, ok := c.recovery[tp]
	if !ok || stored <= point && !c.unsure[recoveryPointFile] || v.failed.Load() {
		return nil
	}
	lowered := maps.Clone(c.recovery)
	lowered[tp] = min(stored, point)
	return c.storeLocked(v, m.cfg.FS, recoveryPointFile, &c.recovery, lowered)
}
