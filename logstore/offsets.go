package logstore

import (
	"errors"
	"fmt"
	"time"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// SegmentCount returns the number of segments.
func (l *Log) SegmentCount() int { return len(*l.segments.Load()) }

// LatestEpoch returns the leader epoch of the last record, or of the leadership that began after it.
func (l *Log) LatestEpoch() (int32, bool) { return l.epochs.latest() }

// EarliestEpoch returns the leader epoch at the log start offset, or -1 if it is unknown.
func (l *Log) EarliestEpoch() int32 {
	if first, ok := l.epochs.first(); ok && first.start <= l.start.Load() {
		return first.epoch
	}
	return -1
}

// AssignEpochStart records that a leader epoch begins at offset, which a new leader does before it appends.
func (l *Log) AssignEpochStart(epoch int32, offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	return l.disk.fail("write leader epochs", l.epochs.assign(epoch, offset))
}

// EndOffsetForEpoch returns the largest leader epoch that is not above the given one, and the offset after its last
// record (KIP-101, KIP-279). Both are -1 if there is no answer.
func (l *Log) EndOffsetForEpoch(epoch int32) (foundEpoch int32, endOffset int64) {
	return l.epochs.endOf(epoch, l.end.offset.Load())
}

// OffsetForTime returns the first record whose timestamp (ms) is at least ts, with its timestamp and leader epoch.
// found is false if all are older.
func (l *Log) OffsetForTime(ts int64) (offset, timestamp int64, epoch int32, found bool, err error) {
	return l.lookUp(func() (hit, error) { return l.firstSince(ts) })
}

// OffsetOfMaxTimestamp returns the first record with the largest timestamp in the log (KIP-734), which is -1 if no record
// has one. Messages of magic 0, which have no room for a timestamp, are not found (RecordBatch.offsetOfMaxTimestamp, 3.9).
func (l *Log) OffsetOfMaxTimestamp() (offset, timestamp int64, epoch int32, found bool, err error) {
	return l.lookUp(l.maxTimestamp)
}

// hit is a record found by a search.
type hit struct {
	offset, timestamp int64
	epoch             int32
	found             bool
}

func (l *Log) lookUp(find func() (hit, error)) (offset, timestamp int64, epoch int32, found bool, err error) {
	h, err := l.retrying(find)
	if err != nil || !h.found {
		return -1, record.NoTimestamp, -1, false, err
	}
	return h.offset, h.timestamp, h.epoch, true, nil
}

func (l *Log) retrying(find func() (hit, error)) (hit, error) {
	for {
		if err := l.readable(); err != nil {
			return hit{}, err
		}
		cuts := l.cuts.Load()
		h, err := find()
		if err == nil {
			return h, nil
		}
		if !l.cutSince(cuts) {
			return hit{}, l.readFailure(-1, err)
		}
	}
}

func (l *Log) firstSince(ts int64) (hit, error) {
	stamps, segments, err := l.stamps()
	if err != nil {
		return hit{}, err
	}
	start := l.start.Load()
	for i, s := range segments {
		if stamps[i].timestamp < ts {
			continue
		}
		entry, err := s.times.lookup(ts)
		if err != nil {
			return hit{}, err
		}
		h, err := s.search(max(entry.offset, start), func(b record.Batch) bool { return b.MaxTimestamp() >= ts },
			func(r *record.Record) bool { return r.Timestamp >= ts && r.Offset >= start })
		if h.found || err != nil { // all matches in this segment may be below the log start offset
			return h, err
		}
	}
	return hit{}, nil
}

func (l *Log) maxTimestamp() (hit, error) {
	stamps, segments, err := l.stamps()
	if err != nil {
		return hit{}, err
	}
	best := 0
	for i := range stamps {
		if stamps[i].timestamp > stamps[best].timestamp {
			best = i
		}
	}
	top := stamps[best] // if no record has a time, its offset is not known
	return segments[best].search(max(top.offset, segments[best].base),
		func(b record.Batch) bool { return b.Magic() > 0 && b.MaxTimestamp() == top.timestamp },
		func(r *record.Record) bool { return r.Timestamp == top.timestamp })
}

// stamps returns the largest timestamp of each segment.
func (l *Log) stamps() ([]stamp, []*segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	segments := *l.segments.Load()
	stamps := make([]stamp, len(segments))
	for i, s := range segments {
		largest, err := s.largest()
		if err != nil {
			return nil, nil, err
		}
		stamps[i] = largest
	}
	return stamps, segments, nil
}

// search finds the first matching record, beginning with the batch that contains offset. It reads only batches that may
// have one.
func (s *segment) search(offset int64, may func(record.Batch) bool, fits func(*record.Record) bool) (hit, error) {
	if !s.acquire() {
		return hit{}, errSegmentGone
	}
	defer s.release()
	position, size, err := s.find(offset)
	if err != nil || size == 0 {
		return hit{}, err
	}
	f, err := s.open()
	if err != nil {
		return hit{}, err
	}
	var best hit
	var buf []byte
	err = s.scan(position, func(h header) (bool, error) {
		if !may(h.batch) {
			return true, nil
		}
		b, grown, err := readBatch(f, h, buf)
		buf = grown
		if err != nil {
			return false, err
		}
		if best, err = firstFit(b, fits); err != nil {
			return false, fmt.Errorf("records of the batch at offset %d: %w", b.BaseOffset(), coded(err))
		}
		return !best.found, nil
	})
	return best, err
}

// coded gives an error of decoding records, which is none of the disk, the code for unexpected errors if it has none.
func coded(err error) error {
	if code := (*kerr.Error)(nil); errors.As(err, &code) {
		return err
	}
	return fmt.Errorf("%w: %w", kerr.UnknownServerError, err)
}

var errFound = errors.New("found")

func firstFit(b record.Batch, fits func(*record.Record) bool) (h hit, err error) {
	if b.Magic() == record.NewestMagic && b.Codec() != record.None && b.Count() > 0 {
		return firstSkimmed(b, fits)
	}
	err = b.Records(func(r *record.Record) error {
		if !fits(r) {
			return nil
		}
		h = hit{r.Offset, r.Timestamp, b.LeaderEpoch(), true}
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return h, err
}

// firstSkimmed is firstFit for a compressed batch. It decompresses no more than it must, and holds none of it: the whole
// batch may be larger than Records allows.
func firstSkimmed(b record.Batch, fits func(*record.Record) bool) (hit, error) {
	skim, err := b.Skim()
	if err != nil {
		return hit{}, err
	}
	defer skim.Close()
	for skim.Next() {
		if r := (record.Record{Offset: skim.Offset, Timestamp: skim.Timestamp}); fits(&r) {
			return hit{r.Offset, r.Timestamp, b.LeaderEpoch(), true}, nil
		}
	}
	return hit{}, skim.Err()
}

// The special timestamps of LegacyOffsetsBefore.
const (
	Latest   int64 = -1
	Earliest int64 = -2
)

// LegacyOffsetsBefore returns the result of ListOffsets v0: up to limit bases of segments last modified at ts (ms) or
// before, and the log end offset if that applies to it, newest first. ts may be Latest or Earliest.
func (l *Log) LegacyOffsetsBefore(ts int64, limit int) ([]int64, error) {
	for {
		if err := l.readable(); err != nil {
			return nil, err
		}
		cuts := l.cuts.Load()
		offsets, err := l.legacyOffsetsBefore(ts, limit)
		if err == nil || !l.cutSince(cuts) {
			return offsets, l.disk.fail(fmt.Sprintf("stat segment of %v", l.tp), err)
		}
	}
}

func (l *Log) legacyOffsetsBefore(ts int64, limit int) ([]int64, error) {
	type point struct{ offset, time int64 }
	var points []point
	segments := *l.segments.Load()
	for _, s := range segments {
		at, err := s.modified()
		if err != nil {
			return nil, err
		}
		points = append(points, point{max(s.base, l.start.Load()), at})
	}
	if segments[len(segments)-1].size.Load() > 0 {
		points = append(points, point{l.end.offset.Load(), l.env.now().UnixMilli()})
	}
	i := len(points) - 1
	switch ts {
	case Latest:
	case Earliest:
		i = 0
	default:
		for i >= 0 && points[i].time > ts {
			i--
		}
	}
	var offsets []int64
	for ; i >= 0 && len(offsets) < limit; i-- {
		offsets = append(offsets, points[i].offset)
	}
	return offsets, nil
}

// ActiveProducers returns the state of the producers that have written to this log, by id.
func (l *Log) ActiveProducers() []ProducerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.producers.states()
}

// ProducerCount returns the number of producers that are remembered.
func (l *Log) ProducerCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.producers.byID)
}

