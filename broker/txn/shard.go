package txn

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"barnabas/internal/await"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Log is a partition of __transaction_state that this broker leads.
type Log interface {
	// Append writes a batch in a leader epoch, if there are enough in-sync replicas. end is the offset after it.
	Append(epoch int32, batch record.Batch) (end int64, err error)
	// AwaitReplicated waits until all in-sync replicas have everything below an offset, as appended in a leader epoch.
	AwaitReplicated(ctx context.Context, epoch int32, end int64) error
	// HighWatermark returns the offset below which all in-sync replicas have everything.
	HighWatermark() int64
	// Load calls fn with every batch and returns the offset after the last one.
	Load(ctx context.Context, fn func(record.Batch) error) (end int64, err error)
	// MaxBatchBytes returns the maximum size of a batch.
	MaxBatchBytes() int
}

// entry is a transactional id in a shard.
type entry struct {
	now  *transaction // what all in-sync replicas have; nil: nothing yet
	next *transaction // what is in the log but not on all of them; nil: nothing
	end  int64        // offset after next
}

// busy reports whether the id has to be waited for: a record is being replicated, or markers are being written.
func (e *entry) busy() bool { return e.next != nil || e.now != nil && e.now.ending() }

// shard owns the transactional ids of one partition of __transaction_state while this broker leads it.
type shard struct {
	partition int32
	log       Log
	ctx       context.Context // ends with the leadership
	stop      context.CancelFunc
	changed   await.Signal // notified when an id is no longer busy

	mu struct {
		sync.Mutex
		epoch  int32 // of the leadership; also the coordinator epoch in markers
		loaded bool
		byID   map[string]*entry
	}
}

func newShard(ctx context.Context, partition, epoch int32, log Log) *shard {
	s := &shard{partition: partition, log: log}
	s.ctx, s.stop = context.WithCancel(ctx)
	s.mu.epoch = epoch
	return s
}

func (s *shard) epoch() int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.epoch
}

// lead continues in a newer epoch of the leadership. It returns false if the shard is not loaded, or if an epoch in
// between is missing: another leader may have written in it, so that the shard is outdated, if this broker was not told
// that it had become a follower. The log's end does not tell, since it may be the same with other records.
func (s *shard) lead(epoch int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.loaded || epoch > s.mu.epoch+1 {
		return false
	}
	s.mu.epoch = epoch
	return true
}

func (s *shard) usableLocked() error {
	if s.ctx.Err() != nil {
		return fault(kerr.NotCoordinator, "partition %d of the transaction log is not led here", s.partition)
	}
	if !s.mu.loaded {
		return fault(kerr.CoordinatorLoadInProgress, "transactions of partition %d are being loaded", s.partition)
	}
	return nil
}

// findLocked returns an id's current entry, nil if it is unknown.
func (s *shard) findLocked(id string) *entry {
	e := s.mu.byID[id]
	if e == nil || !s.settleLocked(id, e) {
		return nil
	}
	return e
}

// settleLocked makes the state current that has reached all in-sync replicas. It returns false if the id is forgotten.
func (s *shard) settleLocked(id string, e *entry) bool {
	if e.next == nil || s.log.HighWatermark() < e.end {
		return true
	}
	e.now, e.next = e.next, nil
	if e.now.state != Dead {
		return true
	}
	delete(s.mu.byID, id)
	return false
}

// view returns what is known about an id; found is false if nothing is.
func (s *shard) view(id string) (t transaction, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(); err != nil {
		return transaction{}, false, err
	}
	e := s.findLocked(id)
	if e == nil || e.now == nil {
		return transaction{}, false, nil
	}
	return *e.now, true, nil
}

// each calls fn with every known id; fn must not call back.
func (s *shard) each(fn func(id string, t *transaction, busy bool)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(); err != nil {
		return err
	}
	for id, e := range s.mu.byID {
		if s.settleLocked(id, e) && e.now != nil {
			fn(id, e.now, e.busy())
		}
	}
	return nil
}

// outcome is the result of a step: the id's new state, and the offset that all in-sync replicas must reach for it to
// hold, 0 if nothing had to be written.
type outcome struct {
	transaction
	epoch int32 // leader epoch
	end   int64
}

// decision computes the new state of a transactional id from the known one, which is nil if there is none. If changed
// is false, nothing is written.
type decision func(known *transaction) (next transaction, changed bool, err error)

// step changes an id. The error for a busy one is CONCURRENT_TRANSACTIONS.
func (s *shard) step(id string, now int64, decide decision) (outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(); err != nil {
		return outcome{}, err
	}
	e := s.findLocked(id)
	if e == nil {
		e = &entry{}
	}
	if e.busy() {
		return outcome{}, fault(kerr.ConcurrentTransactions, "the transactional id is busy")
	}
	next, changed, err := decide(e.now)
	if err != nil || !changed {
		return outcome{transaction: next}, err
	}
	return s.writeLocked(id, now, e, next)
}

