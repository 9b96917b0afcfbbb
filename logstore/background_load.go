package logstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Logs are loaded in the background while those already loaded are in use. A partition is loading until its log is
// in the Manager's table. All of its directories become visible in one step, so that nobody sees a log without the copy
// that is being made of it, or only one of the two that a kill during a move has left. Until then the partition has no
// Log, and GetOrCreate does not create one, since that would be a second one.

// ErrLoading reports that a partition's log exists but is not loaded yet. To clients it looks as if this broker were
// not the leader: they retry.
var ErrLoading = fmt.Errorf("log is still being loaded: %w", kerr.NotLeaderForPartition)

// errAbandoned ends the loading of a log that is no longer wanted.
var errAbandoned = errors.New("loading was cancelled")

// loadingLog is a partition whose log is being loaded.
type loadingLog struct {
	tp   TopicPartition
	done chan struct{} // closed when it is no longer loading

	// ctx is derived from the loadRun's, and ends with errAbandoned if the partition is deleted.
	ctx     context.Context
	abandon context.CancelCauseFunc

	// Guarded by Manager.table. Once unread is 0 they belong to the goroutine that has read the last directory, except
	// config.
	dirs   []*loadingDir
	unread int
	config *Config // set meanwhile; nil: not set
}

// urgent reports whether a start waits for the partition: logs that were closed cleanly are available at once, and one
// with two directories may have to be refused.
func (l *loadingLog) urgent() bool {
	plain := 0
	for _, p := range l.dirs {
		if !p.future {
			plain++
		}
	}
	return plain > 1 || !slices.ContainsFunc(l.dirs, func(p *loadingDir) bool { return !p.clean })
}

// toRead returns how many bytes of records must be read.
func (l *loadingLog) toRead() int64 {
	var n int64
	for _, p := range l.dirs {
		n += p.toRead
	}
	return n
}

// loadingDir is one directory of a loadingLog, usually the only one.
type loadingDir struct {
	loadOptions
	of   *loadingLog
	v    *volume
	done atomic.Int64 // bytes of toRead that have been read
	log  *Log         // once loaded; nil: there is none
	// left: the directory stays as it is, although it has no usable log.
	left bool
}

// loadRun is the loading in progress.
type loadRun struct {
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{} // closed when loading is complete
	mu     struct {
		sync.Mutex // leaf
		err        error
	}
}

func newLoadRun() *loadRun {
	in := &loadRun{ended: make(chan struct{})}
	in.ctx, in.cancel = context.WithCancel(context.Background()) // until the Manager is closed
	return in
}

// fail ends the loading, since continuing would do harm.
func (r *loadRun) fail(err error) {
	r.mu.Lock()
	r.mu.err = errors.Join(r.mu.err, err)
	r.mu.Unlock()
	r.cancel()
}

func (r *loadRun) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.err
}

// startLoading begins to load the logs in all directories, several at a time in each.
func (m *Manager) startLoading() error {
	for _, v := range m.disks {
		if v.failed.Load() {
			continue
		}
		found, err := m.partitionsIn(v)
		if err != nil {
			close(m.load.ended)
			return err
		}
		m.registerDirs(v, found)
	}
	m.queueDirs()
	var volumes sync.WaitGroup
	for _, v := range m.disks {
		if v.failed.Load() {
			continue
		}
		if count := len(v.queue); count > 0 {
			volumes.Go(func() { m.loadVolume(m.load.ctx, v, count) })
		} else {
			m.endVolume(v)
		}
	}
	go func() { // ends with the loading
		volumes.Wait()
		close(m.load.ended)
	}()
	return nil
}

