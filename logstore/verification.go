package logstore

import (
	"fmt"
	"maps"
	"time"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Guard represents a question to a transaction coordinator: does this partition belong to the producer's transaction?
// It is issued before the coordinator is asked, and the append that follows the answer must present it. An end marker
// in between invalidates it, so that an old answer cannot open a transaction that nobody will end (KIP-890, part 1).
// The zero Guard is none.
type Guard uint64

// verification is what a log remembers about a producer whose transaction is being verified.
type verification struct {
	guard  Guard
	since  time.Time
	epoch  int16
	lowest int32 // sequence number: a later one must not be appended before it (VerificationStateEntry, 3.9)
}

// StartVerification returns a guard for a producer that is about to append the first records of a transaction. It
// returns false if the producer's transaction is already open in this log: then the coordinator need not be asked.
func (l *Log) StartVerification(producerID int64, epoch int16, sequence int32) (Guard, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.producers.inTransaction(producerID) {
		return 0, false
	}
	return l.mu.producers.startVerification(producerID, epoch, sequence, l.env), true
}

// GoOnVerifying takes over the pending verifications of a log that this one has replaced: appends come here with guards
// that the other one has issued.
func (l *Log) GoOnVerifying(of *Log) {
	of.mu.Lock()
	waiting := maps.Clone(of.mu.producers.verifying)
	of.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.mu.producers.verifying, waiting)
}

func (t *producerTable) startVerification(producerID int64, epoch int16, sequence int32, e *env) Guard {
	v := t.verifying[producerID]
	switch {
	case v == nil:
		v = &verification{guard: Guard(e.guards.Add(1)), since: e.now(), epoch: epoch, lowest: sequence}
		t.verifying[producerID] = v
	case epoch > v.epoch:
		v.epoch, v.lowest = epoch, sequence
	case epoch == v.epoch:
		v.lowest = min(v.lowest, sequence)
	}
	return v.guard
}

func (t *producerTable) inTransaction(producerID int64) bool {
	p := t.byID[producerID]
	return p != nil && p.txnFirst >= 0
}

// checkVerified refuses to open a transaction that has not been verified with its coordinator.
func (t *producerTable) checkVerified(b record.Batch, o LeaderAppend) error {
	if !o.Verify || !b.Transactional() || b.Control() || t.inTransaction(b.ProducerID()) {
		return nil
	}
	if v := t.verifying[b.ProducerID()]; v == nil || v.guard != o.Guard {
		return fmt.Errorf("producer %d: the partition is not known to be in its transaction: %w", b.ProducerID(), kerr.InvalidTxnState)
	}
	return nil
}

// checkLowest refuses a sequence number while a lower one of the same producer is still to be verified.
func (t *producerTable) checkLowest(b record.Batch) error {
	if v := t.verifying[b.ProducerID()]; v != nil && b.BaseSequence() > v.lowest {
		return fmt.Errorf("producer %d sends sequence %d while %d is not appended yet: %w", b.ProducerID(), b.BaseSequence(), v.lowest,
			kerr.OutOfOrderSequenceNumber)
	}
	return nil
}