// complete completes a transaction whose markers are all written.
func (s *shard) complete(id string, now int64) (outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.findLocked(id)
	if e == nil || e.now == nil || !e.now.ending() || e.next != nil {
		return outcome{}, fault(kerr.InvalidTxnState, "the transaction is not being ended")
	}
	return s.writeLocked(id, now, e, e.now.complete(now))
}

func (s *shard) writeLocked(id string, now int64, e *entry, next transaction) (outcome, error) {
	batch := record.NewBuilder()
	batch.Add(now, encodeKey(id), encodeValue(&next))
	end, err := s.log.Append(s.mu.epoch, batch.MustBuild())
	if err != nil {
		return outcome{}, logFault(err)
	}
	e.next, e.end = &next, end
	s.mu.byID[id] = e
	s.settleLocked(id, e)
	return outcome{next, s.mu.epoch, end}, nil
}

// written removes partitions whose markers are done.
func (s *shard) written(id string, done []logstore.TopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.findLocked(id); e != nil && e.now != nil && e.now.ending() {
		left := e.now.without(done)
		e.now = &left
	}
}

// expire writes tombstones for ids that have not been used for long, as many as fit in one batch; more is true if there
// are others. The ids are busy until all in-sync replicas have the tombstones, and then forgotten.
func (s *shard) expire(now int64, idle func(*transaction) bool) (count int, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.loaded {
		return 0, false, nil
	}
	batch, room := record.NewBuilder(), s.log.MaxBatchBytes()
	var expired []*entry
	for id, e := range s.mu.byID {
		if !s.settleLocked(id, e) || e.busy() || !idle(e.now) {
			continue
		}
		key := encodeKey(id)
		if more = batch.Size()+len(key)+maxRecordOverhead > room; more {
			break
		}
		batch.Add(now, key, nil)
		expired = append(expired, e)
	}
	if len(expired) == 0 {
		return 0, false, nil
	}
	end, err := s.log.Append(s.mu.epoch, batch.MustBuild())
	if err != nil {
		return 0, false, logFault(err)
	}
	for _, e := range expired {
		dead := *e.now
		dead.state, dead.partitions = Dead, nil
		e.next, e.end = &dead, end
	}
	return len(expired), more, nil
}

// maxRecordOverhead is the maximum size of a record with a null value without its key: length, attributes, time delta,
// offset delta, key length, value length, header count.
const maxRecordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5

func (s *shard) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.byID)
}

// load reads the log. The ids become available when all in-sync replicas have what was read: a record that only this
// broker has might still be lost.
func (s *shard) load(slots chan struct{}, odd func(offset int64, err error)) (ending []string, err error) {
	select {
	case slots <- struct{}{}:
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
	byID := make(map[string]transaction)
	end, err := s.log.Load(s.ctx, func(b record.Batch) error { return replay(b, byID, odd) })
	<-slots
	if err != nil {
		return nil, err
	}
	if err := s.awaitHeld(s.epoch(), end); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.byID = make(map[string]*entry, len(byID))
	for id, t := range byID {
		s.mu.byID[id] = &entry{now: &t}
		if t.ending() {
			ending = append(ending, id)
		}
	}
	s.mu.loaded = true
	return ending, nil
}

// awaitHeld waits until all in-sync replicas have everything up to end, as appended in a leader epoch, however long
// that takes. An error means that the shard is closed.
func (s *shard) awaitHeld(epoch int32, end int64) error {
	for {
		err := s.log.AwaitReplicated(s.ctx, epoch, end)
		switch {
		case err == nil, errors.Is(err, kerr.NotEnoughReplicasAfterAppend): // there are too few of them now, but they have it
			return nil
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		}
		await.Pause(s.ctx, holdRetryDelay) // the leadership is lost, and the shard is about to be told
	}
}

const holdRetryDelay = 100 * time.Millisecond

// logFault returns the client's error if the log could not be written: to look for the coordinator again, or to wait
// for it (TransactionStateManager.appendTransactionToLog, 3.9).
func logFault(err error) error {
	var code *kerr.Error
	switch {
	case isOne(err, kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut):
		code = kerr.CoordinatorNotAvailable
	case isOne(err, kerr.NotLeaderForPartition, kerr.KafkaStorageError, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch):
		code = kerr.NotCoordinator
	case isOne(err, kerr.MessageTooLarge, kerr.RecordListTooLarge):
		code = kerr.UnknownServerError
	default:
		return err
	}
	return fault(code, "the transaction log: %v", err)
}

func isOne(err error, codes ...error) bool {
	return slices.ContainsFunc(codes, func(code error) bool { return errors.Is(err, code) })
}
