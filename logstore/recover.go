package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"barnabas/internal/logx"
	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// loading is what is known about a log before its directory is looked at.
type loading struct {
	tp            TopicPartition
	dir           string
	future        bool // it is the copy of a log
	cfg           Config
	clean         bool // the last stop was clean
	recoveryPoint int64
	// flushedUnknown: recoveryPoint is 0 since nothing is known. Then only what nothing follows is taken for the torn tail of a crash.
	flushedUnknown bool
	// compacted: the log was compacted at some time, here or where it was copied from, though it may not be any more, or it is not
	// known that it never was. Its segments may end before the next begin.
	compacted     bool
	logStart      int64
	highWatermark int64
	size, toRead  int64 // bytes of the segments, and of those that must be read; 0: not known
	// count hears of bytes that were read of what must be; nil: nobody counts.
	count func(bytes int64)
	// recovering holds a token for each log that reads much at a time; nil: no limit.
	recovering chan struct{}
}

// muchToRead is the size of a segment, in bytes, from which on its recovery counts for num.recovery.threads.per.data.dir: below
// it the disk is waited for more than read from.
const muchToRead = 1 << 20

// ErrDamaged is for data that was flushed once and cannot be read now. It is never cut off: the log is offline.
var ErrDamaged = errors.New("log is damaged")

// load opens the log in a partition's directory and recovers it where needed (LogLoader.load, 3.9). When ctx ends before, the error is
// its cause; the next load begins anew.
func load(ctx context.Context, e *env, d *disk, o loading) (*Log, error) {
	for {
		ld := loader{loading: o, ctx: ctx, env: e}
		l, err := ld.load(d)
		var overfull *overfullError
		if !errors.As(err, &overfull) {
			return l, err
		}
		err = ld.split(overfull.base)
		if noSpace(err) {
			return nil, fmt.Errorf("%w: segment %d in %s must be split, and there is no room: %w", ErrDamaged, overfull.base, o.dir, err)
		}
		if err != nil {
			return nil, err
		}
	}
}

func (ld *loader) load(d *disk) (*Log, error) {
	if err := ld.tidy(); err != nil {
		return nil, err
	}
	l := ld.newLog(d)
	if err := ld.readFiles(l); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := ld.loadSegments(l)
	for _, s := range *l.segments.Load() {
		err = errors.Join(err, s.rest())
	}
	if err != nil {
		l.abandonLocked()
		return nil, err
	}
	return l, nil
}

// abandonLocked closes what a failed load has opened.
func (l *Log) abandonLocked() {
	l.closed.Store(true)
	for _, s := range *l.segments.Load() {
		_ = s.closeIndexes() // unmapping fails only for what isn't mapped
		s.release()
	}
}

type loader struct {
	loading
	ctx       context.Context // of the load
	env       *env
	names     map[string]bool // of the files that are left after tidying
	bases     []int64         // of the segments, rising
	snapshots []int64
	newEpochs bool // found in the records and not in the file yet
	noEpochs  bool // the file could not be understood
}

// newLog makes the log, without anything from the directory.
func (ld *loader) newLog(d *disk) *Log {
	l := &Log{tp: ld.tp, env: ld.env, disk: d, logger: ld.env.logger.WithFields(logFields(ld.tp, d.path))}
	l.config.Store(&ld.cfg)
	l.unstable.Store(-1)
	l.setSegmentsLocked(nil)
	l.flushedAt.Store(ld.env.now().UnixMilli())
	l.mu.dir = ld.dir
	l.mu.producers = newProducerTable(time.Duration(ld.env.producerExpiry.Load()))
	l.mu.snaps = snapshots{fs: ld.env.fs, dir: ld.dir, logger: l.logger, offsets: ld.snapshots}
	l.epochs = newEpochs(ld.env.fs, ld.dir)
	return l
}

// readFiles reads the small files.
func (ld *loader) readFiles(l *Log) error {
	var err error
	if l.mu.topicID, err = readPartitionMetadata(ld.env.fs, ld.dir); err != nil {
		return err
	}
	if err = l.epochs.load(); errors.Is(err, errMalformed) {
		l.logger.WithError(err).Warn("the leader epochs cannot be understood and are read from the records")
		err, ld.noEpochs = nil, ld.cfg.Magic >= 2
	}
	if err != nil {
		return err
	}
	return l.epochs.heed(ld.cfg.Magic)
}

