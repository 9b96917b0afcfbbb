package logstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// The recovery of a log has two parts. What concerns a single segment (its checksums, its offset and time index) is
// done by a rescan, and several segments are rescanned concurrently. What depends on the batches before (producer
// state, aborted transactions and leader epochs) is noted by the rescan, and the loader applies the notes segment by
// segment. The result is the same as reading all batches in order.

// A note is the header of a batch, or a whole control batch, preceded by its size as uint32. Notes come in chunks of
// about noteChunk bytes, of which a rescan may be notedChunks ahead of the loader.
const (
	noteChunk   = 64 << 10
	notedChunks = 64
)

// rescan reads one segment from its start up to the first batch that is not complete and valid.
type rescan struct {
	s        *segment
	next     int64 // base of the next segment
	logStart int64
	cfg      *Config
	count    func(bytes int64)
	now      func() time.Time
	notes    chan []byte // closed when it has ended

	// Valid once notes is closed:
	size, valid int64
	end         int64 // offset after the last valid batch; the segment's base if there is none
	bad         error // why it ends at valid, if that is below size
	holes       bool  // offsets are missing, as after compaction
	err         error // from the disk, or because it was cancelled
	took        time.Duration

	chunk []byte
	epoch int32 // of the last note
}

func (ld *loader) newRescan(s *segment, next int64) *rescan {
	return &rescan{s: s, next: next, logStart: ld.logStart, cfg: &ld.cfg, count: ld.counted, now: ld.env.now,
		notes: make(chan []byte, notedChunks), size: s.size.Load(), end: s.base, epoch: record.NoLeaderEpoch}
}

// run does the rescan, until ctx ends.
func (r *rescan) run(ctx context.Context) {
	defer close(r.notes)
	if r.err = context.Cause(ctx); r.err != nil {
		return
	}
	began, s := r.now(), r.s
	defer func() { r.took = r.now().Sub(began) }()
	s.touched = true
	s.dirty.Store(true)
	s.maxStamp, s.maxKnown = noStamp(s.base), true
	if r.err = errors.Join(s.index.reset(), s.times.reset(), s.txns.reset()); r.err != nil {
		return
	}
	f, err := s.open()
	if err == nil {
		err = r.walk(ctx, f)
	}
	if err == nil {
		err = r.send(ctx)
	}
	r.err = err
}

