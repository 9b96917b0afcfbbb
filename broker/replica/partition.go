package replica

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Role is this broker's role in a partition.
type Role int8

// The roles.
const (
	Offline Role = iota // hosted but not serving: its log directory has failed, or no leader has been named yet
	Leader
	Follower
)

// noEpoch is the leader epoch of a request without one.
const noEpoch = -1

// Partition is a replica that this broker hosts.
type Partition struct {
	TP logstore.TopicPartition
	// Changed is notified when new records can be read, the log start offset of this replica or a follower moves, or
	// the role changes.
	Changed await.Signal

	env   *environment
	log   atomic.Pointer[logstore.Log] // changed with mu held, when the replica has been moved to another directory
	moved movedCopy
	// reading is held for reading during long reads of the log, and for writing when the log is replaced or removed. It
	// comes before mu, which then need not be held while waiting for disks.
	reading sync.RWMutex

	mu struct { // held for reading during an append
		sync.RWMutex
		role           Role
		leader         int32 // broker id; -1: none
		leaderEpoch    int32
		partitionEpoch int32
		epochStart     int64 // log end offset when this broker became leader
		topicID        [16]byte
		replicas       []int32
		reassigning    bool    // replicas are being added or removed
		adding         []int32 // the replicas being added
		isr            isrState
		removed        bool

		controllerEpoch int32 // of the controller that named the leader
	}
	progress struct { // of the followers, on the leader; also serializes changes of the high watermark
		sync.Mutex
		of map[int32]*progress
	}
}

// environment is what partitions need of the broker.
type environment struct {
	brokerID   int32
	lagMax     func() time.Duration
	minInSync  func(topic string) int
	now        func() time.Time
	isrChanges isrRoute
	stored     func(context.Context, logstore.TopicPartition) (StoredState, error)
	isLive     func(broker int32) bool
	throttle   Throttle // for sending
	counts     *counts
	log        *logrus.Entry
}

// cut truncates the log to the leader's. Records below the high watermark are lost for good, since the leader was
// elected while out of sync; that is logged and counted. Records above it were acknowledged by this broker alone, or
// not at all; after a kill the high watermark may be some seconds old, so there may be acknowledged ones among them.
func (p *Partition) cut(to int64) error {
	kept := max(to, p.Log().LogStartOffset())
	log := p.env.log.WithFields(logrus.Fields{logx.Topic: p.TP.Topic, logx.Partition: p.TP.Partition, logx.Offset: to})
	if gone := p.Log().LogEndOffset() - kept; gone > 0 {
		log.WithField(logx.Count, gone).Info("truncating records that the leader does not have")
	}
	if lost := p.Log().HighWatermark() - kept; lost > 0 {
		p.env.counts.lost.Add(lost)
		log.WithField(logx.Count, lost).Warn("acknowledged records are lost: the leader does not have them")
		p.Log().SetHighWatermark(kept)
	}
	return p.truncate(func(log *logstore.Log) error { return log.TruncateTo(to) })
}

// truncate has fn truncate the log, while nothing is copied from it that may be about to be removed.
func (p *Partition) truncate(fn func(*logstore.Log) error) error {
	p.moved.Lock()
	defer p.moved.Unlock()
	return fn(p.Log())
}

// Log returns the partition's log, never nil. When the replica is moved to another directory, another log replaces it,
// and the previous one fails with KAFKA_STORAGE_ERROR.
func (p *Partition) Log() *logstore.Log { return p.log.Load() }

// ReadLog calls fn with the log, which stays in place meanwhile; a caller of Log may find it closed, if the replica has
// just been moved to another directory or removed. Everything else goes on, including changes of the role.
func (p *Partition) ReadLog(fn func(*logstore.Log) error) error {
	p.reading.RLock()
	defer p.reading.RUnlock()
	if p.removed() {
		return p.fault(kerr.NotLeaderForPartition)
	}
	return fn(p.Log())
}

