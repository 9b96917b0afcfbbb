package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/internal/logx"
	"barnabas/internal/uuid"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// env is what logs need from their owner.
type env struct {
	fs             *openFiles
	now            func() time.Time
	logger         *logrus.Entry
	producerExpiry atomic.Int64  // ns; for new logs
	guards         atomic.Uint64 // the last one issued: they are unique across all logs
	rejections     Rejections
	// later runs fn after the delay, unless the owner is closed before.
	later func(delay time.Duration, fn func())
	// rolled is called when a log has a closed segment, to flush and perhaps to compact. It must not block.
	rolled func(*Log)
	// saveOffsets stores the recovery point and the start offset of a log.
	saveOffsets func(*Log) error
	// truncated stores the same after a truncation has lowered them, and the offset up to which the log is compacted.
	truncated func(*Log) error
	// flushed is called with the time that flushing a segment took; may be nil.
	flushed func(took time.Duration)
}

// Log is the log of one partition. All methods are safe for concurrent use.
//
// After its directory has failed, every call returns an error that wraps kerr.KafkaStorageError.
type Log struct {
	tp     TopicPartition
	env    *env
	disk   *disk
	logger *logrus.Entry
	epochs *epochCache

	config   atomic.Pointer[Config]
	segments atomic.Pointer[[]*segment] // by base, never empty, never modified in place
	end      endMark
	start    atomic.Int64
	hw       atomic.Int64
	unstable atomic.Int64 // first unstable offset; -1: none
	recovery atomic.Int64 // everything below is flushed
	// unflushed counts the records appended since the last flush.
	unflushed atomic.Int64
	flushedAt atomic.Pointer[time.Time] // with the monotonic clock: flush.ms does not depend on the wall clock

	mu struct {
		sync.Mutex
		dir       string
		topicID   [16]byte
		producers *producerTable
		snaps     snapshots
		// restored is the log end offset at the time when the producer state was last restored. Until the high
		// watermark has reached it, it is unknown which transactions have markers above the high watermark: snapshots
		// do not contain them.
		restored int64
	}
	// closed is set once, with mu held: the log was closed or its partition deleted.
	closed atomic.Bool
	// placed: the name of the directory is durable.
	placed atomic.Bool
	// dropped: retention has dropped segments, and a crash may bring back some of them.
	dropped atomic.Bool
	// cuts counts truncations, drops and renames, before and after each: a reader that saw something odd looks again if
	// it has changed.
	cuts atomic.Int64
	// cleaning keeps compaction apart from operations that remove segments.
	cleaning cleanGuard
	// flushing is held during a flush, which does not hold mu, so that a flush cannot end before an earlier one.
	flushing sync.Mutex
	// waiting is set while an ended transaction waits for the high watermark.
	waiting atomic.Bool
}

// errClosed is the error of calls on a log after its manager was closed or its partition deleted.
var errClosed = fmt.Errorf("log is closed: %w", kerr.KafkaStorageError)

// endMark publishes the end of the log: the offset after its last record, and the segment and position where it is.
// There is one writer; readers need no lock.
type endMark struct {
	seq      atomic.Uint64 // odd while it is being changed
	offset   atomic.Int64
	base     atomic.Int64 // of the active segment
	position atomic.Int64
}

func (e *endMark) store(offset, base, position int64) {
	e.seq.Add(1)
	e.offset.Store(offset)
	e.base.Store(base)
	e.position.Store(position)
	e.seq.Add(1)
}

func (e *endMark) load() (offset, base, position int64) {
	for {
		before := e.seq.Load()
		offset, base, position = e.offset.Load(), e.base.Load(), e.position.Load()
		if before&1 == 0 && e.seq.Load() == before {
			return offset, base, position
		}
	}
}

// TopicPartition returns the log's partition.
func (l *Log) TopicPartition() TopicPartition { return l.tp }

// Dir returns the log directory, one of log.dirs, that contains the log.
func (l *Log) Dir() string { return l.disk.path }

