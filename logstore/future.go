package logstore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"barnabas/internal/logx"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A future log is a copy of a partition's log in another directory, which replaces the log once it has caught up
// (KIP-113). Until then its directory is called topic-partition.<32 hex digits>-future. Meanwhile neither of the two is
// compacted, since they would differ.

// move is a log being moved to another directory.
type move struct {
	future  *Log
	release func() // allows both to be compacted again
}

// renamedDir returns a name for a partition directory that is not in use: topic-partition.<32 hex digits> and a suffix.
func renamedDir(tp TopicPartition, suffix string) string {
	var unique [16]byte
	_, _ = rand.Read(unique[:]) // never fails
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition)) + "." + hex.EncodeToString(unique[:]) + suffix
}

// Future returns the copy of a partition's log that is being made in another directory.
func (m *Manager) Future(tp TopicPartition) (*Log, bool) {
	m.table.RLock()
	defer m.table.RUnlock()
	mv, ok := m.table.moves[tp]
	return mv.future, ok
}

// MoveTo begins to move a partition's log to dir, one of log.dirs. It returns the copy that has to be filled, or nil if
// the log is in dir already. A copy in a third directory is dropped. Nobody may be writing to the copy meanwhile.
//
// Errors: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, INVALID_TOPIC_EXCEPTION if the name is too long for a copy, and
// REPLICA_NOT_AVAILABLE if there is no log: then it will be created in dir. (ReplicaManager.alterReplicaLogDirs, 3.9)
func (m *Manager) MoveTo(tp TopicPartition, dir string) (*Log, error) {
	name := renamedDir(tp, futureDir)
	if len(name) > maxDirName {
		return nil, fmt.Errorf("topic name %s is too long for its partitions to be moved: %w", tp.Topic, kerr.InvalidTopicException)
	}
	v, err := m.volumeAt(dir)
	if err != nil {
		return nil, err
	}
	release := func() {}
	if l, ok := m.Log(tp); ok { // before other creations and deletions have to wait
		release = l.cleaning.hold()
	}
	future, taken, err := m.moveTo(tp, v, name, release)
	if !taken {
		release()
	}
	return future, err
}

func (m *Manager) moveTo(tp TopicPartition, v *volume, name string, release func()) (future *Log, taken bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		return nil, false, errClosed
	}
	if m.isLoading(tp) {
		return nil, false, fmt.Errorf("%v is still being loaded: %w", tp, kerr.ReplicaNotAvailable)
	}
	l, ok := m.Log(tp)
	if !ok {
		m.preferDir(tp, v)
		return nil, false, fmt.Errorf("%v is not hosted here yet: %w", tp, kerr.ReplicaNotAvailable)
	}
	if err := l.disk.usable(); err != nil {
		return nil, false, err
	}
	if f, ok := m.Future(tp); ok && f.disk == &v.disk {
		return f, false, nil
	}
	if err := m.dropFutureLocked(tp); err != nil {
		return nil, false, err
	}
	if l.disk == &v.disk {
		return nil, false, nil
	}
	f, err := m.createIn(v, name, tp, l.TopicID(), l.Config())
	if err != nil {
		return nil, false, v.fail("create future log", err)
	}
	m.setMove(tp, &move{f, both(release, f.cleaning.hold())})
	for cfg := l.Config(); cfg != f.Config(); cfg = l.Config() { // SetConfig could not find the copy until now
		f.UpdateConfig(cfg)
	}
	m.setProducerExpiry(f)
	l.logger.WithField(logx.Value, v.path).Info("moving log to another directory")
	return f, true, nil
}

func both(a, b func()) func() {
	return func() {
		a()
		b()
	}
}

// volumeAt returns the directory with a path, which must be spelled as in DirInfo.
func (m *Manager) volumeAt(dir string) (*volume, error) {
	for _, v := range m.disks {
		if v.path == dir {
			return v, v.usable()
		}
	}
	return nil, fmt.Errorf("%s is not one of log.dirs: %w", dir, kerr.LogDirNotFound)
}

// setMove records a move, or with nil that there is none.
func (m *Manager) setMove(tp TopicPartition, mv *move) {
	m.table.Lock()
	defer m.table.Unlock()
	if mv == nil {
		delete(m.table.moves, tp)
		return
	}
	m.table.moves[tp] = *mv
}

// DropFuture aborts a move. It is not an error if the partition is not being moved.
func (m *Manager) DropFuture(tp TopicPartition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropFutureLocked(tp)
}

