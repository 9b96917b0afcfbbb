package txn

import (
	"fmt"
	"maps"
	"math"
	"time"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// State is the state of a transaction. The numbers are those stored in the log.
type State = kmsg.TransactionState

// The states. Apache Kafka also has PrepareEpochFence (7), which it never stores.
const (
	Empty          State = 0
	Ongoing        State = 1
	PrepareCommit  State = 2
	PrepareAbort   State = 3
	CompleteCommit State = 4
	CompleteAbort  State = 5
	Dead           State = 6 // about to be forgotten
)

const (
	noProducerID    = -1
	noProducerEpoch = -1
	noTime          = -1
)

// Identity is a producer id with its epoch.
type Identity struct {
	ID    int64
	Epoch int16
}

// topicID is a topic's id, zero if it is unknown.
type topicID [16]byte

// replacedBy reports whether the topic was deleted, and another one with its name has the id now.
func (id topicID) replacedBy(now topicID) bool {
	return id != topicID{} && now != topicID{} && id != now
}

// partitions is a set of partitions, each with the id of its topic when it was added: a topic that is deleted and
// recreated is another one. The ids are not stored, so they are unknown after a failover. A set is never modified.
type partitions map[logstore.TopicPartition]topicID

// transaction is what is known about a transactional id. It is a value: steps return the next one.
type transaction struct {
	Identity
	last       Identity // before the latest InitProducerId; not stored, so a retry across a failover is not recognised
	unheld     bool     // no producer was given the current epoch: it was taken to fence the one that has last
	timeout    time.Duration
	state      State
	partitions partitions
	started    int64 // ms; -1: not open
	updated    int64 // ms
}

// ending reports whether markers are being written.
func (t *transaction) ending() bool { return t.state == PrepareCommit || t.state == PrepareAbort }

// exhausted reports whether an epoch is the last that a client may have: one more is reserved for fencing it.
func exhausted(epoch int16) bool { return epoch >= math.MaxInt16-1 }

// newTransaction returns an id that has not been used yet. Its first epoch comes with the first step.
func newTransaction(producerID int64) transaction {
	none := Identity{noProducerID, noProducerEpoch}
	return transaction{Identity: Identity{producerID, noProducerEpoch}, last: none, state: Empty, started: noTime}
}

// fault returns an error with a protocol code.
func fault(code *kerr.Error, format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, code)...)
}

// initialise is the step of InitProducerId: it returns the next epoch, or the next producer id if the epochs are used
// up. have is the identity that the producer believes it has, nil for a new instance (KIP-360). fresh returns a new
// producer id. (TransactionCoordinator.prepareInitProducerIdTransit, 3.9)
func (t transaction) initialise(now int64, timeout time.Duration, have *Identity, fresh func() (int64, error)) (transaction, error) {
	if have != nil && !t.mayBe(*have) {
		return t, fault(kerr.ProducerFenced, "producer %d is not that of the transactional id", have.ID)
	}
	if t.state == Ongoing {
		if have != nil && (have.ID != t.ID || have.Epoch < t.Epoch) { // a zombie must not abort its successor's transaction
			return t, fault(kerr.ProducerFenced, "producer %d with epoch %d is over, it is %d with %d", have.ID, have.Epoch, t.ID, t.Epoch)
		}
		fenced := t.fence(now)
		if have != nil && have.Epoch == t.Epoch { // it will ask again for the next epoch, once its transaction is aborted
			fenced.last.Epoch = t.Epoch
		}
		return fenced, nil
	}
	next := t
	next.last, next.unheld = Identity{t.ID, noProducerEpoch}, false
	if have != nil && t.Epoch != noProducerEpoch {
		next.last.Epoch = have.Epoch
	}
	switch {
	case have == nil || t.holds(have.Epoch):
		if !exhausted(t.Epoch) {
			next.Epoch++
			break
		}
		id, err := fresh()
		if err != nil {
			return t, err
		}
		next.Identity = Identity{id, 0}
	case have.Epoch == t.last.Epoch: // a retry whose first answer was lost gets the same answer again
	default:
		return t, fault(kerr.ProducerFenced, "epoch %d of the producer is over, it is %d", have.Epoch, t.Epoch)
	}
	next.state, next.timeout, next.partitions, next.started, next.updated = Empty, timeout, nil, noTime, now
	return next, nil
}

