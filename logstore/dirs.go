package logstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"barnabas/internal/logx"
	"barnabas/internal/vfs"
)

const (
	deletedDir = "-delete"
	futureDir  = "-future"
	strayDir   = "-stray"
	// maxDirName is the longest name that file systems take.
	maxDirName = 255
)

// foreignDirs are directories in a log directory that hold no partition and are left alone.
var foreignDirs = map[string]bool{"remote-log-index-cache": true, "__cluster_metadata-0": true, "lost+found": true}

// deletedDirName is what the directory of a deleted partition is renamed to: topic-partition.<32 hex digits>-delete, the topic
// cut so that the name is not too long.
func deletedDirName(tp TopicPartition) string {
	name := renamedDir(tp, deletedDir)
	if over := len(name) - maxDirName; over > 0 {
		name = tp.Topic[:len(tp.Topic)-over] + name[len(tp.Topic):]
	}
	return name
}

// dirKind is what a directory in a log directory is.
type dirKind int8

const (
	unknownDir dirKind = iota
	replicaDir
	goneDir   // of a deleted partition, to be removed
	futureOne // of the copy of a partition
	otherDir  // neither ours to load nor to remove
)

// parseDir tells from its name what a directory is.
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

// load loads all logs, several at a time in each directory, all directories at once.
func (m *Manager) load(ctx context.Context) error {
	found := foundLogs{logs: make(map[TopicPartition]*Log)}
	var wg sync.WaitGroup
	errs := make([]error, len(m.disks))
	for i, v := range m.disks {
		if !v.failed.Load() {
			wg.Go(func() { errs[i] = m.loadVolume(ctx, v, &found) })
		}
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = m.take(&found)
	}
	if err != nil {
		found.release()
		return err
	}
	for _, v := range m.disks {
		if !v.wasClean && len(m.logsOn(v)) > 0 { // a recovery may have found less than the stored points promise
			_ = v.fail("write checkpoint", m.checkpointRecoveryPoints(v))
		}
	}
	return nil
}

// foundLogs collects logs from the goroutines that load them.
type foundLogs struct {
	mu      sync.Mutex
	logs    map[TopicPartition]*Log
	twins   []*Log // of these logs
	futures []*Log
}

func (t *foundLogs) add(l *Log, future bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case future:
		t.futures = append(t.futures, l)
	case t.logs[l.tp] != nil:
		t.twins = append(t.twins, l)
	default:
		t.logs[l.tp] = l
	}
}

func (t *foundLogs) release() {
	for _, l := range append(append(slices.Collect(maps.Values(t.logs)), t.twins...), t.futures...) {
		if !l.closed.Load() {
			l.releaseAll()
		}
	}
}

// take makes the logs that were found the manager's, and finishes the moves that were under way.
func (m *Manager) take(found *foundLogs) error {
	m.table.Lock()
	m.table.logs = found.logs
	m.table.Unlock()
	for _, l := range found.twins {
		if err := m.settleTwin(l); err != nil {
			return err
		}
	}
	return m.resumeMoves(found.futures)
}

// loadVolume loads the logs of one directory. Disk faults take it offline and are no error.
func (m *Manager) loadVolume(ctx context.Context, v *volume, found *foundLogs) error {
	logger := m.cfg.Logger.WithField(logx.Dir, v.path)
	todo, err := m.partitionsIn(v)
	if err != nil || v.failed.Load() {
		return err
	}
	if !v.wasClean && len(todo) > 0 {
		logger.WithField(logx.Count, len(todo)).Info("last stop was not clean, recovering logs")
	}
	began := m.cfg.Now()
	counted, ended := m.cfg.Loading.begin(v.path, len(todo), !v.wasClean)
	defer ended()
	var loaded atomic.Int64
	progress := rate.Sometimes{Interval: time.Second}
	err = parallel(todo, max(m.cfg.RecoveryThreadsPerDir, minThreads), func(o loading) error {
		if ctx.Err() != nil || v.failed.Load() {
			return context.Cause(ctx)
		}
		l, err := m.loadOne(v, o)
		if l == nil || err != nil {
			return err
		}
		n := loaded.Add(1)
		counted()
		progress.Do(func() { l.logger.WithField(logx.Count, fmt.Sprintf("%d/%d", n, len(todo))).Info("loaded log") })
		found.add(l, o.future)
		return nil
	})
	logger.WithField(logx.Count, loaded.Load()).WithField(logx.TookMs, m.cfg.Now().Sub(began).Milliseconds()).Info("loaded logs")
	if err != nil {
		return err
	}
	_ = v.fail("create checkpoints", v.checkpoints.create(m.cfg.FS, v.path))
	return nil
}

