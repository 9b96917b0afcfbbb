package logstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// compaction is one compaction of one log: it collects the keys of the dirty part, and then rewrites all segments up to
// its end without the records that a later one with the same key supersedes (Cleaner.doClean, 3.9). It belongs to one
// goroutine, and is the only one to write .cleaned files.
type compaction struct {
	ctx  context.Context
	l    *Log
	part dirtyPart
	cfg  *Config
	now  time.Time // reference time for delete horizons
	use  resources

	segments  []*segment // up to part.upTo; acquired
	keys      *keyMap
	mapped    int64 // keys has all records below this offset
	producers map[int64]lastOfProducer
	txns      *txnTracker
	rewriter  record.Rewriter
	stats     compactionStats
}

// resources limit what a compaction may use.
type resources struct {
	mapBytes    int64
	loadFactor  float64
	bufferBytes int
	throttle    func(ctx context.Context, bytes int) error
}

// compactionStats describe what a compaction has done.
type compactionStats struct {
	oldSize, newSize int64 // bytes of all segments that were rewritten
	record.Rewritten
	keyless int // records dropped because they have no key
}

// lastOfProducer is a producer's last batch in the log.
type lastOfProducer struct {
	offset int64 // of its last data; -1: none
	epoch  int16
}

// compact compacts the dirty part of a log, and returns the offset up to which it is then clean. The caller has begun
// at the log's guard and chosen the part.
func (l *Log) compact(ctx context.Context, part dirtyPart, use resources) (end int64, stats compactionStats, err error) {
	c := &compaction{ctx: ctx, l: l, part: part, cfg: l.config.Load(), now: l.env.now(), use: use}
	if err := c.acquire(); err != nil {
		return 0, c.stats, err
	}
	defer c.release()
	if err := c.makeDurable(); err != nil {
		return 0, c.stats, err
	}
	if err := c.mapKeys(); err != nil {
		return 0, c.stats, fmt.Errorf("collect the keys of %v: %w", l.tp, err)
	}
	if err := c.rewrite(); err != nil {
		return 0, c.stats, fmt.Errorf("compact %v: %w", l.tp, err)
	}
	return c.mapped, c.stats, nil
}

func (c *compaction) acquire() error {
	for _, s := range *c.l.segments.Load() {
		if s.base >= c.part.upTo {
			break
		}
		if !s.acquire() {
			return errChanged
		}
		c.segments = append(c.segments, s)
	}
	return nil
}

func (c *compaction) release() {
	for _, s := range c.segments {
		s.release()
	}
}

// makeDurable makes durable what the compaction depends on, so that a crash cannot lose it and leave the gaps: the
// records that supersede others, the markers that have decided transactions (which may be anywhere below the high
// watermark), and the state of the producers whose batches are dropped. The recovery point is stored as well: above it,
// a load would mistake gaps for loss.
func (c *compaction) makeDurable() error {
	if err := syncFile(c.l.env.fs, c.l.snapshotPath(c.part.upTo)); err != nil {
		return err
	}
	if err := c.l.flush(c.l.HighWatermark(), false); err != nil {
		return err
	}
	return c.l.env.saveOffsets(c.l)
}

// mapKeys collects the last offset of each key in the dirty part, as far as the map's memory reaches.
func (c *compaction) mapKeys() error {
	aborted, err := c.l.abortedFrom(c.part.from)
	if err != nil {
		return err
	}
	c.txns = newTxnTracker(aborted)
	c.keys = newKeyMap(c.use.mapBytes, c.use.loadFactor, c.part.upTo-c.part.from)
	c.mapped = c.part.from
	for i, s := range c.segments {
		next := c.part.upTo
		if i+1 < len(c.segments) {
			next = c.segments[i+1].base
		}
		if next <= c.part.from {
			continue
		}
		full, err := c.mapSegment(s)
		if full || err != nil {
			return err
		}
		c.mapped = max(c.mapped, next) // the last offsets may have no records
	}
	return nil
}

func (c *compaction) mapSegment(s *segment) (full bool, err error) {
	position, err := s.index.lookup(c.part.from)
	if err != nil {
		return false, err
	}
	err = c.walk(s, position, func(b record.Batch) (more bool, err error) {
		if b.Control() {
			_, _, err := c.txns.marker(b)
			return true, err
		}
		if !c.txns.batch(b) {
			if full, err = c.mapBatch(b); full || err != nil {
				return false, err
			}
		}
		c.mapped = max(c.mapped, b.LastOffset()+1)
		return true, nil
	})
	return full, err
}

