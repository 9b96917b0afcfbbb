package logstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"barnabas/logstore/record"
)

// compaction is one compaction of one log: the keys of its dirty part are collected, then all its segments up to there are
// written anew without the records that a later one of the same key has superseded (Cleaner.doClean, 3.9). It belongs to
// one goroutine, and only it writes the .cleaned files.
type compaction struct {
	ctx  context.Context
	l    *Log
	part dirtyPart
	cfg  *Config
	now  time.Time // from which delete horizons are counted
	use  resources

	segments  []*segment // up to part.upTo; acquired
	keys      *keyMap
	mapped    int64 // keys holds all below this offset
	producers map[int64]lastOfProducer
	txns      *txnTracker
	rewriter  record.Rewriter
	stats     compactionStats
}

// resources are what a compaction may use.
type resources struct {
	mapBytes    int64
	loadFactor  float64
	bufferBytes int
	throttle    func(ctx context.Context, bytes int) error
}

// compactionStats tell what a compaction has done.
type compactionStats struct {
	oldSize, newSize int64 // bytes of all segments that were written anew
	record.Rewritten
	keyless int // records that were dropped for having no key
}

// lastOfProducer is the last that a log has of a producer.
type lastOfProducer struct {
	offset int64 // of its last data, -1 none
	epoch  int16
}

// compact compacts the dirty part of a log, and returns the offset up to which it is clean then. The caller has begun
// at the log's guard and decided on the part.
func (l *Log) compact(ctx context.Context, part dirtyPart, use resources) (end int64, stats compactionStats, err error) {
	c := &compaction{ctx: ctx, l: l, part: part, cfg: l.config.Load(), now: l.env.now(), use: use}
	if err := c.acquire(); err != nil {
		return 0, c.stats, err
	}
	defer c.release()
	if err := c.vouch(); err != nil {
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

// vouch makes durable what the compaction relies on, so that a crash can't take it away and leave the gaps: the records that
// supersede others, the markers that have decided transactions (they may be anywhere below the high watermark), and the state of the
// producers whose batches go. The recovery point is stored as well: behind it a load takes gaps for loss.
func (c *compaction) vouch() error {
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

// mapBatch puts the keys of a batch into the map. Where that is full, the records up to there are mapped.
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

// walk reads the batches of a segment from a position on, until fn returns false. It checks their checksums: what is
// written anew gets a new one, which would hide that a record has gone bad.
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

// rewrite writes the segments anew, several small ones as one.
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

// legacyHorizon is for messages that have no delete horizon of their own: segments written later keep their tombstones. It
// is that of the last segment that was compacted before.
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

// segmentSize is what grouping looks at.
type segmentSize struct {
	base, last             int64 // offsets; last is the largest possible one
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

// groupSegments tells how many segments at a time are written as one, so that segments that compaction has made small don't
// stay many: as many as are not larger than one segment may be, in records, indexes and offsets (Cleaner.groupSegmentsBySize, 3.9).
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

// rewriteGroup writes one segment for several and puts it in their place.
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
			return c.l.disk.condemn("swap in a compacted segment", err)
		}
		return c.giveUp(out, err)
	}
	return nil
}

// giveUp removes what was written. If that fails, a load might take it for whole later: then the directory goes offline.
func (c *compaction) giveUp(out *cleanedWriter, err error) error {
	if e := out.seg.discard(); e != nil && c.l.readable() == nil {
		return c.l.disk.condemn("remove an unfinished compaction", e)
	}
	return err
}

// uses tells whether a segment is one of the log's.
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

// fate decides what becomes of a batch. discard: it goes whole, without a look at its records.
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

// lastOfItsProducer tells whether a batch must stay, if only as a header, since it is the last of a producer that may go on: its
// sequence number, or the epoch of a producer that has nothing but a marker here.
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

// keeper tells of a batch's records which stay: the last one of each key, tombstones as long as readers may need them.
func (c *compaction) keeper(b record.Batch, keepLegacyTombstones bool) func(*record.Record) bool {
	tombstones := keepLegacyTombstones
	if b.Magic() >= 2 {
		horizon, stamped := b.DeleteHorizon()
		tombstones = !stamped || c.now.UnixMilli() < horizon
	}
	return func(r *record.Record) bool {
		switch {
		case r.Offset >= c.mapped:
			return true // what comes behind it is not known yet
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