// TransactionIdle returns how long the producer of the oldest open transaction has been idle in this log, according to
// its records' timestamps; 0 if none is open (ProducerStateManager.hasLateTransaction, 3.9).
func (l *Log) TransactionIdle(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := l.mu.producers.open
	if len(open) == 0 {
		return 0
	}
	p := l.mu.producers.byID[open[0].producerID]
	if p == nil || p.lastTimestamp <= 0 {
		return 0
	}
	return saturatedMillis(now.UnixMilli() - p.lastTimestamp)
}

// AbortedTransactions returns those with records in [from, upTo), ordered by the offset of their marker.
func (l *Log) AbortedTransactions(from, upTo int64) ([]AbortedTxn, error) {
	for {
		if err := l.readable(); err != nil {
			return nil, err
		}
		cuts := l.cuts.Load()
		aborted, err := l.abortedIn(from, upTo)
		if l.cutSince(cuts) { // an index that is being renamed looks as if there were none
			continue
		}
		return aborted, l.disk.fail("read transaction index", err)
	}
}

func (l *Log) abortedIn(from, upTo int64) ([]AbortedTxn, error) {
	var aborted []AbortedTxn
	segments := *l.segments.Load()
	for i := max(floor(segments, from), 0); i < len(segments); i++ {
		entries, err := segments[i].txns.all()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.LastOffset >= from && e.FirstOffset < upTo {
				aborted = append(aborted, e)
			}
			if e.LastStable >= upTo {
				return aborted, nil // later markers are of transactions that began later
			}
		}
	}
	return aborted, nil
}