// mayBe reports whether a producer with identity have can be the one of this id: it has the producer id, or had the
// previous one until its epochs were used up, the last one perhaps by aborting its transaction, and has not heard of
// the new one.
func (t *transaction) mayBe(have Identity) bool {
	return t.Epoch == noProducerEpoch || have.ID == t.ID || have.ID == t.last.ID && (exhausted(have.Epoch) || have.Epoch == t.last.Epoch)
}

// holds reports whether the producer with an epoch is the latest instance.
func (t *transaction) holds(epoch int16) bool {
	return t.Epoch == noProducerEpoch || epoch == t.Epoch || t.unheld && epoch == t.last.Epoch
}

// fence aborts the open transaction on behalf of the coordinator, with an epoch that the producer does not have.
func (t transaction) fence(now int64) transaction {
	t.Epoch++
	t.last, t.unheld = Identity{t.ID, noProducerEpoch}, true
	t.state, t.updated = PrepareAbort, now
	return t
}

// owned checks that a request comes from the current instance of the producer.
func (t *transaction) owned(by Identity) error {
	switch {
	case by.ID != t.ID:
		return fault(kerr.InvalidProducerIDMapping, "producer %d does not have the transactional id", by.ID)
	case by.Epoch != t.Epoch:
		return fault(kerr.ProducerFenced, "producer %d has epoch %d, not %d", t.ID, t.Epoch, by.Epoch)
	}
	return nil
}

// add is the step of AddPartitionsToTxn and AddOffsetsToTxn: it begins a transaction if none is open. changed is false
// if there is nothing to write.
func (t transaction) add(now int64, by Identity, added partitions) (next transaction, changed bool, err error) {
	if err := t.owned(by); err != nil {
		return t, false, err
	}
	all := maps.Clone(t.partitions)
	if all == nil || t.state != Ongoing {
		all = make(partitions, len(added))
	}
	for tp, topic := range added {
		if old, has := all[tp]; !has || old.replacedBy(topic) {
			all[tp], changed = topic, true
		}
	}
	if t.state == Ongoing && !changed {
		return t, false, nil
	}
	if t.state != Ongoing {
		t.started = now
	}
	t.state, t.partitions, t.updated = Ongoing, all, now
	return t, true, nil
}

// end is the step of EndTxn. changed is false for a request that is repeated after its transaction has ended.
func (t transaction) end(now int64, by Identity, commit bool) (next transaction, changed bool, err error) {
	if err := t.owned(by); err != nil {
		return t, false, err
	}
	prepare, complete := PrepareAbort, CompleteAbort
	if commit {
		prepare, complete = PrepareCommit, CompleteCommit
	}
	switch t.state {
	case Ongoing:
		t.state, t.updated = prepare, now
		return t, true, nil
	case complete:
		return t, false, nil
	}
	return t, false, fault(kerr.InvalidTxnState, "a transaction in state %v cannot be ended so", t.state)
}

// complete is the step after the last marker.
func (t transaction) complete(now int64) transaction {
	if t.state == PrepareCommit {
		t.state = CompleteCommit
	} else {
		t.state = CompleteAbort
	}
	t.partitions, t.updated = nil, now
	return t
}

// without returns the transaction without the partitions whose markers are written. That is not stored: a marker may be
// written twice.
func (t transaction) without(written []logstore.TopicPartition) transaction {
	t.partitions = maps.Clone(t.partitions)
	for _, tp := range written {
		delete(t.partitions, tp)
	}
	return t
}

// timedOut reports whether the transaction has been open for too long.
func (t *transaction) timedOut(now int64) bool {
	return t.state == Ongoing && t.started+t.timeout.Milliseconds() < now
}

// idle reports whether the id has been unused for so long that it may be forgotten (KIP-98's
// transactional.id.expiration.ms).
func (t *transaction) idle(now int64, keep time.Duration) bool {
	return (t.state == Empty || t.state == CompleteCommit || t.state == CompleteAbort) && t.updated <= now-keep.Milliseconds()
}

// verify checks for each partition whether it belongs to the open transaction (KIP-890); the error is
// TRANSACTION_ABORTABLE if not.
func (t *transaction) verify(by Identity, asked partitions) (map[logstore.TopicPartition]error, error) {
	if err := t.owned(by); err != nil {
		return nil, err
	}
	if t.ending() {
		return nil, fault(kerr.ConcurrentTransactions, "the transaction is being ended")
	}
	missing := make(map[logstore.TopicPartition]error)
	for tp, topic := range asked {
		if joined, has := t.partitions[tp]; !has || joined.replacedBy(topic) {
			missing[tp] = fault(kerr.TransactionAbortable, "%v is not in the transaction", tp)
		}
	}
	return missing, nil
}
