package logstore

import (
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

// The recovery of a log has two parts. What concerns one segment alone, its checksums, its offset and its time index, is the
// rescan's, and several segments are rescanned side by side. What depends on the batches before, which is producer state, aborted
// transactions and leader epochs, a rescan notes down, and the loader folds the notes in, segment by segment. The result is that
// of reading all batches in order.

// A note is the header of a batch, or all of a control batch, behind its size as uint32. Notes come in chunks of about noteChunk
// bytes, of which a rescan may be notedChunks ahead of the loader.
const (
	noteChunk   = 64 << 10
	notedChunks = 64
)

// rescan is the reading of one segment from its start up to the first batch that is not whole and right.
type rescan struct {
	s        *segment
	next     int64 // base of the segment behind
	logStart int64
	cfg      *Config
	count    func(bytes int64)
	now      func() time.Time
	notes    chan []byte // closed when it has ended

	// Once notes is closed:
	size, valid int64
	end         int64 // offset behind the last good batch; the segment's base when there is none
	bad         error // why it ends at valid, when that is below size
	holes       bool  // offsets are missing in it, as compaction takes them out
	err         error // of the disk, or that it was ended from outside
	took        time.Duration

	chunk []byte
	epoch int32 // of the last note
}

func (ld *loader) newRescan(s *segment, next int64) *rescan {
	return &rescan{s: s, next: next, logStart: ld.logStart, cfg: &ld.cfg, count: ld.counted, now: ld.env.now, notes: make(chan []byte, notedChunks), size: s.size.Load(), end: s.base,
		epoch: record.NoLeaderEpoch}
}

// run does it, until ctx ends.
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

// hasHole tells whether offsets are missing before a batch that follows end, or in it. What is missing below the log start says
// nothing: a truncation to there leaves holes. Of old messages that are compressed only the last offset is known.
func hasHole(b record.Batch, end, logStart int64) bool {
	return b.Magic() >= 2 && (b.BaseOffset() > max(end, logStart) || b.Count() <= b.LastOffsetDelta())
}

// goesOn tells whether a good batch follows the bad one: then that is not where a crash has ended the writing.
func (r *rescan) goesOn(f vfs.File) bool {
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

// index adds an entry to the indexes when it is due. A full disk is no error: the batches are found without it.
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

// note writes down what matters for the segments behind: who produced the batch, and that a leader epoch begins.
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

// each calls fn with the batches that were noted, as much as there is of them, until the end of the rescan.
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

// rescans are under way for the segments of one log.
type rescans struct {
	bySegment map[*segment]*rescan
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
}

// startRescans begins to read segments of the log, in their order, as many at a time as may be. end must follow.
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

// runRescans begins a rescan only when all before it have begun: the loader waits for the first that has not ended, so each that has
// begun gets on.
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

// takeTurn waits until a segment may be read, or ctx ends. What it returns must be called when it was read.
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

// end ends those that nobody needs any more, and returns when none is at work.
func (all *rescans) end() {
	all.cancel()
	all.tasks.Wait()
}

// muchToRead is the size of a segment, in bytes, from which on its recovery counts for num.recovery.threads.per.data.dir: below
// it the disk is waited for more than read from.
const muchToRead = 1 << 20

// countBytes is how much is read between two looks at whether the load is to end.
const countBytes = 1 << 20

func (ld *loader) counted(bytes int64) {
	if ld.count != nil {
		ld.count(bytes)
	}
}
