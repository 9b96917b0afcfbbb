package replica

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// isrState is a partition's in-sync replicas, and the pending change of them, if any (KIP-497).
type isrState struct {
	committed []int32
	pending   *isrChange // handed to the isrRoute and not settled; nil: none
}

// maximalHas reports whether a replica may be in sync, whether or not the pending change succeeds. The high watermark
// waits for all such replicas.
func (s *isrState) maximalHas(id int32) bool {
	return slices.Contains(s.committed, id) || s.pending != nil && slices.Contains(s.pending.isr, id)
}

// mayJoinLocked reports whether an out-of-sync follower has reached the high watermark and the first offset of this
// leader's epoch (Partition.isFollowerInSync, 3.9).
func (p *Partition) mayJoinLocked(id int32, end int64) bool {
	return p.mu.role == Leader && p.mu.isr.pending == nil && !slices.Contains(p.mu.isr.committed, id) &&
		end >= p.Log().HighWatermark() && end >= p.mu.epochStart && p.env.isLive(id)
}

// expandISR proposes to add a follower that has caught up.
func (p *Partition) expandISR(id int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress.Lock()
	f := p.progress.of[id]
	ok := f != nil && p.mayJoinLocked(id, f.end)
	p.progress.Unlock()
	if ok {
		p.proposeLocked(append(slices.Clone(p.mu.isr.committed), id))
	}
}

// shrinkISR proposes to remove the followers that have not been caught up for replica.lag.time.max.ms.
func (p *Partition) shrinkISR(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.role != Leader || p.mu.isr.pending != nil {
		return
	}
	if kept := p.inSyncLocked(now); len(kept) < len(p.mu.isr.committed) {
		p.proposeLocked(kept)
	}
}

func (p *Partition) inSyncLocked(now time.Time) []int32 {
	p.progress.Lock()
	defer p.progress.Unlock()
	end, lag := p.Log().LogEndOffset(), p.env.lagMax()
	var kept []int32
	for _, id := range p.mu.isr.committed {
		f := p.progress.of[id]
		if id == p.env.brokerID || (f != nil && f.caughtUpWithin(lag, end, now)) {
			kept = append(kept, id)
		}
	}
	return kept
}

func (p *Partition) proposeLocked(isr []int32) {
	p.mu.isr.pending = &isrChange{
		partition: p, topicID: p.mu.topicID, controllerEpoch: p.mu.controllerEpoch, leaderEpoch: p.mu.leaderEpoch,
		partitionEpoch: p.mu.partitionEpoch, isr: isr, epochs: p.brokerEpochs(isr),
	}
	p.env.isrChanges.submit(p.mu.isr.pending)
}

func (p *Partition) brokerEpochs(isr []int32) []int64 {
	p.progress.Lock()
	defer p.progress.Unlock()
	epochs := make([]int64, len(isr))
	for i, id := range isr {
		epochs[i] = -1
		if f := p.progress.of[id]; f != nil {
			epochs[i] = f.brokerEpoch
		}
	}
	return epochs
}

// settleISR completes the pending change with the controller's answer. It reports whether to try again.
func (p *Partition) settleISR(c *isrChange, a isrAnswer) (retry bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.role != Leader || p.mu.isr.pending != c {
		return false // a newer LeaderAndIsr has decided
	}
	switch a.err {
	case nil:
		if a.partitionEpoch >= p.mu.partitionEpoch && a.leaderEpoch == p.mu.leaderEpoch {
			p.env.counts.isrChanged(len(p.mu.isr.committed), len(a.isr))
			p.mu.isr.committed = a.isr
			p.mu.partitionEpoch = a.partitionEpoch
		}
		p.noLongerPendingLocked()
	case kerr.OperationNotAttempted, kerr.IneligibleReplica:
		p.env.counts.refused.Add(1)
		p.noLongerPendingLocked() // refused for good: the committed ISR remains
	case kerr.FencedLeaderEpoch, kerr.InvalidUpdateVersion, kerr.InvalidRequest, kerr.NewLeaderElected:
		p.env.counts.refused.Add(1)
		// The controller knows better, and a LeaderAndIsr with the truth is on its way (see settle for
		// INVALID_UPDATE_VERSION). Until it arrives the proposal stays, so that the high watermark does not advance too
		// early.
	default:
		// Among them UNKNOWN_TOPIC_ID, from a controller that was deposed before the topic was created and does not
		// know it yet: no LeaderAndIsr will follow. If the topic has been deleted, a StopReplica ends the attempts.
		return true
	}
	return false
}

// noLongerPendingLocked advances the high watermark, which has waited for those who would have joined the ISR, too.
func (p *Partition) noLongerPendingLocked() {
	p.mu.isr.pending = nil
	p.advanceLocked()
	p.Changed.Notify()
}

// awaits reports whether the change is still pending.
func (p *Partition) awaits(c *isrChange) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.mu.role == Leader && p.mu.isr.pending == c
}
