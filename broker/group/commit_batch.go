package group

import (
	"runtime"
	"sync"
	"time"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// maxSharedBytes is the size of a batch, before compression, up to which another commit may be added to it.
const maxSharedBytes = 64 << 10

// commitRequest is one request's offsets on their way to the log.
type commitRequest struct {
	by      *Committer
	offsets []Offset

	// The outcome: end is the log end offset after the offsets' batch, 0 if there was nothing to write, and epoch the
	// leader epoch in which it was written.
	end   int64
	epoch int32
	err   error

	group   *group
	commits []commit      // those offsets that have no error of their own
	done    chan struct{} // closed when the outcome is known; nil for the request whose goroutine writes
}

// missing is the error for a group that does not exist; nil if the commit creates it.
func (r *commitRequest) missing() error {
	if r.by.Txn == nil && r.by.Generation >= 0 {
		return kerr.IllegalGeneration
	}
	return nil
}

// waitingCommits collects the commits that the next holder of the shard's lock writes together.
type waitingCommits struct {
	sync.Mutex // leaf
	list       []*commitRequest
}

// add reports whether r is the first one, whose goroutine must write them all.
func (w *waitingCommits) add(r *commitRequest) (first bool) {
	w.Lock()
	defer w.Unlock()
	if first = len(w.list) == 0; !first {
		r.done = make(chan struct{})
	}
	w.list = append(w.list, r)
	return first
}

func (w *waitingCommits) take() []*commitRequest {
	w.Lock()
	defer w.Unlock()
	list := w.list
	w.list = nil
	return list
}

// commitWithOthers writes a commit together with those that arrive at the same time: a batch, its checks and its write
// cost much more than a record in it.
func (s *shard) commitWithOthers(r *commitRequest) {
	if !s.commits.add(r) {
		<-r.done
		return
	}
	runtime.Gosched() // requests that have arrived get ahead, and join
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.commits.take()
	s.commitLocked(list)
	for _, r := range list {
		if r.done != nil {
			close(r.done)
		}
	}
}

// commitInTxn writes the commit of a transaction, whose batch has its own producer.
func (s *shard) commitInTxn(r *commitRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.txnBatch(r.by.Txn)
	if s.prepareLocked(b, r, s.coordinator.cfg.Now()) {
		s.appendCommitsLocked(b, []*commitRequest{r})
	}
}

// commitLocked writes plain commits in as few batches as possible.
func (s *shard) commitLocked(list []*commitRequest) {
	now := s.coordinator.cfg.Now()
	b := s.batch()
	in := list[:0:0]
	for _, r := range list {
		if b.Size() > maxSharedBytes {
			s.appendCommitsLocked(b, in)
			b, in = s.batch(), nil
		}
		if s.prepareLocked(b, r, now) {
			in = append(in, r)
		}
	}
	if len(in) > 0 {
		s.appendCommitsLocked(b, in)
	}
}

// prepareLocked checks a commit and adds its records to a batch. It returns false if there is nothing to write.
func (s *shard) prepareLocked(b *record.Builder, r *commitRequest, now time.Time) bool {
	before := b.Count()
	var refused error
	err := s.groupStepLocked(r.by.Group, r.missing(), now, func(g *group, st *step) {
		if refused = g.checkCommit(r.by); refused != nil {
			return
		}
		if m := g.members[r.by.MemberID]; m != nil && r.by.Txn == nil {
			g.alive(st, m)
		}
		r.group = g
		r.commits = s.records(b, g, st, r.offsets)
	})
	if r.err = err; err == nil {
		r.err = refused
	}
	return b.Count() > before
}

// appendCommitsLocked appends the batch of some commits and applies them.
func (s *shard) appendCommitsLocked(b *record.Builder, in []*commitRequest) {
	end, err := s.appendTxnLocked(b, s.allAcks(), in[0].by.Txn)
	switch {
	case err == nil:
		s.coordinator.done.committed.Add(int64(b.Count()))
		next, highWatermark := end-int64(b.Count()), s.partition.Log().HighWatermark()
		for _, r := range in {
			r.epoch = s.mu.epoch
			if r.by.Txn != nil {
				addTo(s.mu.open, r.by.Txn.ProducerID, r.group)
			}
			next = r.takeOver(next, highWatermark)
		}
	case len(in) == 1:
		in[0].err = commitError(err)
	default: // the error of one commit, or of their total size, need not affect the others
		for _, r := range in {
			s.appendAloneLocked(r)
		}
	}
}

func (s *shard) appendAloneLocked(r *commitRequest) {
	b := s.batch()
	if s.prepareLocked(b, r, s.coordinator.cfg.Now()) {
		s.appendCommitsLocked(b, []*commitRequest{r})
	}
}

// takeOver applies the offsets, whose records begin at an offset of the log, to the group. It returns the offset after
// them.
func (r *commitRequest) takeOver(next, highWatermark int64) int64 {
	g := r.group
	for i, c := range r.commits {
		if r.offsets[i].Err != nil {
			continue
		}
		next++
		c.end = next
		if tp := r.offsets[i].Partition; r.by.Txn != nil {
			g.commitOpen(r.by.Txn.ProducerID, r.by.Txn.Epoch, tp, c)
		} else {
			g.commit(tp, c)
			g.offsets[tp].settle(highWatermark)
		}
	}
	r.end = next
	return next
}