// findEpochs reads the leader epochs from the records of the whole log. What can't be read is left out: then more is cut off a follower
// and fetched again than need be.
func (ld *loader) findEpochs(l *Log) error {
	l.epochs.forgetEnd(0) // those of the recovered segments, which are in order only with the ones before
	for _, s := range *l.segments.Load() {
		err := s.scan(0, func(h header) (bool, error) {
			if h.batch.Magic() >= 2 {
				l.epochs.remember(h.batch.LeaderEpoch(), h.batch.BaseOffset())
			}
			return true, context.Cause(ld.ctx)
		})
		if errors.Is(err, kerr.CorruptMessage) {
			l.logger.WithError(err).Warn("leader epochs behind a broken batch are not known")
			continue
		}
		if err != nil {
			return err
		}
	}
	return l.epochs.rewrite()
}

// tidy finishes or undoes what a crash has interrupted, and notes which files there are.
func (ld *loader) tidy() error {
	entries, err := ld.env.fs.ReadDir(ld.dir)
	if err != nil {
		return err
	}
	ld.names = make(map[string]bool, len(entries))
	for _, e := range entries {
		ld.names[e.Name()] = true
	}
	if err := ld.removeLeftovers(); err != nil {
		return err
	}
	if err := ld.completeSwaps(); err != nil {
		return err
	}
	return ld.collect()
}