func (p *Partition) removed() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.mu.removed
}

// TopicID returns the id of the partition's topic, zero if it has none.
func (p *Partition) TopicID() [16]byte {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.mu.topicID
}

// State is a snapshot of a Partition.
type State struct {
	Role        Role
	Leader      int32
	LeaderEpoch int32
	Replicas    []int32
	ISR         []int32
	TopicID     [16]byte
	Reassigning bool // replicas are being added or removed, according to the controller
}

// State returns the partition's role and replicas.
func (p *Partition) State() State {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return State{p.mu.role, p.mu.leader, p.mu.leaderEpoch, p.mu.replicas, p.mu.isr.committed, p.mu.topicID, p.mu.reassigning}
}

// Adding reports whether a reassignment is adding a replica on a broker.
func (p *Partition) Adding(broker int32) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Contains(p.mu.adding, broker)
}

// checkLocked returns an error if a request with a leader epoch must not be served in the current role:
// FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER (KIP-320), or KAFKA_STORAGE_ERROR if the log
// directory has failed.
func (p *Partition) checkLocked(epoch int32, leaderOnly bool) error {
	switch {
	case p.mu.removed:
		return p.fault(kerr.NotLeaderForPartition)
	case p.Log().Usable() != nil:
		return p.fault(kerr.KafkaStorageError)
	case epoch != noEpoch && epoch < p.mu.leaderEpoch:
		return p.fault(kerr.FencedLeaderEpoch)
	case epoch != noEpoch && epoch > p.mu.leaderEpoch:
		return p.fault(kerr.UnknownLeaderEpoch)
	case p.mu.role == Offline, leaderOnly && p.mu.role != Leader:
		return p.fault(kerr.NotLeaderForPartition)
	}
	return nil
}

// Check is checkLocked for callers that are about to read the log; if leaderOnly, this broker must be the leader.
func (p *Partition) Check(epoch int32, leaderOnly bool) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.checkLocked(epoch, leaderOnly)
}

func (p *Partition) fault(code *kerr.Error) error { return fmt.Errorf("%v: %w", p.TP, code) }

// Append writes a client's batches as the leader. If allAcks, the ISR must have at least min.insync.replicas members,
// otherwise the error is NOT_ENOUGH_REPLICAS. data is modified in place.
func (p *Partition) Append(data []byte, allAcks bool, o logstore.LeaderAppend) (logstore.AppendInfo, error) {
	return p.AppendInEpoch(noEpoch, data, allAcks, o)
}

// AppendInEpoch is Append for callers such as coordinators, which know the log as of a leader epoch: in any other epoch
// it fails with FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
func (p *Partition) AppendInEpoch(epoch int32, data []byte, allAcks bool, o logstore.LeaderAppend) (logstore.AppendInfo, error) {
	batches := [1]logstore.LeaderBatch{{Data: data}}
	p.appendAll(epoch, batches[:], allAcks, o)
	return batches[0].Info, batches[0].Err
}

// AppendAll is Append for several batches, which are written together if possible. Each has a result of its own.
func (p *Partition) AppendAll(batches []logstore.LeaderBatch, allAcks bool, o logstore.LeaderAppend) {
	p.appendAll(noEpoch, batches, allAcks, o)
}

func (p *Partition) appendAll(epoch int32, batches []logstore.LeaderBatch, allAcks bool, o logstore.LeaderAppend) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	none, err := logstore.AppendInfo{LogStartOffset: -1}, p.checkLocked(epoch, true)
	if err == nil && allAcks && len(p.mu.isr.committed) < p.minInSyncLocked() {
		none.LogStartOffset, err = p.Log().LogStartOffset(), p.fault(kerr.NotEnoughReplicas)
	}
	if err != nil {
		for i := range batches {
			batches[i].Info, batches[i].Err = none, err
		}
		return
	}
	o.LeaderEpoch = p.mu.leaderEpoch
	p.Log().AppendAll(batches, o)
	appended := false
	for i := range batches {
		batches[i].Info.LeaderEpoch = o.LeaderEpoch
		appended = appended || batches[i].Err == nil
	}
	if appended {
		p.advanceLocked()
		p.Changed.Notify()
	}
}