func (m *Manager) dropFutureLocked(tp TopicPartition) error {
	m.table.RLock()
	mv, ok := m.table.moves[tp]
	m.table.RUnlock()
	if !ok {
		return nil
	}
	f := mv.future
	defer mv.release()
	if f.disk.failed.Load() { // a later start finds it
		m.setMove(tp, nil)
		f.releaseAll()
		return nil
	}
	if err := m.discard(f); err != nil {
		return err
	}
	m.setMove(tp, nil)
	v := m.volumeOf(f)
	return v.fail("write checkpoint", errors.Join(m.checkpointOffsets(v), m.dropCleaned(v, tp)))
}

// Replace replaces a partition's log with its copy, which it returns. The two must have the same end, and nobody may be
// writing to either. The old log is closed, and its directory removed after log.segment.delete.delay.ms.
//
// A kill between the two renames leaves two directories for the partition. The next start completes the move, but
// Apache Kafka does not start on them, so between them is only what a power cut requires: the first is made durable.
func (m *Manager) Replace(tp TopicPartition) (*Log, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.RLock()
	mv, moving := m.table.moves[tp]
	old := m.table.logs[tp]
	m.table.RUnlock()
	if !moving || old == nil {
		return nil, fmt.Errorf("%v is not being moved: %w", tp, kerr.ReplicaNotAvailable)
	}
	if err := mv.future.settle(old); err != nil {
		return nil, err
	}
	to := m.volumeOf(mv.future)
	err := errors.Join(m.copyCleaned(old, mv.future), m.checkpointOffsets(to), m.checkpointHighWatermarks(to))
	if err := to.fail("write checkpoint", err); err != nil {
		return nil, err
	}
	if err := mv.future.takePlace(); err != nil {
		return nil, err
	}
	discarded := m.discard(old) // errors have been reported; the new log is in place
	m.table.Lock()
	m.table.logs[tp] = mv.future
	delete(m.table.moves, tp)
	m.table.Unlock()
	mv.release()
	m.leave(old, discarded == nil)
	m.clean.consider(mv.future)
	mv.future.logger.WithField(logx.Value, old.disk.path).Info("moved log from another directory")
	return mv.future, nil
}