// loadOne loads one log. With a disk fault there is none; a damaged one is there, but offline.
func (m *Manager) loadOne(v *volume, o loading) (*Log, error) {
	l, err := load(m.env, &v.disk, o)
	if errors.Is(err, ErrDamaged) && o.future {
		m.cfg.Logger.WithError(err).WithFields(logFields(o.tp, v.path)).Warn("the copy of a log is damaged and is removed")
		m.removeDirLater(o.dir)
		return nil, nil
	}
	if errors.Is(err, ErrDamaged) {
		m.cfg.Logger.WithError(err).WithFields(logFields(o.tp, v.path)).Error("log is damaged and stays offline")
		return m.damaged(v, o)
	}
	if err != nil {
		_ = v.condemn(fmt.Sprintf("load %v", o.tp), err)
		return nil, nil
	}
	return l, nil
}

// damaged stands in for a log that can't be loaded: it answers as if its directory were offline.
func (m *Manager) damaged(v *volume, o loading) (*Log, error) {
	d := &disk{path: v.path, report: func(*disk, error) {}, now: m.cfg.Now}
	d.failed.Store(true)
	ld := loader{loading: o, env: m.env}
	l, err := ld.newLog(d)
	if err != nil {
		_ = v.condemn(fmt.Sprintf("load %v", o.tp), err)
		return nil, nil
	}
	l.setSegmentsLocked([]*segment{newSegment(m.env.fs, o.dir, 0, 0, &o.cfg, m.cfg.Now())})
	return l, nil
}

// partitionsIn lists the logs to load from a directory and has those of deleted partitions removed.
func (m *Manager) partitionsIn(v *volume) ([]loading, error) {
	entries, err := m.cfg.FS.ReadDir(v.path)
	if err != nil {
		_ = v.fail("list log directory", err)
		return nil, nil
	}
	var todo []loading
	recovering := make(chan struct{}, max(m.cfg.RecoveryThreadsPerDir, 1))
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(v.path, e.Name())
		tp, kind := parseDir(e.Name())
		switch kind {
		case unknownDir:
			return nil, fmt.Errorf("%s is in a log directory, but is not the directory of a partition (topic-partition): move it away", dir)
		case otherDir:
			m.cfg.Logger.WithField(logx.Dir, dir).Warn("leaving a directory alone")
		case goneDir:
			m.removeDirLater(dir)
		case replicaDir, futureOne:
			todo = append(todo, loading{tp: tp, dir: dir, future: kind == futureOne, cfg: m.cfg.Topic(tp.Topic), clean: v.wasClean,
				recoveryPoint: v.checkpoints.recovery[tp], logStart: v.checkpoints.start[tp], highWatermark: v.checkpoints.hw[tp],
				recovering: recovering})
		}
	}
	return todo, nil
}

// checkpoints are the offsets by partition that a directory's files hold, as they were read or last written.
type checkpoints struct {
	mu                  sync.Mutex // leaf; held while a file is written
	recovery, start, hw map[TopicPartition]int64
	cleaned             map[TopicPartition]int64 // up to where compacted logs are clean; nil until the file has been written
}

func (c *checkpoints) load(fsys vfs.FS, dir string) (err error) {
	if c.recovery, err = readCheckpoint(fsys, filepath.Join(dir, recoveryPointFile)); err != nil {
		return err
	}
	if c.start, err = readCheckpoint(fsys, filepath.Join(dir, logStartFile)); err != nil {
		return err
	}
	c.hw, err = readCheckpoint(fsys, filepath.Join(dir, highWatermarkFile))
	return err
}

// create makes the files that are there from the first start on, empty.
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
	return nil
}

// checkpointOffsets writes the recovery points and log starts of a directory.
func (m *Manager) checkpointOffsets(v *volume) error {
	return errors.Join(m.checkpointRecoveryPoints(v), m.checkpointStarts(v))
}

func (m *Manager) checkpointRecoveryPoints(v *volume) error {
	return m.checkpoint(v, recoveryPointFile, &v.checkpoints.recovery, func(l *Log) (int64, bool) { return l.recovery.Load(), true })
}

// checkpointStarts writes the log starts that the names of the segments don't tell.
func (m *Manager) checkpointStarts(v *volume) error {
	return m.checkpoint(v, logStartFile, &v.checkpoints.start, func(l *Log) (int64, bool) {
		start := l.start.Load()
		return start, start > (*l.segments.Load())[0].base
	})
}

func (m *Manager) checkpointHighWatermarks(v *volume) error {
	return m.checkpoint(v, highWatermarkFile, &v.checkpoints.hw, func(l *Log) (int64, bool) { return l.hw.Load(), true })
}

// checkpoint writes one file of offsets, unless it has them already.
func (m *Manager) checkpoint(v *volume, name string, last *map[TopicPartition]int64, offset func(*Log) (int64, bool)) error {
	if v.failed.Load() {
		return nil
	}
	c := &v.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	offsets := make(map[TopicPartition]int64)
	for _, l := range m.logsOn(v) {
		if o, ok := offset(l); ok {
			offsets[l.tp] = o
		}
	}
	path := filepath.Join(v.path, name)
	if maps.Equal(offsets, *last) && len(offsets) > 0 {
		return nil
	}
	if err := writeCheckpoint(m.cfg.FS, path, offsets); err != nil {
		return err
	}
	*last = offsets
	return nil
}