// Usable returns an error that wraps kerr.KafkaStorageError after the log's directory has failed.
func (l *Log) Usable() error { return l.disk.usable() }

// LogStartOffset returns the first offset that can be read.
func (l *Log) LogStartOffset() int64 { return l.start.Load() }

// LogEndOffset returns the offset that the next record gets.
func (l *Log) LogEndOffset() int64 { return l.end.offset.Load() }

// HighWatermark returns the offset below which all records are on all in-sync replicas, as set by SetHighWatermark.
func (l *Log) HighWatermark() int64 { return l.hw.Load() }

// SetHighWatermark sets the high watermark, limited to the log's range, and returns its new value.
func (l *Log) SetHighWatermark(offset int64) int64 {
	offset = min(max(offset, l.start.Load()), l.end.offset.Load())
	if l.hw.Swap(offset) != offset && l.waiting.Load() {
		l.mu.Lock()
		l.mu.producers.replicated(offset)
		l.refreshUnstableLocked()
		l.mu.Unlock()
	}
	return offset
}

// LastStableOffset returns the offset below which no transaction is open; it is at most the high watermark.
func (l *Log) LastStableOffset() int64 {
	hw := l.hw.Load()
	if first := l.unstable.Load(); first >= 0 {
		return min(max(first, l.start.Load()), hw)
	}
	return hw
}

func (l *Log) refreshUnstableLocked() {
	l.unstable.Store(l.mu.producers.firstUnstable())
	l.waiting.Store(len(l.mu.producers.done) > 0)
}

// Size returns the total size of all segments in bytes.
func (l *Log) Size() int64 {
	var size int64
	for _, s := range *l.segments.Load() {
		size += s.size.Load()
	}
	return size
}

// RecoveryPoint returns the offset below which everything is known to be on disk.
func (l *Log) RecoveryPoint() int64 { return l.recovery.Load() }

// Config returns the current configuration.
func (l *Log) Config() Config { return *l.config.Load() }

// UpdateConfig replaces the configuration.
func (l *Log) UpdateConfig(cfg Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.config.Swap(&cfg)
	if old.Magic == cfg.Magic || l.usableLocked() != nil {
		return
	}
	log := l.logger.WithFields(map[string]any{logx.Format: cfg.Magic, logx.OldFormat: old.Magic})
	if cfg.Magic < old.Magic {
		log.Warn("the message format of a log was lowered: it may contain newer messages, which old clients get unconverted")
	}
	if err := l.disk.fail("drop leader epochs", l.epochs.setFormat(cfg.Magic)); err != nil {
		log.WithError(err).Error("cannot drop the leader epochs of a log")
	}
}

// TopicID returns the id of the topic, zero if it is unknown.
func (l *Log) TopicID() [16]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.topicID
}

// SetTopicID stores the topic's id. An id that differs from the stored one is refused: kerr.InconsistentTopicID.
func (l *Log) SetTopicID(id [16]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	switch l.mu.topicID {
	case id:
		return nil
	case [16]byte{}:
	default:
		return fmt.Errorf("%v has topic id %s, not %s: %w", l.tp, uuid.Text(l.mu.topicID), uuid.Text(id), kerr.InconsistentTopicID)
	}
	if err := writePartitionMetadata(l.env.fs, l.mu.dir, id); err != nil {
		return l.disk.fail("write partition metadata", err)
	}
	l.mu.topicID = id
	return nil
}

// usableLocked returns an error if the log can no longer be changed.
func (l *Log) usableLocked() error { return l.readable() }

// active returns the segment that is appended to.
func (l *Log) active() *segment {
	segments := *l.segments.Load()
	return segments[len(segments)-1]
}

// publishEndLocked makes what the active segment contains below offset visible to readers.
func (l *Log) publishEndLocked(offset int64) {
	s := l.active()
	l.end.store(offset, s.base, s.size.Load())
}