// settle completes a future log: it takes over what the copied records do not contain.
func (l *Log) settle(old *Log) error {
	if end, want := l.LogEndOffset(), old.LogEndOffset(); end != want {
		return fmt.Errorf("the copy of %v in %s ends at %d, not at %d", l.tp, l.disk.path, end, want)
	}
	if epoch, ok := old.LatestEpoch(); ok { // which may have no records yet
		if err := l.AssignEpochStart(epoch, old.epochs.start(epoch)); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	l.SetHighWatermark(old.HighWatermark())
	return nil
}

// takePlace gives the directory of a future log the partition's name.
func (l *Log) takePlace() error {
	l.mu.Lock()
	err := l.renameLocked(filepath.Join(l.disk.path, l.tp.String()))
	l.mu.Unlock()
	if err == nil {
		err = l.env.fs.SyncDir(l.disk.path)
	}
	return l.disk.fail("rename directory of moved partition", err)
}

// leave removes the manager's state for a log that was replaced from its directory, if it has gone from there.
func (m *Manager) leave(old *Log, gone bool) {
	if !gone {
		old.releaseAll()
		return
	}
	from := m.volumeOf(old)
	_ = from.fail("write checkpoint", errors.Join(m.checkpointOffsets(from), m.forgetCleaned(from, old.tp)))
}

// copy returns the copy that a move makes; nil without a move.
func (mv *move) copy() *Log {
	if mv == nil {
		return nil
	}
	return mv.future
}

// resumeMove returns the move of a log if a copy of it was found at the start. A copy without its log is useless,
// unless the log is in a directory that is offline.
func (m *Manager) resumeMove(l *Log, copies []*loadingDir) (mv *move, err error) {
	for _, p := range copies {
		f := p.log
		switch {
		case l != nil && mv == nil && l.disk != f.disk:
			mv = &move{f, both(l.cleaning.hold(), f.cleaning.hold())}
			f.logger.Info("resuming the move of a log to this directory")
		case l == nil && m.liveDisks() < len(m.disks):
			f.logger.Warn("keeping the copy of a log that may be in an offline directory")
			f.releaseAll()
			p.left = true
		default:
			f.logger.Warn("removing the copy of a log that is not being moved")
			if err := m.discard(f); err != nil && !errors.Is(err, kerr.KafkaStorageError) {
				return mv, err
			}
		}
	}
	return mv, nil
}

// resolveDuplicate keeps one of two logs that a kill has left of a partition whose copy was about to replace its log.
// If they may have another origin, nothing is removed and it returns an error.
func (m *Manager) resolveDuplicate(keep, drop *Log) (kept *Log, err error) {
	if drop.succeeds(keep) {
		keep, drop = drop, keep
	}
	if !keep.contains(drop) {
		return nil, fmt.Errorf("%v is in %s and in %s: remove one of the two directories", keep.tp, keep.disk.path, drop.disk.path)
	}
	keep.logger.WithField(logx.Value, drop.disk.path).Warn("completing the interrupted move of a log to this directory")
	if err := m.discard(drop); err != nil && !errors.Is(err, kerr.KafkaStorageError) {
		return nil, err
	}
	return keep, nil
}

// succeeds reports whether a log is the complete copy of another one; if both end alike, the one that was written later
// is the copy.
func (l *Log) succeeds(other *Log) bool {
	if end, theirs := l.LogEndOffset(), other.LogEndOffset(); end != theirs {
		return end > theirs
	}
	written, err := l.active().modified()
	theirs, theirErr := other.active().modified()
	return err == nil && theirErr == nil && written > theirs
}

// contains reports whether a log has everything that another log of the same partition has, according to their leader
// epochs.
func (l *Log) contains(other *Log) bool {
	if l.readable() != nil || other.readable() != nil || l.TopicID() != other.TopicID() {
		return false
	}
	epoch, ok := other.LatestEpoch()
	if !ok {
		_, any := l.LatestEpoch()
		return !any || other.LogEndOffset() == 0
	}
	found, end := l.EndOffsetForEpoch(epoch)
	return found == epoch && end >= other.LogEndOffset()
}

// CatchUp copies records to this copy from the original log, as many as fit into the buffer but at least one batch, and
// returns the number of bytes, 0 if the copy is complete. What the log has lost at either end since the last call is
// removed from the copy too. Nobody else may be writing to the copy or truncating the log. The returned buffer may have
// grown.
func (l *Log) CatchUp(of *Log, buf []byte) (copied int, grown []byte, err error) {
	if err := l.align(of); err != nil {
		return 0, buf, err
	}
	end := of.LogEndOffset()
	r, err := of.Read(l.LogEndOffset(), int32(cap(buf)), end, true)
	if err != nil {
		return 0, buf, err
	}
	data, err := r.Append(buf[:0])
	r.Close()
	if err != nil {
		return 0, buf, of.readFailure(l.LogEndOffset(), err)
	}
	if len(data) == 0 {
		err = l.skipTo(end)
	} else if _, err = l.AppendFollower(data); err == nil {
		copied = len(data)
	}
	if err == nil {
		err = l.follow(of)
	}
	return copied, data, err
}

// align truncates what the log does not have, according to its leader epochs, and restarts at its start if the copy
// ends below.
func (l *Log) align(of *Log) error {
	if start := of.LogStartOffset(); l.LogEndOffset() < start {
		return l.TruncateFullyAndStartAt(start)
	}
	if end := l.commonEnd(of); end < l.LogEndOffset() {
		return l.TruncateTo(end)
	}
	return nil
}

// commonEnd returns the offset up to which a copy agrees with the log (KIP-279).
func (l *Log) commonEnd(of *Log) int64 {
	end := min(l.LogEndOffset(), of.LogEndOffset())
	for epoch, ok := l.LatestEpoch(); ok; {
		theirs, theirEnd := of.EndOffsetForEpoch(epoch)
		if theirs < 0 {
			return min(end, max(of.HighWatermark(), l.LogStartOffset()))
		}
		end = min(end, theirEnd)
		if theirs == epoch {
			break
		}
		ours, ourEnd := l.EndOffsetForEpoch(theirs)
		if end = min(end, max(ourEnd, l.LogStartOffset())); ours >= epoch {
			break
		}
		epoch, ok = ours, ours >= 0
	}
	return end
}

// follow moves the high watermark and the log start offset to those of the log.
func (l *Log) follow(of *Log) error {
	hw := l.SetHighWatermark(of.HighWatermark())
	if start := of.LogStartOffset(); start > l.LogStartOffset() && start <= hw {
		return l.AdvanceLogStart(start)
	}
	return nil
}

// skipTo advances the end to offset, leaving a gap, as compaction may have left it in the log.
func (l *Log) skipTo(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if offset <= l.end.offset.Load() {
		return nil
	}
	return l.disk.fail("roll segment", l.rollLocked(offset))
}
