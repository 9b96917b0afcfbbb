package group

import (
	"context"
	"unicode/utf16"

	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Committer identifies who commits offsets: a member or, with generation -1 and no member id, a consumer that only
// stores its offsets, or an operator.
type Committer struct {
	Group      string
	MemberID   string
	InstanceID *string
	Generation int32
	Txn        *Txn // the offsets take effect when this transaction is committed; nil: none
}

// Txn is the transaction in which a producer commits offsets.
type Txn struct {
	ProducerID int64
	Epoch      int16
	Verify     bool           // its first offsets in a partition need the guard
	Guard      logstore.Guard // from asking the transaction's coordinator
}

// Offset is an offset to commit.
type Offset struct {
	Partition   logstore.TopicPartition
	Offset      int64
	LeaderEpoch int32 // of the record before it; -1: unknown
	Metadata    *string
	CommittedMs int64 // -1: now
	RetentionMs int64 // -1: offsets.retention.minutes
	// Err is set by Commit if this offset cannot be stored: OFFSET_METADATA_TOO_LARGE.
	Err error
}

// Commit stores offsets. If there is no error, they are stored once wait has returned nil; a nil wait means that they
// are stored already.
func (c *Coordinator) Commit(by Committer, offsets []Offset) (wait func(context.Context) error, err error) {
	s, err := c.shardOf(by.Group, true)
	if err != nil {
		return nil, err
	}
	r := &commitRequest{by: &by, offsets: offsets}
	if by.Txn != nil {
		s.commitInTxn(r)
	} else {
		s.commitWithOthers(r)
	}
	if r.err != nil || r.end == 0 || !s.allAcks() {
		return nil, r.err
	}
	return s.replication(r.epoch, r.end)
}

// replication returns a function that waits until everything below an offset, as appended in a leader epoch, is on all
// in-sync replicas; nil if it is already.
func (s *shard) replication(epoch int32, end int64) (wait func(context.Context) error, err error) {
	if done, err := s.partition.Replicated(epoch, end); done || err != nil {
		return nil, orNil(err, commitError)
	}
	deadline := s.coordinator.cfg.Now().Add(s.coordinator.cfg.CommitTimeout)
	return func(ctx context.Context) error {
		ctx, cancel := context.WithDeadlineCause(ctx, deadline, kerr.RequestTimedOut)
		defer cancel()
		return orNil(s.partition.AwaitReplicated(ctx, epoch, end), commitError)
	}, nil
}

func orNil(err error, translate func(error) error) error {
	if err == nil {
		return nil
	}
	return translate(err)
}

// records adds a record for each offset whose metadata is not too long.
func (s *shard) records(b *record.Builder, g *group, st *step, offsets []Offset) []commit {
	commits := make([]commit, len(offsets))
	for i := range offsets {
		o := &offsets[i]
		c := &commits[i]
		*c = commit{offset: o.Offset, leaderEpoch: o.LeaderEpoch, committedMs: o.CommittedMs, expiresMs: none}
		if o.Metadata != nil {
			c.metadata = *o.Metadata
		}
		if c.committedMs == none {
			c.committedMs = st.now.UnixMilli()
		}
		if o.RetentionMs != none {
			c.expiresMs = st.now.UnixMilli() + o.RetentionMs
		}
		if javaLength(c.metadata) > s.coordinator.cfg.MetadataMaxBytes {
			o.Err = kerr.OffsetMetadataTooLarge
			continue
		}
		b.Add(st.now.UnixMilli(), offsetKey(g.id, o.Partition), g.limits.valueVersions.offsetValue(*c))
	}
	return commits
}

// javaLength returns the length in UTF-16 units, as Java's String.length does.
func javaLength(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// Marker is the marker of a transaction that was appended to a partition of the internal topic.
type Marker struct {
	ProducerID  int64
	Committed   bool
	LeaderEpoch int32 // in which it was appended
	End         int64 // the offset after it: when its request was repeated, the producer may have begun another transaction
}

// TxnMarker makes the offsets of a transaction effective, or drops them, as soon as its marker is on all in-sync
// replicas. It does not matter whether the request for the marker waits so long: an operator's is not repeated.
func (c *Coordinator) TxnMarker(number int32, m Marker) {
	c.mu.RLock()
	s := c.mu.shards[number]
	c.mu.RUnlock()
	if s == nil || m.LeaderEpoch < s.began {
		return // coordinated elsewhere by now; whoever loads the partition reads the marker, unless it was lost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loadingLocked() {
		s.mu.ended = append(s.mu.ended, m)
		return
	}
	s.endTxnLocked(m)
}

func (s *shard) endTxnLocked(m Marker) {
	highWatermark := s.partition.Log().HighWatermark()
	for g := range s.mu.open[m.ProducerID] {
		g.settle(highWatermark) // what ended before, so that it does not pile up until somebody asks for the offsets
		if g.endTxn(m); g.open[m.ProducerID] == nil {
			removeFrom(s.mu.open, m.ProducerID, g)
		}
	}
}