// rollLocked closes the active segment and begins another one at base, or at the log end offset if that is higher.
func (l *Log) rollLocked(base int64) error {
	cfg := l.config.Load()
	old := l.active()
	base = max(base, l.end.offset.Load())
	if old.base == base && old.size.Load() == 0 {
		return nil // it is the segment that is wanted
	}
	if err := old.finish(); err != nil {
		return err
	}
	if l.recovery.Load() >= l.end.offset.Load() { // no flush will include it again, but finish has added to its index
		if err := old.sync(); err != nil {
			return err
		}
	}
	now := l.env.now()
	s, err := createSegment(l.env.fs, l.mu.dir, base, cfg, now)
	if err != nil {
		return l.unrollLocked(old, base, err)
	}
	s.jitter = rollJitter(cfg)
	l.mu.producers.end = base
	if err := l.snapshotIfRoomLocked(); err != nil {
		s.release()
		return l.unrollLocked(old, base, err)
	}
	l.setSegmentsLocked(append(l.segmentsLocked(), s))
	l.publishEndLocked(base)
	l.env.rolled(l)
	return nil
}

// unrollLocked removes the file of a segment that cannot be used because of an error, which it returns. The log goes on
// with the old segment, and a load would take what is appended to that for beyond its end.
func (l *Log) unrollLocked(old *segment, base int64, why error) error {
	old.named.Store(false) // a flush may have made the name durable just now: the next one makes durable that it is gone
	err := l.env.fs.Remove(filepath.Join(l.mu.dir, fileName(base, logSuffix)))
	if err = ignoreNotExist(err); err != nil {
		return l.disk.failEvenIfFull("remove segment", err)
	}
	return why
}

// segmentsLocked returns a copy of the list with room for one more.
func (l *Log) segmentsLocked() []*segment {
	old := *l.segments.Load()
	return append(make([]*segment, 0, len(old)+1), old...)
}

func (l *Log) setSegmentsLocked(segments []*segment) { l.segments.Store(&segments) }

// rollJitter spreads the rolls of logs that were created at the same time.
func rollJitter(cfg *Config) time.Duration {
	limit := min(cfg.SegmentJitter, cfg.SegmentAge)
	if limit <= 0 {
		return 0
	}
	return rand.N(limit)
}

// Roll closes the active segment, unless it is empty, and begins another one.
func (l *Log) Roll() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	return l.disk.fail("roll segment", l.rollLocked(l.end.offset.Load()))
}

// Flush makes everything appended so far durable and advances the recovery point.
func (l *Log) Flush() error { return l.flush(l.appended(), false) }

// appended returns the log end offset once everything belonging to the batches below it is written, including aborted
// transactions.
func (l *Log) appended() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end.offset.Load()
}

// flush makes everything below offset durable; if all is set, also an empty active segment.
func (l *Log) flush(offset int64, all bool) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	from := l.recovery.Load()
	if offset <= from && !all {
		return nil
	}
	err := l.whereverItIs(func() error {
		if err := l.syncSegments(from, offset, all); err != nil {
			return err
		}
		return syncFile(l.env.fs, l.snapshotPath(offset))
	})
	if tooManyFiles(err) { // what could not be opened is synced the next time
		return l.disk.fail("flush", err)
	}
	if err != nil {
		return l.disk.failEvenIfFull("flush", err)
	}
	l.recovery.Store(max(offset, from))
	l.unflushed.Store(l.end.offset.Load() - offset)
	l.flushedAt.Store(new(l.env.now()))
	return nil
}

// whereverItIs calls fn, which needs files of the log but not its lock. If one is missing because the directory has been
// renamed meanwhile, it calls fn again; if the partition has been deleted, the error is errClosed.
func (l *Log) whereverItIs(fn func() error) error {
	for {
		cuts := l.cuts.Load()
		err := fn()
		switch {
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case l.cutSince(cuts):
		case l.closed.Load():
			return errClosed
		default:
			return err
		}
	}
}

func (l *Log) snapshotPath(offset int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.snaps.path(offset)
}

