package logstore

import (
	"cmp"
	"slices"

	"barnabas/logstore/record"
)

// txnTracker follows the transactions in a log while it is read from some offset on, and decides which of their batches
// and markers compaction may drop (CleanedTransactionMetadata, 3.9): aborted batches at once, a marker only when no
// batch of its transaction is left.
type txnTracker struct {
	aborted   []AbortedTxn // not reached yet, by first offset
	aborting  map[int64]*abortedSpan
	committed map[int64]bool // producers with records of a transaction that was not aborted
}

// abortedSpan is an aborted transaction whose marker has not been reached yet.
type abortedSpan struct {
	AbortedTxn
	seen bool // it still has batches
}

// newTxnTracker begins a walk. aborted are all aborted transactions that end within what is read or after it.
func newTxnTracker(aborted []AbortedTxn) *txnTracker {
	slices.SortStableFunc(aborted, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return &txnTracker{aborted: aborted, aborting: make(map[int64]*abortedSpan), committed: make(map[int64]bool)}
}

// reach adds the transactions that begin at offset or before.
func (t *txnTracker) reach(offset int64) {
	for len(t.aborted) > 0 && t.aborted[0].FirstOffset <= offset {
		a := t.aborted[0]
		t.aborted = t.aborted[1:]
		if open := t.aborting[a.ProducerID]; open == nil || open.LastOffset < a.FirstOffset {
			t.aborting[a.ProducerID] = &abortedSpan{AbortedTxn: a}
		}
	}
}

// batch handles a batch of records. It returns true if they were aborted.
func (t *txnTracker) batch(b record.Batch) bool {
	t.reach(b.LastOffset())
	if !b.Transactional() {
		return false
	}
	if a := t.aborting[b.ProducerID()]; a != nil {
		a.seen = true
		return true
	}
	t.committed[b.ProducerID()] = true
	return false
}

// marker handles a control batch. spent is true if no batch of its transaction is left, so that it may be dropped in
// time. If it aborts a transaction of which batches were left, that transaction is returned: as long as the marker
// stays, readers must know about it.
func (t *txnTracker) marker(b record.Batch) (spent bool, aborted *AbortedTxn, err error) {
	t.reach(b.LastOffset())
	if b.Count() == 0 {
		return true, nil, nil
	}
	m, ok, err := parseMarker(b)
	if err != nil || !ok {
		return false, nil, err
	}
	pid := b.ProducerID()
	if m.commit {
		had := t.committed[pid]
		delete(t.committed, pid)
		return !had, nil, nil
	}
	a := t.aborting[pid]
	delete(t.aborting, pid)
	if a == nil || !a.seen {
		return true, nil, nil
	}
	return false, &a.AbortedTxn, nil
}

// abortedFrom returns the aborted transactions that end at offset or later.
func (l *Log) abortedFrom(offset int64) ([]AbortedTxn, error) {
	var aborted []AbortedTxn
	segments := *l.segments.Load()
	for i := max(floor(segments, offset), 0); i < len(segments); i++ {
		entries, err := segments[i].txns.all()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.LastOffset >= offset {
				aborted = append(aborted, e)
			}
		}
	}
	return aborted, nil
}