// registerDirs registers the partition directories that were found in one of log.dirs.
func (m *Manager) registerDirs(v *volume, found []loadOptions) {
	m.table.Lock()
	defer m.table.Unlock()
	for _, o := range found {
		a := m.table.loading[o.tp]
		if a == nil {
			a = &loadingLog{tp: o.tp, done: make(chan struct{})}
			a.ctx, a.abandon = context.WithCancelCause(m.load.ctx)
			m.table.loading[o.tp] = a
		}
		p := &loadingDir{loadOptions: o, of: a, v: v}
		p.count = func(bytes int64) {
			p.done.Add(bytes)
			v.progress.read(bytes)
		}
		a.dirs = append(a.dirs, p)
		a.unread++
		v.unloaded[o.tp] = true
	}
}

// queueDirs orders the partition directories of each log directory for loading: first those that a start waits for, then
// those that load quickly, so that as many partitions as possible are available early.
func (m *Manager) queueDirs() {
	m.table.Lock()
	defer m.table.Unlock()
	for _, a := range m.table.loading {
		for _, p := range a.dirs {
			p.v.queue = append(p.v.queue, p)
		}
	}
	rank := func(p *loadingDir) int64 {
		if p.of.urgent() {
			return -1
		}
		return p.of.toRead()
	}
	for _, v := range m.disks {
		slices.SortFunc(v.queue, func(a, b *loadingDir) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), a.tp.Compare(b.tp)) })
	}
}