// EndKnown returns OFFSET_NOT_AVAILABLE while the high watermark of a new leader has not reached the end that its log
// had when it was elected: its predecessor may have acknowledged records that it does not yet know to be replicated
// (KIP-207).
func (p *Partition) EndKnown() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.mu.role == Leader && p.Log().HighWatermark() < p.mu.epochStart {
		return p.fault(kerr.OffsetNotAvailable)
	}
	return nil
}

// minInSyncLocked returns min.insync.replicas, but no more than the number of replicas.
func (p *Partition) minInSyncLocked() int {
	return min(p.env.minInSync(p.TP.Topic), len(p.mu.replicas))
}

// AwaitReplicated waits until all in-sync replicas have everything below an offset, which this broker has appended in a
// leader epoch. Errors: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS_AFTER_APPEND, or ctx's cause.
func (p *Partition) AwaitReplicated(ctx context.Context, epoch int32, end int64) error {
	return await.Until(ctx, func() (bool, error) { return p.Replicated(epoch, end) }, &p.Changed)
}

// Replicated reports whether everything below an offset is on all in-sync replicas, of which there must be enough. If
// what this broker has appended there in a leader epoch has since been truncated, the error is NOT_LEADER_OR_FOLLOWER,
// although this broker may be the leader again.
func (p *Partition) Replicated(epoch int32, end int64) (bool, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.checkLocked(noEpoch, true); err != nil {
		return false, err
	}
	if !p.keptLocked(epoch, end) {
		return false, p.fault(kerr.NotLeaderForPartition)
	}
	if p.Log().HighWatermark() < end {
		return false, nil
	}
	if len(p.mu.isr.committed) < p.minInSyncLocked() {
		return false, p.fault(kerr.NotEnoughReplicasAfterAppend)
	}
	return true, nil
}

// keptLocked reports whether the log still has what was appended up to an offset in a leader epoch. It is not known of
// messages in formats without leader epochs.
func (p *Partition) keptLocked(epoch int32, end int64) bool {
	if epoch == p.mu.leaderEpoch || end <= p.Log().LogStartOffset() {
		return true
	}
	if _, known := p.Log().LatestEpoch(); !known {
		return true
	}
	found, until := p.Log().EndOffsetForEpoch(epoch)
	return found == epoch && until >= end
}

// DeleteRecordsBefore advances the log start offset as the leader (KIP-107); -1 stands for the high watermark. It
// returns the offset that the log start offset of every replica must reach.
func (p *Partition) DeleteRecordsBefore(offset int64) (int64, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.checkLocked(noEpoch, true); err != nil {
		return 0, err
	}
	hw := p.Log().HighWatermark()
	if offset == -1 {
		offset = hw
	}
	if offset < 0 || offset > hw {
		return 0, fmt.Errorf("offset %d, high watermark %d: %w", offset, hw, p.fault(kerr.OffsetOutOfRange))
	}
	if offset > p.Log().LogStartOffset() {
		if err := p.Log().AdvanceLogStart(offset); err != nil {
			return 0, err
		}
		p.Changed.Notify()
	}
	return offset, nil
}

// LowWatermark returns the lowest log start offset of the live replicas, or an error if this broker is not the
// leader.
func (p *Partition) LowWatermark() (int64, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.checkLocked(noEpoch, true); err != nil {
		return -1, err
	}
	p.progress.Lock()
	defer p.progress.Unlock()
	low := p.Log().LogStartOffset()
	for id, f := range p.progress.of {
		if slices.Contains(p.mu.replicas, id) && p.env.isLive(id) {
			low = min(low, f.logStart)
		}
	}
	return low, nil
}
