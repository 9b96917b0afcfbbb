package replica

import (
	"slices"
	"time"
)

// progress is a follower's progress according to its fetches.
type progress struct {
	end         int64 // log end offset; -1: unknown
	logStart    int64 // -1: unknown
	lastFetch   time.Time
	lastEnd     int64     // our log end offset at its last fetch
	caughtUp    time.Time // when it last had everything that we had
	brokerEpoch int64     // -1: not sent
}

// caughtUpWithin reports whether the follower had all records at some time within lag before now (Replica.isCaughtUp,
// 3.9).
func (f *progress) caughtUpWithin(lag time.Duration, leaderEnd int64, now time.Time) bool {
	return f.end == leaderEnd || now.Sub(f.caughtUp) <= lag
}

// fetched records a follower's fetch at an offset, which proves that it has everything below.
func (f *progress) fetched(offset, logStart, leaderEnd, brokerEpoch int64, now time.Time) {
	if offset >= leaderEnd {
		f.caughtUp = now
	} else if offset >= f.lastEnd {
		f.caughtUp = f.lastFetch
	}
	f.end, f.logStart, f.brokerEpoch = offset, logStart, brokerEpoch
	f.lastEnd, f.lastFetch = leaderEnd, now
}

// followerFetched records a follower's position in a leader epoch, which may advance the high watermark and bring the
// follower into the ISR. In another epoch it is no evidence: see leadLocked.
func (p *Partition) followerFetched(id, leaderEpoch int32, offset, logStart, brokerEpoch int64) {
	p.mu.RLock()
	if p.mu.role != Leader || p.mu.leaderEpoch != leaderEpoch || !slices.Contains(p.mu.replicas, id) {
		p.mu.RUnlock()
		return
	}
	p.progress.Lock()
	f := p.progress.of[id]
	if f == nil {
		f = &progress{end: -1, logStart: -1}
		p.progress.of[id] = f
	}
	low := f.logStart
	f.fetched(offset, logStart, p.Log().LogEndOffset(), brokerEpoch, p.env.now())
	p.progress.Unlock()
	moved := p.advanceLocked()
	mayJoin := p.mayJoinLocked(id, offset)
	p.mu.RUnlock()
	if moved || low != logStart {
		p.Changed.Notify()
	}
	if mayJoin {
		p.expandISR(id)
	}
}

// advanceLocked raises the high watermark to what all replicas have that are in the ISR or about to join it
// (Partition.maybeIncrementLeaderHW, 3.9). It reports whether it has changed.
func (p *Partition) advanceLocked() bool {
	p.progress.Lock()
	defer p.progress.Unlock()
	mark := p.Log().LogEndOffset()
	if len(p.mu.replicas) > 1 || len(p.progress.of) > 0 {
		if len(p.mu.isr.committed) < p.minInSyncLocked() {
			return false
		}
		mark = p.replicatedToLocked(mark)
	}
	if mark <= p.Log().HighWatermark() {
		return false
	}
	p.Log().SetHighWatermark(mark)
	return true
}

// advance is advanceLocked when something other than a fetch or an append may allow it. It does nothing on followers.
func (p *Partition) advance() {
	p.mu.RLock()
	moved := p.mu.role == Leader && p.advanceLocked()
	p.mu.RUnlock()
	if moved {
		p.Changed.Notify()
	}
}

func (p *Partition) replicatedToLocked(end int64) int64 {
	now, lag, mark := p.env.now(), p.env.lagMax(), end
	for _, id := range p.mu.replicas {
		if id == p.env.brokerID {
			continue
		}
		f := p.progress.of[id]
		inSync := p.mu.isr.maximalHas(id)
		if f == nil {
			if inSync {
				return -1 // it has not fetched yet
			}
			continue
		}
		// A follower that has just caught up is about to join, unless its broker is gone.
		joins := p.env.isLive(id) && f.caughtUpWithin(lag, end, now)
		if (inSync || joins) && f.end < mark {
			mark = f.end
		}
	}
	return mark
}

// LiveBrokersChanged wakes those who wait for a broker that is gone: for the high watermark, or for records to be
// deleted.
func (m *Manager) LiveBrokersChanged() {
	for _, p := range m.Partitions() {
		p.advance()
		p.Changed.Notify() // also when only the low watermark has changed
	}
}

// FollowerEnds returns the log end offsets of the followers, by broker, as known to the leader; -1 if a follower has
// not fetched yet. There are none unless this broker is the leader.
func (p *Partition) FollowerEnds() map[int32]int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.mu.role != Leader {
		return nil
	}
	p.progress.Lock()
	defer p.progress.Unlock()
	ends := make(map[int32]int64, len(p.progress.of))
	for id, f := range p.progress.of {
		ends[id] = f.end
	}
	return ends
}