// syncSegments syncs the segments with offsets in [from, to), and their names.
func (l *Log) syncSegments(from, to int64, all bool) (err error) {
	segments := *l.segments.Load()
	var fresh []*segment
	defer func() {
		if err != nil {
			for _, s := range fresh {
				s.named.Store(false)
			}
		}
	}()
	for i, s := range segments {
		last := i == len(segments)-1
		if !last && segments[i+1].base <= from || s.base >= to && !all {
			continue
		}
		if !s.acquire() {
			continue // dropped in between
		}
		err := l.syncSegment(s)
		s.release()
		if err != nil {
			return err
		}
		if !s.named.Swap(true) { // set before it is true, since an append may reset it meanwhile
			fresh = append(fresh, s)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return l.syncNames()
}

// syncSegment syncs a segment, which stays meanwhile.
func (l *Log) syncSegment(s *segment) error {
	began := l.env.now()
	if err := l.disk.fail("write transaction index", s.txns.write()); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	if l.env.flushed != nil {
		l.env.flushed(l.env.now().Sub(began))
	}
	return nil
}

// syncNames makes the names of the log's files durable, and the first time that of its directory.
func (l *Log) syncNames() error {
	err := l.whereverItIs(func() error { return l.env.fs.SyncDir(l.path()) })
	if err != nil {
		return err
	}
	if l.placed.Load() {
		return nil
	}
	if err := l.env.fs.SyncDir(l.disk.path); err != nil {
		return err
	}
	l.placed.Store(true)
	return nil
}

// path returns the partition's directory.
func (l *Log) path() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.dir
}

// flushDue reports whether flush.ms has passed with something to flush.
func (l *Log) flushDue(now time.Time) bool {
	cfg := l.config.Load()
	return cfg.FlushInterval >= 0 && l.unflushed.Load() > 0 &&
		now.Sub(*l.flushedAt.Load()) >= cfg.FlushInterval
}

// close completes a clean shutdown: it takes a producer snapshot, trims the indexes, syncs everything and closes the
// files.
func (l *Log) close() error {
	if err := l.finish(); err != nil {
		return err
	}
	if err := l.flush(l.end.offset.Load(), true); err != nil {
		return err
	}
	l.releaseAll()
	return nil
}

// finish prevents further changes and writes what a clean shutdown leaves behind.
func (l *Log) finish() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	l.closed.Store(true)
	if err := l.active().finish(); err != nil { // first: it makes room for what follows
		return l.disk.fail("close segment", err)
	}
	if err := l.epochs.flush(); err != nil {
		return l.disk.fail("write leader epochs", err)
	}
	if l.mu.producers.end > 0 {
		if err := l.mu.snaps.take(l.mu.producers, true); err != nil {
			return l.disk.fail("write producer snapshot", err)
		}
	}
	return nil
}

// releaseAll releases the files. Readers keep what they have.
func (l *Log) releaseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseAllLocked()
}

func (l *Log) releaseAllLocked() {
	l.closed.Store(true)
	for _, s := range *l.segments.Load() {
		_ = s.closeIndexes() // unmapping fails only for what is not mapped
		s.release()
	}
}

// renameLocked renames the log's directory. Meanwhile files may be missing for those who do not hold the lock.
func (l *Log) renameLocked(dir string) error {
	l.cuts.Add(1)
	defer l.cuts.Add(1)
	if err := l.env.fs.Rename(l.mu.dir, dir); err != nil {
		return err
	}
	l.relocateLocked(dir)
	return nil
}

// relocateLocked follows a rename of the directory.
func (l *Log) relocateLocked(dir string) {
	l.mu.dir = dir
	l.mu.snaps.dir = dir
	l.epochs.relocate(dir)
	for _, s := range *l.segments.Load() {
		s.relocate(dir)
	}
}

func logFields(tp TopicPartition, dir string) logrus.Fields {
	return logrus.Fields{logx.Topic: tp.Topic, logx.Partition: tp.Partition, logx.Dir: filepath.Clean(dir)}
}