// awaitUrgent waits for the logs that Begin promises to have loaded. It also returns if loading has ended, possibly
// with an error.
func (m *Manager) awaitUrgent(ctx context.Context) error {
	m.table.RLock()
	var urgent []*loadingLog
	for _, a := range m.table.loading {
		if a.urgent() {
			urgent = append(urgent, a)
		}
	}
	m.table.RUnlock()
	for _, a := range urgent {
		select {
		case <-a.done:
		case <-m.load.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return m.load.err()
}

// AwaitLoaded waits until all logs are loaded. An error means that the broker must not go on, because a partition is in
// two directories or no directory is left, or that the Manager was closed.
func (m *Manager) AwaitLoaded(ctx context.Context) error {
	select {
	case <-m.load.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := m.load.err(); err != nil {
		return err
	}
	if len(m.LoadingPartitions()) > 0 {
		return errClosed
	}
	return m.anyLive()
}

// LoadingPartitions returns the partitions whose logs are still being loaded, in no particular order.
func (m *Manager) LoadingPartitions() []TopicPartition {
	m.table.RLock()
	defer m.table.RUnlock()
	return slices.Collect(maps.Keys(m.table.loading))
}

// isLoading reports whether a partition's log is still being loaded.
func (m *Manager) isLoading(tp TopicPartition) bool {
	m.table.RLock()
	defer m.table.RUnlock()
	return m.table.loading[tp] != nil
}

// Partitions returns the partitions with a log in a directory that is online, loaded or not, in no particular order.
func (m *Manager) Partitions() []TopicPartition {
	m.table.RLock()
	defer m.table.RUnlock()
	all := make([]TopicPartition, 0, len(m.table.logs)+len(m.table.loading))
	for tp, l := range m.table.logs {
		if !l.disk.failed.Load() {
			all = append(all, tp)
		}
	}
	for tp := range m.table.loading {
		all = append(all, tp)
	}
	return all
}

// Prioritize makes a partition's log load before others that are still queued.
func (m *Manager) Prioritize(tp TopicPartition) {
	m.table.Lock()
	defer m.table.Unlock()
	a := m.table.loading[tp]
	if a == nil {
		return
	}
	for _, p := range a.dirs {
		if i := slices.Index(p.v.queue, p); i > 0 {
			copy(p.v.queue[1:i+1], p.v.queue[:i])
			p.v.queue[0] = p
		}
	}
}

// next takes a partition directory from a log directory's queue; nil if it is empty or loading was ended.
func (v *volume) next(ctx context.Context, table *sync.RWMutex) *loadingDir {
	table.Lock()
	defer table.Unlock()
	if len(v.queue) == 0 || ctx.Err() != nil {
		return nil
	}
	p := v.queue[0]
	v.queue = v.queue[1:]
	return p
}

// loadVolume loads the logs of one directory, count at a time. Disk faults take it offline and are not an error.
func (m *Manager) loadVolume(ctx context.Context, v *volume, count int) {
	var workers sync.WaitGroup
	for range min(max(m.cfg.RecoveryThreadsPerDir, minThreads), count) {
		workers.Go(func() {
			for p := v.next(ctx, &m.table.RWMutex); p != nil; p = v.next(ctx, &m.table.RWMutex) {
				m.loadDir(p)
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return
	}
	m.endVolume(v)
}

func (m *Manager) endVolume(v *volume) {
	v.progress.end()
	_ = v.fail("create checkpoints", v.checkpoints.create(m.cfg.FS, v.path))
	if !v.wasClean { // recovery may have ended below the stored recovery points, and the file may not exist yet
		_ = v.fail("write checkpoint", m.checkpointRecoveryPoints(v))
	}
}

// loadDir loads a directory, and adds the partition to the table if this was its last one.
func (m *Manager) loadDir(p *loadingDir) {
	m.read(p)
	m.table.Lock()
	p.of.unread--
	last := p.of.unread == 0
	m.table.Unlock()
	if p.log != nil {
		p.v.progress.loadedOne()
	}
	if !last || m.load.ctx.Err() != nil {
		return
	}
	if err := m.settle(p.of); err != nil {
		m.load.fail(err)
		return
	}
	if m.cfg.OnLoaded != nil {
		m.cfg.OnLoaded(p.tp)
	}
}

// read loads one directory. After a disk fault, or if the log is no longer wanted, there is no log; a damaged log
// exists, but is offline.
func (m *Manager) read(p *loadingDir) {
	if p.v.failed.Load() || p.of.ctx.Err() != nil {
		return
	}
	var l *Log
	err := insistWhile(func() bool { return p.of.ctx.Err() == nil }, func() (err error) {
		l, err = load(p.of.ctx, m.env, &p.v.disk, p.loadOptions)
		return err
	})
	p.v.progress.read(p.toRead - p.done.Load()) // what was not read
	logger := m.cfg.Logger.WithError(err).WithFields(logFields(p.tp, p.v.path))
	switch {
	case err == nil:
		p.log = l
	case p.of.ctx.Err() != nil:
	case errors.Is(err, ErrDamaged) && p.future:
		logger.Warn("removing the damaged copy of a log")
		_ = p.v.fail("rename directory of a damaged copy", m.setAside(p))
	case errors.Is(err, ErrDamaged):
		logger.Error("log is damaged and stays offline")
		p.left, p.log = true, m.damaged(p.loadOptions, p.v.path)
	default:
		_ = p.v.failEvenIfFull(fmt.Sprintf("load %v", p.tp), err)
	}
}

// settle adds a partition to the table after all its directories were read.
func (m *Manager) settle(a *loadingLog) error {
	var log *Log
	var copies []*loadingDir
	for _, p := range a.dirs {
		switch {
		case p.log == nil:
		case p.future:
			copies = append(copies, p)
		case log == nil:
			log = p.log
		default:
			var err error
			if log, err = m.resolveDuplicate(log, p.log); err != nil {
				return err
			}
		}
	}
	mv, err := m.resumeMove(log, copies)
	if err != nil {
		return err
	}
	deleted := context.Cause(a.ctx) == errAbandoned
	if deleted {
		m.dropUnread(a)
	}
	for _, l := range []*Log{log, mv.copy()} {
		if l != nil && l.readable() == nil {
			m.keepPromise(l)
		}
	}
	m.admit(a, log, mv)
	if deleted {
		m.forgetUnread(a)
	}
	m.setProducerExpiry(log, mv.copy())
	if log != nil && log.readable() == nil {
		m.clean.consider(log)
	}
	return nil
}

// admit adds a partition's log to the table.
func (m *Manager) admit(a *loadingLog, log *Log, mv *move) {
	m.table.Lock()
	defer m.table.Unlock()
	for _, l := range []*Log{log, mv.copy()} {
		if l != nil && a.config != nil {
			l.UpdateConfig(*a.config)
		}
	}
	if log != nil {
		m.table.logs[a.tp] = log
	}
	if mv != nil {
		m.table.moves[a.tp] = *mv
	}
	for _, p := range a.dirs {
		if !p.left {
			delete(p.v.unloaded, a.tp)
		}
	}
	delete(m.table.loading, a.tp)
	a.abandon(nil) // releases the context
	close(a.done)
}

// keepPromise stores the recovery point of a log that ended below the stored one after recovery: records appended in
// place of the lost ones are not flushed.
func (m *Manager) keepPromise(l *Log) {
	v := m.volumeOf(l)
	_ = v.fail("write checkpoint", m.lowerRecoveryPoint(v, l.tp, l.recovery.Load()))
}

// dropUnread removes the directories of a deleted partition that have not been read.
func (m *Manager) dropUnread(a *loadingLog) {
	for _, p := range a.dirs {
		if p.log == nil && !p.v.failed.Load() {
			_ = p.v.fail("rename directory of deleted partition", m.setAside(p))
		}
	}
}

// forgetUnread removes the partition from the checkpoints: another partition may get its name.
func (m *Manager) forgetUnread(a *loadingLog) {
	for _, p := range a.dirs {
		if p.log == nil {
			_ = p.v.fail("write checkpoint", errors.Join(m.checkpointOffsets(p.v), m.forgetCleaned(p.v, a.tp)))
		}
	}
}

// setAside renames a directory that is not open, and schedules its removal after log.segment.delete.delay.ms.
func (m *Manager) setAside(p *loadingDir) error {
	dir := filepath.Join(p.v.path, deletedDirName(p.tp))
	err := m.cfg.FS.Rename(p.dir, dir)
	if errors.Is(err, fs.ErrNotExist) { // it has been set aside already
		return nil
	}
	if err != nil {
		return err
	}
	m.removeDirLater(dir)
	return nil
}

// abandon ends the loading of a partition that is to be deleted. When it returns, either its log is in the table or it
// has none.
func (m *Manager) abandon(tp TopicPartition) error {
	m.table.Lock()
	a := m.table.loading[tp]
	var idle []*loadingDir
	if a != nil {
		a.abandon(errAbandoned)
		for _, p := range a.dirs { // not begun yet: no need to wait for their turn
			if i := slices.Index(p.v.queue, p); i >= 0 {
				p.v.queue = slices.Delete(p.v.queue, i, i+1)
				idle = append(idle, p)
			}
		}
	}
	m.table.Unlock()
	if a == nil {
		return nil
	}
	for _, p := range idle {
		m.loadDir(p)
	}
	select {
	case <-a.done:
	case <-m.load.ended:
		if m.isLoading(tp) { // it was ended before its turn came
			return errClosed
		}
	}
	return nil
}

// endLoading ends the loading. Logs that are not loaded are left as they are, for another start.
func (m *Manager) endLoading() {
	m.load.cancel()
	<-m.load.ended
	m.table.Lock()
	defer m.table.Unlock()
	for _, a := range m.table.loading {
		for _, p := range a.dirs {
			if p.log != nil && !p.log.closed.Load() {
				p.log.releaseAll()
			}
		}
	}
}

// unloadedIn describes the logs in a directory that are not loaded yet.
func (m *Manager) unloadedIn(v *volume) []LogInfo {
	m.table.RLock()
	defer m.table.RUnlock()
	var infos []LogInfo
	for _, a := range m.table.loading {
		for _, p := range a.dirs {
			if p.v == v {
				infos = append(infos, LogInfo{TopicPartition: a.tp, Size: p.size, Future: p.future})
			}
		}
	}
	return infos
}
