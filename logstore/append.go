package logstore

import (
	"errors"
	"fmt"
	"math"

	"barnabas/internal/logx"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// LeaderAppend are the options of an append by the leader.
type LeaderAppend struct {
	LeaderEpoch int32
	Origin      Origin
	// ProduceVersion is the version of the Produce request that a client's records came with.
	ProduceVersion int16
	// Verify requires a Guard from StartVerification for the first records of a transaction.
	Verify bool
	Guard  Guard
}

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

// AppendLeader appends a batch as the leader: it checks the batch, assigns the next offset and the epoch, and writes it
// with a single write. data may be modified and must not be used concurrently; it can be reused afterwards.
//
// Errors wrap the code for the client; without a code in the chain it is UNKNOWN_SERVER_ERROR. info.LogStartOffset,
// RecordErrors and Message are valid in any case.
func (l *Log) AppendLeader(data []byte, o LeaderAppend) (AppendInfo, error) {
	if o.Origin == Client {
		if err := record.CheckProduce(data, o.ProduceVersion); err != nil {
			return rejected(-1), err
		}
		if err := l.disk.admit(l.env.fs); err != nil {
			return rejected(-1), fmt.Errorf("append to %v: %w", l.tp, err)
		}
	}
	cfg := l.config.Load()
	v := validator{cfg: cfg, tp: l.tp, origin: o.Origin, now: l.env.now(), rejections: &l.env.rejections}
	ready, err := v.run(data)
	if err != nil {
		info := rejected(l.startFor(err))
		info.RecordErrors, info.Message = v.errors, v.message()
		return info, fmt.Errorf("append to %v: %w", l.tp, err)
	}
	var info AppendInfo
	if cfg.Magic < record.NewestMagic {
		info, err = l.appendOld(cfg, ready)
	} else {
		info, err = l.appendLeader(cfg, ready, v.recordCount, o)
	}
	if err == nil {
		err = l.flushIfDue(cfg)
	}
	if err != nil {
		return rejected(l.startFor(err)), fmt.Errorf("append to %v: %w", l.tp, err)
	}
	return info, nil
}

// flushIfDue flushes if flush.messages records are unflushed.
func (l *Log) flushIfDue(cfg *Config) error {
	if l.unflushed.Load() < cfg.FlushMessages {
		return nil
	}
	return l.Flush()
}

// startFor returns the log start offset to report with an error: the real one, except -1 with errors that Apache Kafka
// expects in normal operation (ReplicaManager.appendToLocalLog, 3.9).
func (l *Log) startFor(err error) int64 {
	for _, code := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.CorruptMessage, kerr.KafkaStorageError} {
		if errors.Is(err, code) {
			return -1
		}
	}
	return l.start.Load()
}

func (l *Log) appendLeader(cfg *Config, v validated, count int, o LeaderAppend) (AppendInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return AppendInfo{}, err
	}
	b := v.batch
	first := l.end.offset.Load()
	last := first + int64(count) - 1
	appendTime := record.NoTimestamp
	if cfg.TimestampType == record.LogAppendTime {
		appendTime = l.env.now().UnixMilli()
		b.SetMaxTimestamp(record.LogAppendTime, appendTime)
		v.maxTime = appendTime
	}
	b.SetLastOffset(last)
	b.SetLeaderEpoch(o.LeaderEpoch)
	if err := l.epochs.assign(o.LeaderEpoch, first); err != nil {
		return AppendInfo{}, l.disk.fail("write leader epochs", err)
	}
	a := appended{data: b, first: b.BaseOffset(), last: last, stamp: stamp{v.maxTime, last}}
	if err := l.makeRoomLocked(cfg, &a); err != nil {
		return AppendInfo{}, err
	}
	if b.HasProducerID() {
		if dup := l.duplicateLocked(b, o.Origin); dup != nil {
			return AppendInfo{FirstOffset: dup.firstOffset(), LastOffset: dup.lastOffset, LogAppendTime: dup.timestamp,
				LogStartOffset: l.start.Load(), Duplicate: true}, nil
		}
		if err := l.mu.producers.check(b, o); err != nil {
			return AppendInfo{}, err
		}
	}
	if err := l.writeLocked(cfg, &a); err != nil {
		return AppendInfo{}, err
	}
	return AppendInfo{FirstOffset: first, LastOffset: last, LogAppendTime: appendTime,
		LogStartOffset: l.start.Load(), Records: count}, nil
}

func (l *Log) duplicateLocked(b record.Batch, origin Origin) *producerBatch {
	if origin != Client {
		return nil
	}
	if p := l.mu.producers.byID[b.ProducerID()]; p != nil {
		return p.duplicate(b)
	}
	return nil
}

// makeRoomLocked rolls the log if a does not fit into the active segment.
func (l *Log) makeRoomLocked(cfg *Config, a *appended) error {
	if len(a.data) > int(cfg.SegmentBytes) {
		return fmt.Errorf("record batch of %d bytes exceeds the segment size of %d: %w", len(a.data), cfg.SegmentBytes, kerr.RecordListTooLarge)
	}
	due, err := l.active().rollDue(a, cfg, l.env.now)
	if err == nil && due {
		err = l.rollLocked(l.baseFor(a))
	}
	return l.disk.fail("roll segment", err)
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
func (l *Log) writeLocked(cfg *Config, a *appended) error {
	s := l.active()
	if s.size.Load() == 0 {
		if err := s.prepareIndexes(); err != nil {
			return l.disk.fail("create indexes", err)
		}
	}
	if err := s.append(a, cfg); err != nil {
		return l.disk.fail("append", err)
	}
	l.publishEndLocked(a.last + 1)
	l.unflushed.Add(a.last - a.first + 1)
	l.disk.wrote(l.env.fs, len(a.data))
	return l.trackProducersLocked(s, a.data)
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
	return l.writeLocked(cfg, a)
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
