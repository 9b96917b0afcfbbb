package logstore

import (
	"errors"
	"fmt"
	"math"

	"barnabas/internal/logx"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// AppendInfo is the result of an append.
type AppendInfo struct {
	FirstOffset   int64 // -1 if nothing was appended
	LastOffset    int64
	LogAppendTime int64 // ms; -1 with CreateTime
	// LogStartOffset is the value for the response to a client: -1 with some errors.
	LogStartOffset int64
	// Duplicate: the batch had been appended before, and the offsets are those of that time.
	Duplicate bool
	// Records is the number of records appended.
	Records int
	// LeaderEpoch is the leader epoch in which the leader appended the batch, or found the duplicate.
	LeaderEpoch int32
	// RecordErrors and Message are for the client if individual records were rejected.
	RecordErrors []RecordError
	Message      string
}

func rejected(logStart int64) AppendInfo {
	return AppendInfo{FirstOffset: -1, LastOffset: -1, LogAppendTime: record.NoTimestamp, LogStartOffset: logStart}
}

// flushIfDue flushes if flush.messages records are unflushed.
func (l *Log) flushIfDue(cfg *Config) error {
	if l.unflushed.Load() < cfg.FlushMessages {
		return nil
	}
	return l.Flush()
}

// makeRoomLocked rolls the log if a does not fit into the active segment.
func (l *Log) makeRoomLocked(cfg *Config, a *appended) error {
	due, err := l.rollDueLocked(cfg, a, 0)
	if err == nil && due {
		err = l.rollForLocked(a)
	}
	return err
}

// rollDueLocked reports whether the log must be rolled before a is appended, after a number of bytes that are about to
// be written to the active segment.
func (l *Log) rollDueLocked(cfg *Config, a *appended, after int64) (bool, error) {
	if len(a.data) > int(cfg.SegmentBytes) {
		return false, fmt.Errorf("record batch of %d bytes exceeds the segment size of %d: %w", len(a.data), cfg.SegmentBytes, kerr.RecordListTooLarge)
	}
	due, err := l.active().rollDue(a, after, cfg, l.env.now)
	return due, l.disk.fail("roll segment", err)
}

// rollForLocked rolls the log so that a new segment begins with a.
func (l *Log) rollForLocked(a *appended) error {
	return l.disk.fail("roll segment", l.rollLocked(l.baseFor(a)))
}

// baseFor returns the base offset of a segment that begins with a: the log end offset, so that records of a compacted
// log, which may be copied from further on, do not look as if a tail had been lost before them. If they are too far on
// for that, their own first offset.
func (l *Log) baseFor(a *appended) int64 {
	end := l.end.offset.Load()
	if record.Batch(a.data).Magic() >= 2 && a.last-end > math.MaxInt32 {
		return a.first
	}
	return end
}

// writeLocked writes what was validated, publishes it and adds it to the producer state.
func (l *Log) writeLocked(cfg *Config, all ...appended) error {
	s := l.active()
	if s.size.Load() == 0 {
		if err := s.prepareIndexes(); err != nil {
			return l.disk.fail("create indexes", err)
		}
	}
	if err := s.append(all, cfg); err != nil {
		return l.disk.fail("append", err)
	}
	l.publishEndLocked(all[len(all)-1].last + 1)
	for i := range all {
		a := &all[i]
		l.unflushed.Add(a.last - a.first + 1)
		l.disk.wrote(l.env.fs, len(a.data))
		if err := l.trackProducersLocked(s, a.data); err != nil {
			return err
		}
	}
	return nil
}

// trackProducersLocked adds the batches in data, which are now in segment s, to the producer state.
func (l *Log) trackProducersLocked(s *segment, data []byte) error {
	transactions := false
	walk := record.Split(data)
	for walk.Next() {
		b := walk.Batch()
		if err := l.trackBatchLocked(s, b); err != nil {
			return err
		}
		transactions = transactions || b.Transactional()
	}
	if transactions {
		l.refreshUnstableLocked()
	}
	return nil
}

// trackBatchLocked adds a batch. Unless it is a control batch, only its header is needed.
func (l *Log) trackBatchLocked(s *segment, b record.Batch) error {
	aborted, ok, err := l.mu.producers.apply(b)
	if err != nil {
		l.logger.WithError(err).WithField(logx.Offset, b.BaseOffset()).Warn("cannot read a control batch")
	}
	if !ok {
		return nil
	}
	err = s.txns.add(aborted)
	// The index may be a new file, created after the names of the segment's other files became durable.
	s.named.Store(false)
	if noSpace(err) || tooManyFiles(err) {
		return nil // the entry is known, and nothing of the segment counts as flushed before it is in the file
	}
	return l.disk.failEvenIfFull("append to transaction index", err)
}

// UnexpectedOffsetError is the error of AppendFollower for records that begin below the log end offset.
type UnexpectedOffsetError struct {
	First, Last int64 // of the rejected records
	LogEnd      int64
}

func (e *UnexpectedOffsetError) Error() string {
	return fmt.Sprintf("records %d to %d do not follow the log end %d", e.First, e.Last, e.LogEnd)
}

// AppendFollower appends batches that a leader has stored, unchanged. Their offsets must ascend and not begin below the
// log end offset (*UnexpectedOffsetError), except in an empty log: if the leader's records were deleted up to the middle
// of a batch, the log begins with that whole batch (Partition.appendRecordsToFollowerOrFutureReplica, 3.9). An incomplete
// batch at the end is ignored. data is not modified.
func (l *Log) AppendFollower(data []byte) (AppendInfo, error) {
	a, err := examine(data)
	if err != nil {
		if errors.Is(err, errChecksum) {
			l.env.rejections.Checksum.Add(1)
		}
		return rejected(-1), fmt.Errorf("append to %v: %w", l.tp, err)
	}
	if len(a.data) == 0 {
		return rejected(l.start.Load()), nil
	}
	cfg := l.config.Load()
	err = l.appendFollower(cfg, &a)
	if l.beginsInside(err) {
		if err = l.TruncateFullyAndStartAt(a.first); err == nil {
			err = l.appendFollower(cfg, &a)
		}
	}
	if err == nil {
		err = l.flushIfDue(cfg)
	}
	if err != nil {
		return rejected(-1), fmt.Errorf("append to %v: %w", l.tp, err)
	}
	return AppendInfo{FirstOffset: a.first, LastOffset: a.last, LogAppendTime: record.NoTimestamp,
		LogStartOffset: l.start.Load(), Records: int(a.last - a.first + 1)}, nil
}

// beginsInside reports whether records were rejected because the log, which is empty, begins in their middle.
func (l *Log) beginsInside(rejection error) bool {
	var e *UnexpectedOffsetError
	return errors.As(rejection, &e) && e.Last >= e.LogEnd && e.LogEnd == l.LogStartOffset()
}

// examine checks batches from a leader: checksums and ascending offsets.
func examine(data []byte) (appended, error) {
	a := appended{first: -1, last: -1, stamp: stamp{record.NoTimestamp, -1}}
	walk := record.Split(data)
	for walk.Next() {
		b := walk.Batch()
		switch {
		case !b.Valid():
			return appended{}, fmt.Errorf("record batch at offset %d: %w", b.BaseOffset(), errChecksum)
		case b.LastOffset() <= a.last:
			return appended{}, fmt.Errorf("offset %d follows %d: %w", b.LastOffset(), a.last, kerr.CorruptMessage)
		}
		if a.first < 0 {
			a.first = b.BaseOffset()
		}
		a.last = b.LastOffset()
		if t := b.MaxTimestamp(); t > a.stamp.timestamp {
			a.stamp = stamp{t, a.last}
		}
		a.data = data[:walk.Position()]
	}
	return a, walk.Err()
}

func (l *Log) appendFollower(cfg *Config, a *appended) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if end := l.end.offset.Load(); a.first < end {
		return &UnexpectedOffsetError{a.first, a.last, end}
	}
	if err := l.assignEpochs(a.data); err != nil {
		return err
	}
	if err := l.makeRoomLocked(cfg, a); err != nil {
		return err
	}
	return l.writeLocked(cfg, *a)
}

func (l *Log) assignEpochs(data []byte) error {
	walk := record.Split(data)
	for walk.Next() {
		b := walk.Batch()
		var err error
		if b.Magic() >= 2 {
			err = l.epochs.assign(b.LeaderEpoch(), b.BaseOffset())
		} else {
			err = l.epochs.clear() // old messages have no epochs: truncation by epoch would go wrong
		}
		if err != nil {
			return l.disk.fail("write leader epochs", err)
		}
	}
	return nil
}