// removeLeftovers removes deleted files and unfinished output of the cleaner. When that was the split of a segment,
// swap files at or above the smallest cleaned one belong to it and go as well.
func (ld *loader) removeLeftovers() error {
	unfinished := int64(math.MaxInt64)
	for name := range ld.names {
		if plain, ok := strings.CutSuffix(name, cleanedSuffix); ok {
			if base, ok := baseOf(plain); ok {
				unfinished = min(unfinished, base)
			}
		}
	}
	for name := range ld.names {
		stale := strings.HasSuffix(name, deletedSuffix) || strings.HasSuffix(name, cleanedSuffix)
		if plain, ok := strings.CutSuffix(name, swapSuffix); ok {
			base, ok := baseOf(plain)
			stale = ok && base >= unfinished
		}
		if stale {
			if err := ld.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (ld *loader) remove(name string) error {
	delete(ld.names, name)
	err := ld.env.fs.Remove(filepath.Join(ld.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (ld *loader) rename(from, to string) error {
	delete(ld.names, from)
	ld.names[to] = true
	return ld.env.fs.Rename(filepath.Join(ld.dir, from), filepath.Join(ld.dir, to))
}

// baseOf is the base of any of a segment's files.
func baseOf(name string) (int64, bool) {
	for _, suffix := range segmentSuffixes {
		if base, ok := parseFileName(name, suffix); ok {
			return base, true
		}
	}
	return 0, false
}

// completeSwaps puts what the cleaner had ready in the place of what it was made from: segments within the range of a
// swap file are replaced by it.
func (ld *loader) completeSwaps() error {
	var swaps []string
	for name := range ld.names {
		if strings.HasSuffix(name, swapSuffix) {
			swaps = append(swaps, name)
		}
	}
	if len(swaps) == 0 {
		return nil
	}
	slices.Sort(swaps)
	for _, name := range swaps {
		base, ok := parseFileName(name, logSuffix+swapSuffix)
		if !ok {
			continue
		}
		end, err := ld.swapEnd(name, base)
		if err != nil {
			return err
		}
		for other := range ld.names {
			if b, ok := baseOf(other); ok && (b == base || b > base && b < end) && !ld.names[other+swapSuffix] {
				if err := ld.remove(other); err != nil {
					return err
				}
			}
		}
	}
	if err := ld.env.fs.SyncDir(ld.dir); err != nil { // else a power cut may bring a removed segment back beside the new one
		return err
	}
	for _, name := range swaps {
		if err := ld.rename(name, strings.TrimSuffix(name, swapSuffix)); err != nil {
			return err
		}
	}
	return ld.env.fs.SyncDir(ld.dir)
}

// swapEnd is the offset behind the last record of a swap file.
func (ld *loader) swapEnd(name string, base int64) (int64, error) {
	f, err := ld.env.fs.OpenFile(filepath.Join(ld.dir, name), vfs.ReadOnly)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	end := base
	w := batchWalk{file: f, size: size}
	for w.next() {
		end = w.batch.LastOffset() + 1
	}
	return end, w.err
}

// collect notes segments and snapshots and removes indexes that no record file goes with.
func (ld *loader) collect() error {
	for name := range ld.names {
		if base, ok := parseFileName(name, logSuffix); ok {
			ld.bases = append(ld.bases, base)
		}
		if offset, ok := parseFileName(name, snapshotSuffix); ok {
			ld.snapshots = append(ld.snapshots, offset)
		}
	}
	slices.Sort(ld.bases)
	slices.Sort(ld.snapshots)
	for name := range ld.names {
		if base, ok := baseOf(name); ok && !ld.names[fileName(base, logSuffix)] {
			if err := ld.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadSegments fills l from the files.
func (ld *loader) loadSegments(l *Log) error {
	if err := ld.openSegments(l); err != nil {
		return err
	}
	segments := *l.segments.Load()
	end, err := ld.recover(l, segments)
	if err != nil {
		return err
	}
	segments = *l.segments.Load()
	l.start.Store(max(ld.logStart, segments[0].base))
	if end < ld.logStart {
		l.logger.WithField(logx.Offset, ld.logStart).Warn("log ends below its start, beginning again there")
		l.end.store(end, segments[0].base, 0)
		return l.restartLocked(ld.logStart)
	}
	l.publishEndLocked(end)
	l.mu.restored = end
	l.hw.Store(min(max(ld.highWatermark, l.start.Load()), end))
	l.recovery.Store(end)
	if !ld.clean {
		l.recovery.Store(min(ld.recoveryPoint, end))
	}
	if ld.noEpochs {
		if err := ld.findEpochs(l); err != nil {
			return err
		}
	}
	l.epochs.forgetEnd(end)
	if err := l.epochs.truncateStart(l.start.Load()); err != nil {
		return err
	}
	return ld.loadProducers(l, end)
}

func (ld *loader) openSegments(l *Log) error {
	now := ld.env.now()
	var segments []*segment
	for _, base := range ld.bases {
		st, err := ld.env.fs.Stat(filepath.Join(ld.dir, fileName(base, logSuffix)))
		if err != nil {
			return err
		}
		s := newSegment(ld.env.fs, ld.dir, base, st.Size(), &ld.cfg, now)
		if st.Size() == 0 {
			s.maxStamp, s.maxKnown = noStamp(base), true
		}
		s.jitter = rollJitter(&ld.cfg)
		s.named.Store(ld.clean) // else it may have been made just before the process was killed
		segments = append(segments, s)
	}
	if len(segments) == 0 {
		s, err := createSegment(ld.env.fs, ld.dir, ld.logStart, &ld.cfg, now)
		if err != nil {
			return err
		}
		s.jitter = rollJitter(&ld.cfg)
		if err := s.prepareIndexes(); err != nil {
			return err
		}
		segments = append(segments, s)
	}
	l.setSegmentsLocked(segments)
	return nil
}

// recover checks the segments that an unclean stop may have left broken, or whose indexes are not to be trusted, and
// returns the log's end. When something was cut, what came behind is dropped.
func (ld *loader) recover(l *Log, segments []*segment) (end int64, err error) {
	if err := ld.recoverDue(l, segments); err != nil {
		return 0, err
	}
	segments = *l.segments.Load()
	active := segments[len(segments)-1]
	end, err = active.end()
	var pathErr *fs.PathError
	if err == nil && end-1-active.base > math.MaxInt32 {
		return 0, &overfullError{active.base}
	}
	if err == nil || errors.As(err, &pathErr) {
		return end, err
	}
	rescans := ld.startRescans([]*segment{active}, segments) // not whole, although the stop was clean
	defer rescans.end()
	if _, err = ld.recoverSegment(l, rescans.bySegment[active], segments[:len(segments)-1]); err != nil {
		return 0, err
	}
	return active.end()
}

// recoverDue recovers what must be, up to the first segment that had to be cut.
func (ld *loader) recoverDue(l *Log, segments []*segment) error {
	var due []*segment
	for i, s := range segments {
		if !ld.clean && (i == len(segments)-1 || segments[i+1].base > ld.recoveryPoint) {
			due = append(due, s)
		} else if why := ld.suspect(s); why != nil {
			l.logger.WithError(why).WithField(logx.Segment, s.base).Warn("making the indexes of a segment anew")
			due = append(due, s)
		}
	}
	if len(due) == 0 {
		return ld.findOverfull(segments, nil)
	}
	rescans := ld.startRescans(due, segments)
	defer rescans.end()
	if err := ld.findOverfull(segments, rescans.bySegment); err != nil {
		return err
	}
	for i, s := range segments {
		r := rescans.bySegment[s]
		if r == nil {
			continue
		}
		cut, err := ld.recoverSegment(l, r, segments[:i])
		if err != nil {
			return err
		}
		if i < len(segments)-1 && (cut || ld.lostTail(l, segments[i+1])) {
			rescans.end() // before the files go
			return ld.dropBehind(l, segments, i)
		}
	}
	return nil
}

// lostTail tells whether the segment before next, just recovered, has lost its tail without a trace, as a power cut can do when
// it falls together with the end of a batch. Where that is in doubt nothing is taken for lost: what is behind may be all that
// there is of old records. Below the log start nothing is missed: a truncation to there leaves a gap up to it.
func (ld *loader) lostTail(l *Log, next *segment) bool {
	return !ld.flushedUnknown && !ld.compacted && !ld.cfg.Compact && next.base > ld.recoveryPoint &&
		max(l.mu.producers.end, ld.logStart) < next.base
}

// suspect tells why a segment's indexes must be made again: the offset index is missing, or the transaction index
// is not of this segment. An empty segment needs none.
func (ld *loader) suspect(s *segment) error {
	switch {
	case s.size.Load() == 0:
		return nil
	case !ld.names[fileName(s.base, indexSuffix)]:
		return errors.New("the offset index is missing")
	case !ld.names[fileName(s.base, txnIndexSuffix)]:
		return nil
	}
	return s.txns.check(s.base)
}

func (ld *loader) dropBehind(l *Log, segments []*segment, i int) error {
	l.setSegmentsLocked(segments[: i+1 : i+1])
	for _, s := range segments[i+1:] {
		l.logger.WithField(logx.Segment, s.base).Warn("dropping segment behind a broken one")
		s.release()
		if err := s.remove(); err != nil {
			return err
		}
		if err := l.mu.snaps.remove(s.base); err != nil {
			return err
		}
	}
	return ld.env.fs.SyncDir(ld.dir) // for good: they must not come back behind what is appended from now on
}

// recoverSegment takes in what the rescan of a segment has found, and cuts the segment at the first batch that is not whole and right.
func (ld *loader) recoverSegment(l *Log, r *rescan, before []*segment) (cut bool, err error) {
	s := r.s
	if err := l.replayUpTo(s.base, before); err != nil {
		return false, err
	}
	if err := ld.fold(l, r); err != nil {
		return false, err
	}
	ld.compacted = ld.compacted || r.holes
	if r.valid < r.size {
		if err := ld.cut(l, r); err != nil {
			return false, err
		}
	}
	if err := s.finish(false); err != nil && !noSpace(err) {
		return false, err
	}
	if ld.newEpochs && !ld.noEpochs {
		if err := l.epochs.flush(); err != nil && !noSpace(err) { // a full disk must not keep a log from being loaded and cut
			return false, err
		}
		ld.newEpochs = false
	}
	if r.size > 0 {
		l.logger.WithFields(map[string]any{logx.Segment: s.base, logx.SizeBytes: r.valid, logx.TookMs: r.took.Milliseconds()}).
			Info("recovered segment")
	}
	if s == l.active() {
		return r.valid < r.size, nil // loadProducers takes one of the log's end
	}
	return r.valid < r.size, l.snapshotIfRoomLocked()
}

// fold takes the notes of a rescan into the producer state and the leader epochs, which are those before the segment.
func (ld *loader) fold(l *Log, r *rescan) error {
	err := r.each(func(b record.Batch) error {
		if b.Magic() >= 2 && l.epochs.remember(b.LeaderEpoch(), b.BaseOffset()) {
			ld.newEpochs = true
		}
		return l.trackBatchLocked(r.s, b)
	})
	if err != nil {
		return err
	}
	if r.valid > 0 {
		l.mu.producers.end = r.end
	}
	l.refreshUnstableLocked()
	return nil
}

// countBytes is how much is read between two looks at whether the load is to end.
const countBytes = 1 << 20

func (ld *loader) counted(bytes int64) {
	if ld.count != nil {
		ld.count(bytes)
	}
}

// cut drops the broken tail of a segment, unless it was flushed before: then it is damage, and stays.
func (ld *loader) cut(l *Log, r *rescan) error {
	f, err := r.s.open()
	if err != nil {
		return err
	}
	if ld.flushedUnknown && (r.s != l.active() || ld.clean || r.goesOn(f)) {
		return fmt.Errorf("%w: %s at position %d, offset %d, is broken (%v), records follow, and it is not known what was flushed",
			ErrDamaged, f.Name(), r.valid, r.end, r.bad)
	}
	if max(r.end, ld.logStart) < ld.recoveryPoint { // below the log start nothing may be left, after a truncation to there
		return fmt.Errorf("%w: %s at position %d, offset %d, is broken (%v), but all below offset %d was flushed",
			ErrDamaged, f.Name(), r.valid, r.end, r.bad, ld.recoveryPoint)
	}
	l.logger.WithFields(map[string]any{logx.Segment: r.s.base, logx.Offset: r.end, logx.SizeBytes: r.size - r.valid}).
		WithError(r.bad).Warn("cutting a broken tail")
	if err := f.Truncate(r.valid); err != nil {
		return err
	}
	r.s.size.Store(r.valid)
	return f.Sync() // the next crash must not find the tail again, behind what is appended from now on
}

// replayUpTo brings the producer state to that before offset, from the newest snapshot and the batches behind it.
func (l *Log) replayUpTo(offset int64, segments []*segment) error {
	t := l.mu.producers
	if t.end == offset && offset > 0 {
		return nil
	}
	start := int64(0)
	if len(segments) > 0 {
		start = segments[0].base
	}
	if err := l.mu.snaps.restore(t, min(max(l.start.Load(), start), offset), offset, l.env.now()); err != nil {
		return err
	}
	for _, s := range segments[max(floor(segments, t.end), 0):] {
		if err := l.replay(s, offset); err != nil {
			return err
		}
	}
	t.end = offset
	l.refreshUnstableLocked()
	return nil
}

// replay takes the batches of a segment between the state's offset and the given one into the producer state.
func (l *Log) replay(s *segment, offset int64) error {
	t := l.mu.producers
	if t.end >= offset {
		return nil
	}
	position, size, err := s.find(t.end)
	if err != nil || size == 0 {
		return err
	}
	f, err := s.open()
	if err != nil {
		return err
	}
	w := batchWalk{file: f, size: s.size.Load(), end: position}
	for w.next() && w.batch.BaseOffset() < offset {
		if _, _, err := t.apply(w.batch); err != nil {
			l.logger.WithError(err).WithField(logx.Offset, w.batch.BaseOffset()).Warn("cannot read a control batch")
		}
	}
	return w.err
}

// rebuildProducersLocked makes the producer state that of a log which ends at end, after a truncation.
func (l *Log) rebuildProducersLocked(end int64) error {
	if err := l.mu.snaps.removeIf(func(o int64) bool { return o > end }); err != nil {
		return err
	}
	l.mu.producers.reset(-1)
	l.mu.restored = end
	if err := l.replayUpTo(end, *l.segments.Load()); err != nil {
		return err
	}
	l.mu.producers.replicated(l.hw.Load())
	l.refreshUnstableLocked()
	return l.snapshotIfRoomLocked()
}

// snapshotIfRoomLocked takes a snapshot of the producer state. On a full disk there is none: the state can be read from the
// records.
func (l *Log) snapshotIfRoomLocked() error {
	err := l.mu.snaps.take(l.mu.producers, false)
	if noSpace(err) {
		l.logger.WithError(err).Warn("no room for a producer snapshot")
		return nil
	}
	return err
}

// loadProducers sets the producer state and removes the snapshots that nothing will need: all but those at the base of a
// segment and the newest.
func (ld *loader) loadProducers(l *Log, end int64) error {
	// Those behind the end are of records that a power cut has taken.
	if err := l.mu.snaps.removeIf(func(o int64) bool { return o > end }); err != nil {
		return err
	}
	latest := l.mu.snaps.latest()
	err := l.mu.snaps.removeIf(func(o int64) bool {
		_, atBase := slices.BinarySearchFunc(*l.segments.Load(), o, func(s *segment, o int64) int {
			return int(min(1, max(-1, s.base-o)))
		})
		return o != latest && !atBase
	})
	if err != nil {
		return err
	}
	if t := l.mu.producers; t.end == end && end > 0 {
		// Recovery has just read the batches. Its state knows each producer's last five, a snapshot only the last: what
		// was under way at the crash is sent again and must be recognised.
		t.replicated(l.hw.Load())
		l.refreshUnstableLocked()
		if len(t.byID) == 0 {
			return nil // another crash would have the segment read again anyhow
		}
		return l.snapshotIfRoomLocked()
	}
	if err := l.rebuildProducersLocked(end); err != nil {
		return err
	}
	return l.recallLocked()
}

// batchWalk reads the batches of a record file in order, each whole, in large pieces.
type batchWalk struct {
	file vfs.File
	size int64 // of the file

	batch    record.Batch // good until the next step
	position int64        // where it begins
	end      int64        // where it ends: where the next step begins
	bad      error        // why what begins at end is no batch
	err      error        // of reading

	buf        []byte
	from, have int64 // buf holds the file from from on, have bytes
}

const walkBuffer = 128 << 10

// next steps to the next batch. It checks that it is whole, but not its checksum.
func (w *batchWalk) next() bool {
	if w.bad != nil || w.err != nil || w.end >= w.size {
		return false
	}
	head := w.bytes(min(record.HeaderSize, w.size-w.end))
	if w.err != nil {
		return false
	}
	n, err := record.SizeOf(head)
	if err == nil && (n == 0 || int64(n) > w.size-w.end) {
		err = errors.New("batch is cut short")
	}
	if err != nil {
		w.bad = err
		return false
	}
	b := w.bytes(int64(n))
	if w.err != nil {
		return false
	}
	w.batch, w.position = record.Batch(b), w.end
	w.end += int64(n)
	return true
}

// bytes is the n bytes at end.
func (w *batchWalk) bytes(n int64) []byte {
	if w.end < w.from || w.end+n > w.from+w.have {
		if int64(len(w.buf)) < n {
			w.buf = make([]byte, max(n, min(walkBuffer, w.size-w.end)))
		}
		got, err := w.file.ReadAt(w.buf[:min(int64(len(w.buf)), w.size-w.end)], w.end)
		if w.from, w.have = w.end, int64(got); w.have < n {
			w.err = damaged(w.file, w.end, noEOF(err))
			return nil
		}
	}
	at := w.end - w.from
	return w.buf[at : at+n]
}

// createLog makes the directory and the first segment of a new log. When that fails no directory is left, or the next start would
// take it for the log, beside the one that was made in another log directory meanwhile.
func createLog(e *env, d *disk, o loading, topicID [16]byte) (*Log, error) {
	_, err := e.fs.Stat(o.dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	l, err := createLogIn(e, d, o, topicID)
	if err != nil && fresh {
		err = errors.Join(err, e.fs.RemoveAll(o.dir))
	}
	return l, err
}

func createLogIn(e *env, d *disk, o loading, topicID [16]byte) (*Log, error) {
	if err := e.fs.MkdirAll(o.dir); err != nil {
		return nil, err
	}
	f, err := e.fs.OpenFile(filepath.Join(o.dir, epochFile), vfs.ReadWrite|vfs.Create)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if topicID != ([16]byte{}) {
		if err := writePartitionMetadata(e.fs, o.dir, topicID); err != nil {
			return nil, err
		}
	}
	return load(context.Background(), e, d, o) // nothing to recover, nothing to wait for
}
