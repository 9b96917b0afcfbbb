package replica

import (
	"slices"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Isolation determines how far a reader can see.
type Isolation int8

// The isolation levels.
const (
	ReadUncommitted Isolation = iota // up to the high watermark
	ReadCommitted                    // up to the last stable offset
	ReadToEnd                        // for followers: up to the log end
)

// Reader identifies a reader: a consumer (Replica -1), a debugging consumer (-2, at any replica) or a follower.
type Reader struct {
	Replica     int32
	BrokerEpoch int64 // of a follower; -1: not sent
	Isolation   Isolation
	LeaderOnly  bool // consumers before Fetch v11 read only from leaders
}

// FromFollower reports whether the reader is another broker.
func (r Reader) FromFollower() bool { return r.Replica >= 0 }

// Position is where to read in a partition, and how much.
type Position struct {
	LeaderEpoch      int32 // the reader's idea of it; -1: none
	LastFetchedEpoch int32 // epoch of the record before Offset; -1: none (KIP-595)
	Offset           int64
	LogStart         int64 // the follower's own; -1 from consumers
	MaxBytes         int32
	AtLeastOne       bool     // return the first batch whole even if it is larger than MaxBytes
	TopicID          [16]byte // zero for readers that do not know it
}

// View is what a reader gets from a partition. Records must be closed.
type View struct {
	Records       logstore.Records
	HighWatermark int64
	LastStable    int64
	LogStart      int64
	Limit         int64 // the reader cannot see records from this offset on
	Diverging     *EpochEnd
}

// EpochEnd is where a leader epoch ends in the leader's log.
type EpochEnd struct {
	Epoch  int32
	Offset int64
}

// Read reads for a consumer or a follower, and records a follower's progress.
func (p *Partition) Read(r Reader, at Position) (View, error) {
	v, from, err := p.read(r, at)
	if err == nil && v.Diverging == nil && r.FromFollower() {
		p.followerFetched(r.Replica, from.leaderEpoch, at.Offset, at.LogStart, r.BrokerEpoch)
		v.HighWatermark = p.Log().HighWatermark()
	}
	return v, err
}

// read holds no lock while it looks up the records, which may take as long as a disk does: otherwise a change of the
// role would wait for that, and every append behind it. The result is valid if the role and the log have not changed
// meanwhile, since a log is truncated, and written by another leader, only in another epoch.
func (p *Partition) read(r Reader, at Position) (View, readFrom, error) {
	for {
		admitted := at
		v, from, err := p.admitRead(r, &admitted)
		if err != nil || v.Diverging != nil {
			return v, from, err
		}
		v.Records, err = from.log.Read(at.Offset, admitted.MaxBytes, v.Limit, admitted.AtLeastOne)
		if p.stays(from) {
			return v, from, err
		}
		v.Records.Close()
	}
}

// readFrom is what a read depends on.
type readFrom struct {
	log         *logstore.Log
	role        Role
	leaderEpoch int32
}

// admitRead determines what the reader may see, and limits what it gets.
func (p *Partition) admitRead(r Reader, at *Position) (View, readFrom, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if id, none := p.mu.topicID, [16]byte{}; at.TopicID != none && id != none && at.TopicID != id { // the topic was recreated
		return View{}, readFrom{}, p.fault(kerr.InconsistentTopicID)
	}
	if err := p.checkLocked(at.LeaderEpoch, r.LeaderOnly); err != nil {
		return View{}, readFrom{}, err
	}
	if r.FromFollower() && !slices.Contains(p.mu.replicas, r.Replica) {
		return View{}, readFrom{}, p.fault(notAReplica(at.LeaderEpoch))
	}
	v := View{HighWatermark: p.Log().HighWatermark(), LastStable: p.Log().LastStableOffset(), LogStart: p.Log().LogStartOffset()}
	v.Limit = p.limit(r, v)
	if at.LastFetchedEpoch != noEpoch {
		diverging, err := p.diverging(*at)
		if diverging != nil || err != nil {
			v.Diverging = diverging
			return v, readFrom{}, err
		}
	}
	if r.FromFollower() && p.heldBackLocked(r.Replica) {
		at.MaxBytes, at.AtLeastOne = 0, false
	}
	return v, readFrom{p.Log(), p.mu.role, p.mu.leaderEpoch}, nil
}

// stays reports whether the partition is unchanged since a read was admitted.
func (p *Partition) stays(from readFrom) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return !p.mu.removed && from == readFrom{p.Log(), p.mu.role, p.mu.leaderEpoch}
}

// notAReplica is the error for a broker that fetches a partition without being a replica: if it sends an epoch, it is
// told to wait for newer metadata (which is known to be needed right after a reassignment).
func notAReplica(epoch int32) *kerr.Error {
	if epoch != noEpoch {
		return kerr.UnknownLeaderEpoch
	}
	return kerr.NotLeaderForPartition
}

func (p *Partition) limit(r Reader, v View) int64 {
	switch r.Isolation {
	case ReadCommitted:
		return v.LastStable
	case ReadToEnd:
		return p.Log().LogEndOffset()
	}
	return v.HighWatermark
}

// diverging returns where the reader's log diverges from this one, nil if it does not (KIP-595, Partition.readRecords,
// 3.9).
func (p *Partition) diverging(at Position) (*EpochEnd, error) {
	epoch, end := p.Log().EndOffsetForEpoch(at.LastFetchedEpoch)
	if epoch == -1 || end == -1 {
		return nil, p.fault(kerr.OffsetOutOfRange)
	}
	if at.Offset < p.Log().LogStartOffset() {
		return nil, p.fault(kerr.OffsetOutOfRange)
	}
	if epoch < at.LastFetchedEpoch || end < at.Offset {
		return &EpochEnd{epoch, end}, nil
	}
	return nil, nil
}

// EndOfEpoch returns the largest epoch up to the requested one and where it ends, -1 and -1 if there is none (KIP-101,
// 279).
func (p *Partition) EndOfEpoch(current, asked int32, leaderOnly bool) (EpochEnd, error) {
	if err := p.Check(current, leaderOnly); err != nil {
		return EpochEnd{-1, -1}, err
	}
	epoch, end := p.Log().EndOffsetForEpoch(asked)
	return EpochEnd{epoch, end}, nil
}

// PreferredReadReplica returns the replica that a consumer at an offset should read from: of those that preferred
// accepts, the one with the most records (RackAwareReplicaSelector, 3.9; KIP-392). -1 means this replica, or none.
func (p *Partition) PreferredReadReplica(offset int64, preferred func(broker int32) bool) int32 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.mu.role != Leader || preferred(p.env.brokerID) {
		return -1
	}
	p.progress.Lock()
	defer p.progress.Unlock()
	best, most := int32(-1), int64(-1)
	for _, id := range p.mu.replicas {
		f := p.progress.of[id]
		if f == nil || f.end < offset || f.logStart > offset || f.logStart < 0 || !preferred(id) {
			continue
		}
		if f.end > most {
			best, most = id, f.end
		}
	}
	return best
}
