package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"barnabas/internal/logx"
	"barnabas/internal/vfs"

	"github.com/sirupsen/logrus"
)

// volume is one of log.dirs with the manager's state for it.
type volume struct {
	disk
	lock io.Closer
	// wasClean: the last shutdown was clean, or there was none.
	wasClean    bool
	checkpoints checkpoints
	progress    *dirProgress // set once it is known what has to be loaded

	// Guarded by Manager.table.
	queue []*loadingDir // to be loaded, next first
	// unloaded are the partitions that have a directory here but no log in the table: it is not loaded yet, or cannot
	// be.
	unloaded map[TopicPartition]bool
}

func (m *Manager) prepareAll() error {
	for _, dir := range m.cfg.Dirs {
		v := &volume{unloaded: make(map[TopicPartition]bool)}
		v.path, v.report, v.reportSpace, v.now = filepath.Clean(dir), m.dirFailed, m.spaceChanged, m.cfg.Now
		v.reportFiles = m.starved
		v.space.min = m.cfg.MinFreeBytes
		m.disks = append(m.disks, v)
		if err := m.prepare(v); err != nil {
			return err
		}
	}
	return nil
}

// anyLive returns an error if no directory is left.
func (m *Manager) anyLive() error {
	if m.liveDisks() == 0 {
		return fmt.Errorf("%w: log.dirs is %v", ErrNoDirs, m.cfg.Dirs)
	}
	return nil
}

func (m *Manager) liveDisks() int {
	n := 0
	for _, v := range m.disks {
		if !v.failed.Load() {
			n++
		}
	}
	return n
}

// prepare locks a directory and claims it for this broker. Disk faults take it offline and are not an error.
func (m *Manager) prepare(v *volume) error {
	err := m.cfg.FS.MkdirAll(v.path)
	if err == nil {
		v.lock, err = m.cfg.FS.Lock(filepath.Join(v.path, lockFile))
	}
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("log directory %s is in use by another broker: %w", v.path, err)
	}
	if err == nil {
		err = checkMeta(m.cfg.FS, v.path, Meta{m.cfg.BrokerID, m.cfg.ClusterID}, m.cfg.Now())
	}
	if errors.Is(err, ErrWrongMeta) {
		return err
	}
	if err == nil {
		err = v.begin(m.cfg.FS, m.cfg.Logger)
	}
	_ = v.failEvenIfFull("open log directory", err)
	return nil
}

// begin removes the clean-shutdown mark and reads the checkpoints.
func (v *volume) begin(fsys vfs.FS, logger *logrus.Entry) error {
	mark := filepath.Join(v.path, cleanFile)
	_, err := fsys.Stat(mark)
	v.wasClean = err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if v.wasClean {
		if err := fsys.Remove(mark); err != nil {
			return err
		}
		if err := fsys.SyncDir(v.path); err != nil { // if the mark came back after a crash, it would hide what must be recovered
			return err
		}
	}
	return v.checkpoints.load(fsys, v.path, logger)
}

// dirFailed is called once for each directory that fails.
func (m *Manager) dirFailed(d *disk, err error) {
	m.cfg.Logger.WithError(err).WithField(logx.Dir, d.path).Error("log directory failed and is offline")
	if m.cfg.OnDirFailure == nil {
		return
	}
	m.failures.Go(func() { m.cfg.OnDirFailure(d.path, err) })
}

// spaceChanged is called when a directory begins or ceases to reject clients' records.
func (m *Manager) spaceChanged(d *disk, low bool) {
	logger := m.cfg.Logger.WithField(logx.Dir, d.path)
	if _, usable, err := m.cfg.FS.Usage(d.path); err == nil {
		logger = logger.WithField(logx.SizeBytes, usable)
	}
	if low {
		logger.Error("log directory has no room left, refusing records until there is some")
		return
	}
	logger.Info("log directory has room again")
	m.shortageOver(d)
}

// starved is called when a file of a directory could not be opened since too many are open.
func (m *Manager) starved(d *disk, err error) {
	m.cfg.Logger.WithError(err).WithField(logx.Dir, d.path).Error("too many open files: operations fail until some are closed")
}

// fed is called when files can be opened again.
func (m *Manager) fed(d *disk) {
	m.cfg.Logger.WithField(logx.Dir, d.path).Info("files can be opened again")
	m.shortageOver(d)
}

// shortageOver has what was refused meanwhile asked for again.
func (m *Manager) shortageOver(d *disk) {
	if m.cfg.OnSpaceFreed != nil {
		m.failures.Go(func() { m.cfg.OnSpaceFreed(d.path) })
	}
}

func (m *Manager) volumeOf(l *Log) *volume {
	i := slices.IndexFunc(m.disks, func(v *volume) bool { return &v.disk == l.disk })
	return m.disks[i]
}

// OfflineDirs returns the directories that have failed.
func (m *Manager) OfflineDirs() []string {
	var dirs []string
	for _, v := range m.disks {
		if v.failed.Load() {
			dirs = append(dirs, v.path)
		}
	}
	return dirs
}

// FullDirs returns the directories that are online but reject clients' records, since there is too little room.
func (m *Manager) FullDirs() []string {
	var dirs []string
	for _, v := range m.disks {
		if !v.failed.Load() && v.space.low.Load() {
			dirs = append(dirs, v.path)
		}
	}
	return dirs
}

// minThreads is the minimum number of logs in a directory that are opened or closed at a time: that mostly waits for
// the disk. Logs that are read at length are limited to num.recovery.threads.per.data.dir.
const minThreads = 8

// closeVolume closes the logs of a directory and writes the clean-shutdown mark, unless the directory has failed.
func (m *Manager) closeVolume(v *volume) error {
	logs, unloaded := m.contentsOf(v)
	err := parallel(logs, max(m.cfg.RecoveryThreadsPerDir, minThreads), func(l *Log) error { return l.close() })
	if v.failed.Load() {
		for _, l := range logs {
			l.releaseAll()
		}
		return nil // has been reported
	}
	if err != nil {
		return err
	}
	if err := v.fail("write checkpoint", m.checkpointOffsets(v)); err != nil {
		return err
	}
	if len(unloaded) > 0 {
		m.cfg.Logger.WithFields(logrus.Fields{logx.Dir: v.path, logx.Count: len(unloaded)}).Warn("not all logs were loaded, the next start will recover the directory")
		return nil
	}
	return v.fail("write the mark of a clean stop", vfs.WriteFile(m.cfg.FS, filepath.Join(v.path, cleanFile), []byte(cleanContent)))
}

// unlock releases the directories.
func (m *Manager) unlock() {
	for _, v := range m.disks {
		if v.lock == nil {
			continue
		}
		_ = m.cfg.FS.Remove(filepath.Join(v.path, lockFile)) // an empty file that is left does no harm
		_ = v.lock.Close()
		v.lock = nil
	}
}