// mapBatch adds the keys of a batch to the map. If the map gets full, the records up to there are mapped.
func (c *compaction) mapBatch(b record.Batch) (full bool, err error) {
	err = c.rewriter.Each(b, func(r *record.Record) error {
		if full || r.Offset < c.part.from {
			return nil
		}
		if r.Key != nil && !c.keys.put(r.Key, r.Offset) {
			full = true
			return nil
		}
		c.mapped = r.Offset + 1
		return nil
	})
	return full, err
}

// walk reads the batches of a segment from a position on, until fn returns false. It verifies their checksums:
// rewritten batches get new ones, which would hide that a record was damaged.
func (c *compaction) walk(s *segment, position int64, fn func(record.Batch) (bool, error)) error {
	f, err := s.open()
	if err != nil {
		return err
	}
	w := batchWalk{file: f, size: s.size.Load(), end: position, buf: make([]byte, max(c.use.bufferBytes, record.HeaderSize))}
	read := 0
	for w.next() {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		if read += len(w.batch); read >= len(w.buf) {
			if err := c.use.throttle(c.ctx, read); err != nil {
				return err
			}
			read = 0
		}
		if !w.batch.Valid() {
			return fmt.Errorf("%s: at position %d, offset %d: wrong checksum: %w", f.Name(), w.position, w.batch.BaseOffset(), kerr.CorruptMessage)
		}
		if more, err := fn(w.batch); !more || err != nil {
			return err
		}
	}
	if w.err != nil {
		return w.err
	}
	if w.bad != nil {
		return fmt.Errorf("%s: at position %d: %w: %w", f.Name(), w.end, w.bad, kerr.CorruptMessage)
	}
	return c.use.throttle(c.ctx, read)
}

// rewrite rewrites the segments, combining small ones.
func (c *compaction) rewrite() error {
	aborted, err := c.l.abortedFrom(c.segments[0].base)
	if err != nil {
		return err
	}
	c.txns = newTxnTracker(aborted)
	legacyHorizon, err := c.legacyHorizon()
	if err != nil {
		return err
	}
	var due []*segment
	for _, s := range c.segments {
		if s.base < c.mapped {
			due = append(due, s)
		}
	}
	sizes, err := sizesOf(due, c.part.upTo)
	if err != nil {
		return err
	}
	for _, n := range groupSegments(sizes, int64(c.cfg.SegmentBytes), int64(c.cfg.IndexSizeMax)) {
		if err := c.rewriteGroup(due[:n], legacyHorizon); err != nil {
			return err
		}
		due = due[n:]
	}
	return nil
}

// legacyHorizon returns the delete horizon for messages that have none of their own: segments written later keep their
// tombstones. It follows from the last segment that was compacted before.
func (c *compaction) legacyHorizon() (int64, error) {
	var last *segment
	for _, s := range c.segments {
		if s.base < c.part.from {
			last = s
		}
	}
	if last == nil {
		return 0, nil
	}
	written, err := last.modified()
	return written - c.cfg.DeleteRetention.Milliseconds(), err
}

// segmentSize is what grouping depends on.
type segmentSize struct {
	base, last             int64 // last is the largest possible offset
	size, index, timeIndex int64 // bytes
}

func sizesOf(segments []*segment, upTo int64) ([]segmentSize, error) {
	sizes := make([]segmentSize, len(segments))
	for i, s := range segments {
		if err := s.index.load(); err != nil {
			return nil, err
		}
		if err := s.times.load(); err != nil {
			return nil, err
		}
		sizes[i] = segmentSize{s.base, upTo - 1, s.size.Load(), int64(s.index.count.Load()) * offsetEntrySize, int64(s.times.count.Load()) * timeEntrySize}
		if i+1 < len(segments) {
			sizes[i].last = segments[i+1].base - 1
		}
	}
	return sizes, nil
}

// groupSegments returns how many segments at a time are rewritten as one, so that segments shrunk by compaction do not
// remain many: as many as fit the limits of one segment for records, indexes and offsets (Cleaner.groupSegmentsBySize,
// 3.9).
func groupSegments(sizes []segmentSize, maxSize, maxIndex int64) []int {
	var groups []int
	var sum segmentSize
	for _, s := range sizes {
		fits := len(groups) > 0 && sum.size+s.size <= maxSize && sum.index+s.index <= maxIndex && sum.timeIndex+s.timeIndex <= maxIndex &&
			(s.size == 0 || s.last-sum.base <= math.MaxInt32)
		if !fits {
			groups = append(groups, 0)
			sum = segmentSize{base: s.base}
		}
		groups[len(groups)-1]++
		sum.size, sum.index, sum.timeIndex = sum.size+s.size, sum.index+s.index, sum.timeIndex+s.timeIndex
	}
	return groups
}

