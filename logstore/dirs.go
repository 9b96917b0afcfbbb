package logstore

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

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
func (m *Manager) damaged(o loadOptions, path string) *Log {
	d := &disk{path: path, report: func(*disk, error) {}, now: m.cfg.Now}
	d.failed.Store(true)
	ld := loader{loadOptions: o, env: m.env}
	l := ld.newLog(d)
	l.setSegmentsLocked([]*segment{newSegment(m.env.fs, o.dir, 0, 0, &o.cfg, m.cfg.Now())})
	return l
}

// partitionsIn lists the logs to load from a directory, and schedules the removal of those of deleted partitions.
func (m *Manager) partitionsIn(v *volume) ([]loadOptions, error) {
	entries, err := m.cfg.FS.ReadDir(v.path)
	if err != nil {
		_ = v.fail("list log directory", err)
		return nil, nil
	}
	var todo []loadOptions
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
			o := loadOptions{tp: tp, dir: dir, future: kind == futureOne, cfg: m.cfg.Topic(tp.Topic), clean: v.wasClean, recovering: recovering}
			v.checkpoints.describe(&o)
			todo = append(todo, o)
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
func (m *Manager) measureAll(todo []loadOptions) {
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
func (o *loadOptions) measure(fsys vfs.FS) {
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