func (r *rescan) walk(ctx context.Context, f vfs.File) error {
	w := batchWalk{file: f, size: r.size}
	indexed, counted := int64(0), int64(0)
	defer func() { r.count(w.end - counted) }()
	for w.next() {
		if w.end-counted >= countBytes {
			r.count(w.end - counted)
			counted = w.end
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		if b := w.batch; !b.Valid() || b.LastOffset() < r.s.base {
			r.valid, r.bad = w.position, errors.New("batch has a wrong checksum or offset")
			return nil
		}
		if overfull(w.batch, r.s.base, r.next) {
			return &overfullError{r.s.base}
		}
		if err := r.index(w.batch, w.position, &indexed); err != nil {
			return err
		}
		if err := r.note(ctx, w.batch); err != nil {
			return err
		}
		r.holes = r.holes || w.position > 0 && hasHole(w.batch, r.end, r.logStart)
		r.end = w.batch.LastOffset() + 1
	}
	r.valid, r.bad = w.end, w.bad
	return w.err
}

// hasHole reports whether offsets are missing before a batch that follows end, or within it. Those below the log start
// offset do not count: a truncation to it leaves holes. Of old compressed messages only the last offset is known.
func hasHole(b record.Batch, end, logStart int64) bool {
	return b.Magic() >= 2 && (b.BaseOffset() > max(end, logStart) || b.Count() <= b.LastOffsetDelta())
}

// padded reports whether the last valid batch is followed by padding only, which is no loss.
func (r *rescan) padded() (bool, error) {
	if r.valid == r.size || r.size-r.valid > maxPaddingBlock {
		return false, nil
	}
	f, err := r.s.open()
	if err != nil {
		return false, err
	}
	tail := make([]byte, r.size-r.valid)
	if _, err := f.ReadAt(tail, r.valid); err != nil {
		return false, damaged(f, r.valid, noEOF(err))
	}
	return isPadding(tail), nil
}

// zerosFollow reports whether a broken tail begins with zeros, as far as a batch may have been written: without records
// behind the last batch, that is how preallocated space looks.
func (r *rescan) zerosFollow(f vfs.File) bool {
	head := make([]byte, min(64<<10, r.size-r.valid))
	if _, err := f.ReadAt(head, r.valid); err != nil {
		return false
	}
	return len(bytes.TrimLeft(head, "\x00")) == 0
}

// validBatchFollows reports whether a valid batch follows the invalid one: then it was not a crash that ended the
// writing there.
func (r *rescan) validBatchFollows(f vfs.File) bool {
	head := make([]byte, min(record.HeaderSize, r.size-r.valid))
	if _, err := f.ReadAt(head, r.valid); err != nil {
		return false
	}
	n, err := record.SizeOf(head)
	if err != nil || n == 0 {
		return false
	}
	w := batchWalk{file: f, size: r.size, end: r.valid + int64(n)}
	return w.next() && w.batch.Valid()
}

// index adds an entry to the indexes if it is due. A full disk is not an error: the batches are found without it.
func (r *rescan) index(b record.Batch, position int64, indexed *int64) error {
	s := r.s
	if t := b.MaxTimestamp(); t > s.maxStamp.timestamp {
		s.maxStamp = stamp{t, b.LastOffset()}
	}
	if position-*indexed <= int64(r.cfg.IndexIntervalBytes) || s.index.isFull() || s.times.isFull() {
		return nil
	}
	if err := errors.Join(s.index.add(b.LastOffset(), position), s.times.add(s.maxStamp)); err != nil && !noSpace(err) {
		return err
	}
	*indexed = position
	return nil
}

// note records what matters for the segments after this one: the producer of the batch, and the beginning of a leader
// epoch.
func (r *rescan) note(ctx context.Context, b record.Batch) error {
	epoch := b.LeaderEpoch()
	if !b.HasProducerID() && (epoch == r.epoch || b.Magic() < 2) {
		return nil
	}
	r.epoch = epoch
	if !b.Control() {
		b = b[:min(len(b), record.HeaderSize)]
	}
	r.chunk = append(binary.BigEndian.AppendUint32(r.chunk, uint32(len(b))), b...)
	if len(r.chunk) < noteChunk {
		return nil
	}
	return r.send(ctx)
}

func (r *rescan) send(ctx context.Context) error {
	if len(r.chunk) == 0 {
		return nil
	}
	select {
	case r.notes <- r.chunk:
		r.chunk = nil
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// each calls fn with the noted batches, as far as they were noted, until the rescan ends.
func (r *rescan) each(fn func(record.Batch) error) error {
	for chunk := range r.notes {
		for len(chunk) > 0 {
			n := binary.BigEndian.Uint32(chunk)
			if err := fn(record.Batch(chunk[4 : 4+n])); err != nil {
				return err
			}
			chunk = chunk[4+n:]
		}
	}
	return r.err
}

// rescans are the rescans in progress for the segments of one log.
type rescans struct {
	bySegment map[*segment]*rescan
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
}

// startRescans begins to read segments of the log, in their order, as many at a time as allowed. end must be called.
func (ld *loader) startRescans(due, segments []*segment) *rescans {
	ctx, cancel := context.WithCancel(ld.ctx)
	all := &rescans{bySegment: make(map[*segment]*rescan, len(due)), cancel: cancel}
	waiting := make([]*rescan, len(due))
	for i, s := range due {
		next := int64(math.MaxInt64)
		if behind := slices.Index(segments, s) + 1; behind < len(segments) {
			next = segments[behind].base
		}
		waiting[i] = ld.newRescan(s, next)
		all.bySegment[s] = waiting[i]
	}
	workers := max(1, min(cap(ld.recovering), runtime.GOMAXPROCS(0)))
	all.tasks.Go(func() { ld.runRescans(ctx, waiting, workers) })
	return all
}

// runRescans begins a rescan only when all before it have begun: the loader waits for the first one that has not ended,
// so all that have begun make progress.
func (ld *loader) runRescans(ctx context.Context, waiting []*rescan, workers int) {
	places := make(chan struct{}, workers)
	var running sync.WaitGroup
	defer running.Wait()
	for _, r := range waiting {
		places <- struct{}{}
		done := ld.takeTurn(ctx, r.s)
		running.Go(func() {
			r.run(ctx)
			done()
			<-places
		})
	}
}

// takeTurn waits until a segment may be read, or ctx ends. The returned function must be called after the segment was
// read.
func (ld *loader) takeTurn(ctx context.Context, s *segment) (done func()) {
	if ld.recovering != nil && s.size.Load() >= muchToRead {
		select {
		case ld.recovering <- struct{}{}:
			return func() { <-ld.recovering }
		case <-ctx.Done():
		}
	}
	return func() {}
}

// end cancels rescans that are no longer needed, and returns when none is running.
func (all *rescans) end() {
	all.cancel()
	all.tasks.Wait()
}

// muchToRead is the size of a segment in bytes from which on its recovery counts for num.recovery.threads.per.data.dir:
// below it, the disk is mostly waited for rather than read from.
const muchToRead = 1 << 20

// countBytes is how much is read between checks whether the load was cancelled.
const countBytes = 1 << 20

func (ld *loader) counted(bytes int64) {
	if ld.count != nil {
		ld.count(bytes)
	}
}
