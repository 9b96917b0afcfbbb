package logstore

import (
	"errors"
	"fmt"

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

// LeaderBatch is a batch that the leader appends, and the result. Err wraps the code for the client; without a code in
// the chain it is UNKNOWN_SERVER_ERROR. Info.LogStartOffset, RecordErrors and Message are valid in any case.
type LeaderBatch struct {
	Data []byte
	Info AppendInfo
	Err  error
}

// AppendLeader is AppendAll for a single batch.
func (l *Log) AppendLeader(data []byte, o LeaderAppend) (AppendInfo, error) {
	batches := [1]LeaderBatch{{Data: data}}
	l.AppendAll(batches[:], o)
	return batches[0].Info, batches[0].Err
}

// AppendAll appends batches as the leader, in their order: it checks each, assigns the next offset and the epoch, and
// writes them with a single write if possible. Each has a result of its own. Data may be modified and must not be used
// concurrently; it can be reused afterwards.
func (l *Log) AppendAll(batches []LeaderBatch, o LeaderAppend) {
	cfg := l.config.Load()
	var one [1]validated
	ready := one[:]
	if len(batches) > 1 {
		ready = make([]validated, len(batches))
	}
	for i := range batches {
		ready[i] = l.validate(cfg, &batches[i], o)
	}
	if cfg.Magic < record.NewestMagic {
		l.appendAllOld(cfg, batches, ready)
	} else {
		l.appendRun(cfg, batches, ready, o)
	}
	if err := l.flushIfDue(cfg); err != nil {
		for i := range batches {
			l.failed(&batches[i], err)
		}
	}
}

// validate checks a batch, which gets the error.
func (l *Log) validate(cfg *Config, b *LeaderBatch, o LeaderAppend) validated {
	if o.Origin == Client {
		if err := record.CheckProduce(b.Data, o.ProduceVersion); err != nil {
			b.Info, b.Err = rejected(-1), err
			return validated{}
		}
		if o.ProduceVersion < 3 && nothingWhole(b.Data) {
			b.Info = rejected(l.start.Load())
			return validated{empty: true}
		}
		if err := l.disk.admit(l.env.fs); err != nil {
			l.failed(b, err)
			return validated{}
		}
	}
	v := validator{cfg: cfg, tp: l.tp, origin: o.Origin, now: l.env.now(), rejections: &l.env.rejections}
	ready, err := v.run(b.Data)
	if err != nil {
		l.failed(b, err)
		b.Info.RecordErrors, b.Info.Message = v.errors, v.message()
	}
	return ready
}

// nothingWhole reports whether there is no complete message. Old clients may send that: nothing is appended, at no offset
// (UnifiedLog.append, 3.9).
func nothingWhole(data []byte) bool {
	walk := record.Split(data)
	return !walk.Next() && walk.Err() == nil
}

// failed sets the result of a batch that is not appended, unless it has failed already.
func (l *Log) failed(b *LeaderBatch, err error) {
	if b.Err == nil {
		b.Info, b.Err = rejected(l.startFor(err)), fmt.Errorf("append to %v: %w", l.tp, err)
	}
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

func (l *Log) appendAllOld(cfg *Config, batches []LeaderBatch, ready []validated) {
	for i := range batches {
		b := &batches[i]
		if b.Err != nil || ready[i].empty {
			continue
		}
		info, err := l.appendOld(cfg, ready[i])
		if b.Info = info; err != nil {
			l.failed(b, err)
		}
	}
}

// appendRun appends validated batches in one leader epoch, several with one write where nothing about a batch depends on
// that of those before it.
func (l *Log) appendRun(cfg *Config, batches []LeaderBatch, ready []validated, o LeaderAppend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var one [1]appended
	r := leaderRun{batches: batches, room: one[:]}
	if len(batches) > 1 {
		r.room = make([]appended, len(batches))
	}
	for i := range batches {
		if batches[i].Err != nil || ready[i].empty {
			continue
		}
		if err := l.addLocked(cfg, o, &r, i, ready[i]); err != nil {
			l.failed(&batches[i], err)
		}
	}
	l.writeRunLocked(cfg, &r, len(batches))
}

// leaderRun is a number of batches in the middle of appendRun. Those pending have their offsets and results, and are
// about to be written.
type leaderRun struct {
	batches []LeaderBatch
	room    []appended // for those pending; indexed, since it is on the caller's stack
	count   int        // of those pending
	size    int64      // of those pending, in bytes
	from    int        // the first of batches that may be pending
}

// addLocked makes the batch with an index pending, unless it is a duplicate. With an error, it is not appended.
func (l *Log) addLocked(cfg *Config, o LeaderAppend, r *leaderRun, i int, v validated) error {
	if !r.continues(v.batch) || l.active().size.Load() == 0 { // the first batch of a segment determines its age
		l.writeRunLocked(cfg, r, i)
	}
	if err := l.usableLocked(); err != nil { // perhaps since the pending ones could not be written
		return err
	}
	a, due, err := l.placeLocked(cfg, o, r, &v)
	if err == nil && due && r.count > 0 {
		l.writeRunLocked(cfg, r, i)
		if err = l.usableLocked(); err == nil {
			a, due, err = l.placeLocked(cfg, o, r, &v)
		}
	}
	if err == nil && due {
		err = l.rollForLocked(&a)
	}
	if err != nil {
		return err
	}
	info, err := l.checkProducerLocked(o, r, &a)
	if err != nil || info.Duplicate {
		r.batches[i].Info = info
		return err
	}
	r.batches[i].Info = AppendInfo{FirstOffset: a.last - int64(v.count) + 1, LastOffset: a.last, LogAppendTime: v.appendTime,
		LogStartOffset: l.start.Load(), Records: v.count}
	r.room[r.count] = a
	r.count++
	r.size += int64(len(a.data))
	return nil
}

// placeLocked assigns offsets, epoch and append time, and reports whether the log must be rolled before the batch.
func (l *Log) placeLocked(cfg *Config, o LeaderAppend, r *leaderRun, v *validated) (a appended, due bool, err error) {
	first := l.end.offset.Load()
	if r.count > 0 {
		first = r.room[r.count-1].last + 1
	}
	last := first + int64(v.count) - 1
	v.appendTime = record.NoTimestamp
	if cfg.TimestampType == record.LogAppendTime {
		v.appendTime = l.env.now().UnixMilli()
		v.maxTime = v.appendTime
		v.batch.SetMaxTimestamp(record.LogAppendTime, v.appendTime)
	}
	v.batch.SetLastOffset(last)
	v.batch.SetLeaderEpoch(o.LeaderEpoch)
	if err := l.epochs.assign(o.LeaderEpoch, first); err != nil {
		return appended{}, false, l.disk.fail("write leader epochs", err)
	}
	a = appended{data: v.batch, first: v.batch.BaseOffset(), last: last, stamp: stamp{v.maxTime, last}}
	due, err = l.rollDueLocked(cfg, &a, r.size)
	return a, due, err
}

// checkProducerLocked checks a batch against what its producer has appended. If it is a duplicate, info is that of the
// batch it repeats.
func (l *Log) checkProducerLocked(o LeaderAppend, r *leaderRun, a *appended) (info AppendInfo, err error) {
	b := record.Batch(a.data)
	if !b.HasProducerID() || r.lastOf(b) != nil {
		return AppendInfo{}, nil
	}
	if dup := l.duplicateLocked(b, o.Origin); dup != nil {
		return AppendInfo{FirstOffset: dup.firstOffset(), LastOffset: dup.lastOffset, LogAppendTime: dup.timestamp,
			LogStartOffset: l.start.Load(), Duplicate: true}, nil
	}
	return AppendInfo{}, l.mu.producers.check(b, o)
}

// writeRunLocked writes what is pending of the batches before an index. If that fails, they get the error.
func (l *Log) writeRunLocked(cfg *Config, r *leaderRun, before int) {
	if r.count > 0 {
		if err := l.writeLocked(cfg, r.room[:r.count]...); err != nil {
			for i := r.from; i < before; i++ {
				if r.batches[i].Info.Records > 0 { // those pending: others are duplicates, empty, or have failed
					l.failed(&r.batches[i], err)
				}
			}
		}
	}
	r.count, r.size, r.from = 0, 0, before
}

// continues reports whether a batch can be checked before the pending ones are written: they are of other producers, or
// it has the sequence number that its producer must use next.
func (r *leaderRun) continues(b record.Batch) bool {
	last := r.lastOf(b)
	if last == nil {
		return true
	}
	return b.ProducerEpoch() == last.ProducerEpoch() && b.BaseSequence() == record.AddSequence(last.LastSequence(), 1) &&
		!b.Transactional() && !b.Control() && !last.Transactional() && !last.Control()
}

// lastOf returns the last pending batch of a batch's producer, or nil.
func (r *leaderRun) lastOf(b record.Batch) record.Batch {
	if !b.HasProducerID() {
		return nil
	}
	for i := r.count - 1; i >= 0; i-- {
		if p := record.Batch(r.room[i].data); p.HasProducerID() && p.ProducerID() == b.ProducerID() {
			return p
		}
	}
	return nil
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