// rewriteGroup writes one segment from several and replaces them with it.
func (c *compaction) rewriteGroup(group []*segment, legacyHorizon int64) error {
	out, err := newCleanedWriter(c, group[0].base)
	if err != nil {
		return err
	}
	c.producers = c.l.lastOfProducers()
	for _, s := range group {
		c.stats.oldSize += s.size.Load()
		written, err := s.modified()
		if err == nil {
			err = c.rewriteSegment(s, out, written > legacyHorizon)
		}
		if err != nil {
			return c.giveUp(out, err)
		}
	}
	written, err := group[len(group)-1].modified()
	if err == nil {
		err = out.finish(time.UnixMilli(written))
	}
	if err != nil {
		return c.giveUp(out, err)
	}
	c.stats.newSize += out.seg.size.Load()
	if err := c.l.swapIn(out.seg, group); err != nil {
		if c.l.uses(out.seg) {
			return c.l.disk.failEvenIfFull("swap in a compacted segment", err)
		}
		return c.giveUp(out, err)
	}
	return nil
}

// giveUp removes what was written. If that fails, a load might later take it for complete: so the directory goes
// offline.
func (c *compaction) giveUp(out *cleanedWriter, err error) error {
	if e := errors.Join(c.l.undoSwap(out.seg), out.seg.discard()); e != nil && c.l.readable() == nil {
		return c.l.disk.failEvenIfFull("remove an unfinished compaction", e)
	}
	return err
}

// uses reports whether a segment belongs to the log.
func (l *Log) uses(s *segment) bool {
	segments := *l.segments.Load()
	i := floor(segments, s.base)
	return i >= 0 && segments[i] == s
}

func (l *Log) lastOfProducers() map[int64]lastOfProducer {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := make(map[int64]lastOfProducer, len(l.mu.producers.byID))
	for id, p := range l.mu.producers.byID {
		o := lastOfProducer{-1, p.epoch}
		if b := p.last(); b != nil {
			o.offset = b.lastOffset
		}
		last[id] = o
	}
	return last
}

func (c *compaction) rewriteSegment(s *segment, out *cleanedWriter, keepLegacyTombstones bool) error {
	return c.walk(s, 0, func(b record.Batch) (bool, error) {
		how, discard, err := c.fate(b, out, keepLegacyTombstones)
		if err != nil {
			return false, err
		}
		if discard {
			c.stats.Records += int(b.Count())
			return true, nil
		}
		return true, out.add(b, how)
	})
}

// fate decides what becomes of a batch. If discard is true, it is dropped without examining its records.
func (c *compaction) fate(b record.Batch, out *cleanedWriter, keepLegacyTombstones bool) (how record.Rewrite, discard bool, err error) {
	how.KeepEmpty = c.lastOfItsProducer(b)
	how.Horizon = saturatedAdd(c.now.UnixMilli(), c.cfg.DeleteRetention.Milliseconds())
	drop := false
	if b.Control() {
		spent, aborted, err := c.txns.marker(b)
		if err != nil {
			return how, false, err
		}
		if aborted != nil {
			if err := out.seg.txns.add(*aborted); err != nil {
				return how, false, err
			}
		}
		how.Marker = spent
		horizon, stamped := b.DeleteHorizon()
		drop = spent && stamped && horizon <= c.now.UnixMilli()
		how.Keep = func(*record.Record) bool { return !drop }
	} else {
		drop = c.txns.batch(b)
		how.Keep = func(*record.Record) bool { return false }
		if !drop {
			how.Keep = c.keeper(b, keepLegacyTombstones)
		}
	}
	return how, drop && !how.KeepEmpty, nil
}

// lastOfItsProducer reports whether a batch must stay, if only as a header, because it is the last one of a producer
// that may go on: it has the sequence number, or the epoch of a producer with nothing but a marker here.
func (c *compaction) lastOfItsProducer(b record.Batch) bool {
	if !b.HasProducerID() {
		return false
	}
	last, ok := c.producers[b.ProducerID()]
	switch {
	case !ok:
		return false
	case last.offset >= 0:
		return b.LastOffset() == last.offset
	}
	return b.Control() && b.ProducerEpoch() == last.epoch
}

// keeper returns a function that decides which of a batch's records stay: the last one of each key, and tombstones as
// long as readers may need them.
func (c *compaction) keeper(b record.Batch, keepLegacyTombstones bool) func(*record.Record) bool {
	tombstones := keepLegacyTombstones
	if b.Magic() >= 2 {
		horizon, stamped := b.DeleteHorizon()
		tombstones = !stamped || c.now.UnixMilli() < horizon
	}
	return func(r *record.Record) bool {
		switch {
		case r.Offset >= c.mapped:
			return true // later records are not known yet
		case r.Key == nil:
			c.stats.keyless++
			return false
		case r.Offset < c.keys.latest(r.Key):
			return false
		}
		return r.Value != nil || tombstones
	}
}

func saturatedAdd(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
