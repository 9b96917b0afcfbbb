package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"barnabas/internal/logx"
	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// BrokerAddress is where fetchers reach the leaders on another broker.
type BrokerAddress struct {
	ID   int32
	Addr string // host:port
}

// Assignment is one partition of a LeaderAndIsr request, in the form of its newest version.
type Assignment struct {
	TP    logstore.TopicPartition
	Topic [16]byte // id; zero: none
	State *kmsg.LeaderAndISRRequestTopicPartition
}

// role is an assignment with what a follower needs to know about the leader.
type role struct {
	Assignment
	source BrokerAddress
	known  bool // the source is known
}

func (r *role) leads(broker int32) bool { return r.State.Leader == broker }

// ApplyLeaderAndISR makes this broker the leader or follower of partitions, as a controller with the given epoch
// requests. If a log is still being loaded, the role is assumed when that is done (see pendingRoles). It returns an
// error for each assignment, nil if it was applied, or one error for the whole request.
// (ReplicaManager.becomeLeaderOrFollower, 3.9)
func (m *Manager) ApplyLeaderAndISR(controllerEpoch int32, assignments []Assignment, leaders []BrokerAddress) ([]error, error) {
	m.control.Lock()
	defer m.control.Unlock()
	if err := m.checkControllerLocked(controllerEpoch); err != nil {
		return nil, err
	}
	roles := make([]role, len(assignments))
	for i, a := range assignments {
		source, known := addressOf(leaders, a.State.Leader)
		roles[i] = role{a, source, known}
	}
	errs := m.assumeLocked(roles)
	m.log.WithFields(logrus.Fields{logx.ControllerEpoch: controllerEpoch, logx.Count: len(roles)}).Debug("applied the controller's LeaderAndIsr")
	return errs, nil
}

// StopFollowing makes this broker follow no more leaders: it is about to stop, and gives up its leaderships. As a
// follower of its successors it would get in sync again at once, only to be removed from the ISR when it is gone. It does
// not wait for a request of the controller that is being carried out, which may itself be waiting for ZooKeeper.
func (m *Manager) StopFollowing() { m.stopping.Store(true) }

// SpaceFreed is called when a full log directory has room again: the controller is asked to repeat the roles that were
// refused meanwhile, whose replicas it considers lost until then.
func (m *Manager) SpaceFreed() {
	m.control.Lock()
	refused := m.control.refused
	m.control.refused = false
	m.control.Unlock()
	if refused {
		m.cfg.StorageFailed()
	}
}

// assumeLocked returns an error for each role that was not assumed. The lock is control.
func (m *Manager) assumeLocked(roles []role) []error {
	m.readSettings(roles)
	partitions, errs := m.applyAll(roles)
	followed := make([]following, 0, len(roles))
	for i := range roles {
		r, p := &roles[i], partitions[i]
		if errs[i] != nil {
			if !errors.Is(errs[i], errSameEpoch) {
				m.logRefused(r.Assignment, errs[i])
			}
			m.control.refused = m.control.refused || errors.Is(errs[i], kerr.KafkaStorageError)
			continue
		}
		if p == nil {
			continue // later
		}
		delete(m.control.dropped, r.TP)
		m.cfg.LeadershipChanged(r.TP, r.State.LeaderEpoch, r.leads(m.cfg.BrokerID))
		if !r.leads(m.cfg.BrokerID) && r.known && !m.stopping.Load() {
			followed = append(followed, following{p, r.State.LeaderEpoch, r.source})
		}
	}
	m.fetchers.follow(followed)
	m.fetchers.endIdle()
	return errs
}

// readSettings has the settings read of the topics that are not hosted yet, all at once.
func (m *Manager) readSettings(roles []role) {
	topics := make(map[string]bool)
	for i := range roles {
		if topic := roles[i].TP.Topic; !m.Hosts(topic) {
			topics[topic] = topics[topic] || roles[i].State.IsNew
		}
	}
	if len(topics) > 0 {
		m.cfg.ReadSettings(m.ctx, topics)
	}
}

// applyWorkers bounds how many assignments are applied concurrently: each may write files and wait for the disk, which
// combines concurrent writes.
const applyWorkers = 16

// applyAll applies assignments of different partitions concurrently.
func (m *Manager) applyAll(roles []role) ([]*Partition, []error) {
	partitions, errs := make([]*Partition, len(roles)), make([]error, len(roles))
	var next atomic.Int32
	var workers sync.WaitGroup
	count := min(applyWorkers, len(roles))
	if anyTwice(roles) {
		count = 1 // if a partition occurs twice, its last assignment must be applied last
	}
	for range count {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(roles); i = int(next.Add(1)) - 1 {
				partitions[i], errs[i] = m.apply(&roles[i])
			}
		})
	}
	workers.Wait()
	return partitions, errs
}

func anyTwice(roles []role) bool {
	seen := make(map[logstore.TopicPartition]bool, len(roles))
	for _, r := range roles {
		if seen[r.TP] {
			return true
		}
		seen[r.TP] = true
	}
	return false
}

func addressOf(brokers []BrokerAddress, id int32) (BrokerAddress, bool) {
	for _, b := range brokers {
		if b.ID == id {
			return b, true
		}
	}
	return BrokerAddress{}, false
}

func (m *Manager) logRefused(a Assignment, err error) {
	m.log.WithError(err).WithFields(logrus.Fields{logx.Topic: a.TP.Topic, logx.Partition: a.TP.Partition,
		logx.LeaderEpoch: a.State.LeaderEpoch}).Warn("cannot apply a partition's LeaderAndIsr")
}

// errSameEpoch answers a request that brings nothing new; the controller does not mind.
var errSameEpoch = fmt.Errorf("leader epoch already applied: %w", kerr.StaleControllerEpoch)

// apply makes a partition assume its role. If that has to wait for the log, it returns neither a partition nor an
// error.
func (m *Manager) apply(r *role) (*Partition, error) {
	a := r.Assignment
	if !slices.Contains(a.State.Replicas, m.cfg.BrokerID) {
		return nil, fmt.Errorf("%v: replicas %v do not name this broker: %w", a.TP, a.State.Replicas, kerr.UnknownTopicOrPartition)
	}
	if err := m.checkDropped(a); err != nil {
		return nil, err
	}
	p, err := m.obtain(a.TP, a.Topic, a.State.IsNew)
	if errors.Is(err, logstore.ErrLoading) {
		return nil, m.postpone(r)
	}
	m.pending.supersede(r) // the log has been loaded since
	if err != nil {
		return nil, err
	}
	if err := p.Log().Usable(); err != nil { // this is how the controller learns what was in a failed directory
		return p, fmt.Errorf("%v: %w", a.TP, err)
	}
	isNewer, err := p.admit(a)
	if err != nil || !isNewer {
		return p, err
	}
	m.fetchers.remove(a.TP) // before it becomes leader, so that records of an earlier leader are not appended later
	err = p.become(a.State, a.State.Leader == m.cfg.BrokerID)
	m.mover.add(p)
	return p, err
}

// admit reports whether an assignment is newer than the partition's state, or resumes what was stopped in the same
// leader epoch: the controller that stopped it may have been deposed before it wrote why, and its successor does not
// know. The caller holds Manager.control, so that it remains so until the assignment is applied.
func (p *Partition) admit(a Assignment) (isNewer bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	assigned, err := p.assignTopicIDLocked(a.Topic)
	if err != nil {
		return false, err
	}
	switch s := a.State; {
	case s.LeaderEpoch < p.mu.leaderEpoch:
		return false, fmt.Errorf("%v: leader epoch %d, current %d: %w", p.TP, s.LeaderEpoch, p.mu.leaderEpoch, kerr.StaleControllerEpoch)
	case s.LeaderEpoch == p.mu.leaderEpoch && p.mu.role == Offline:
		return true, nil
	case s.LeaderEpoch == p.mu.leaderEpoch && (p.reassignLocked(s) || assigned):
		return false, nil
	case s.LeaderEpoch == p.mu.leaderEpoch:
		return false, errSameEpoch
	}
	return true, nil
}

// become assumes a role.
func (p *Partition) become(s *kmsg.LeaderAndISRRequestTopicPartition, leader bool) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if leader {
		err = p.leadLocked(s)
	} else {
		p.followLocked(s)
	}
	p.Changed.Notify()
	return err
}

// assignTopicIDLocked sets a topic id that was unknown. An id that differs from the known one is INCONSISTENT_TOPIC_ID
// (KIP-516).
func (p *Partition) assignTopicIDLocked(id [16]byte) (assigned bool, err error) {
	none := [16]byte{}
	switch {
	case id == none || id == p.mu.topicID:
		return false, nil
	case p.mu.topicID != none:
		return false, fmt.Errorf("%v: topic id %x, the log has %x: %w", p.TP, id, p.mu.topicID, kerr.InconsistentTopicID)
	}
	if err := p.Log().SetTopicID(id); err != nil {
		return false, err
	}
	p.mu.topicID = id
	return true, nil
}

func (p *Partition) stateLocked(s *kmsg.LeaderAndISRRequestTopicPartition, role Role) {
	p.mu.role, p.mu.leader = role, s.Leader
	p.mu.leaderEpoch, p.mu.partitionEpoch, p.mu.controllerEpoch = s.LeaderEpoch, s.ZKVersion, s.ControllerEpoch
	p.assignReplicasLocked(s)
	p.mu.isr = isrState{committed: s.ISR}
}

// assignReplicasLocked sets which replicas there are.
func (p *Partition) assignReplicasLocked(s *kmsg.LeaderAndISRRequestTopicPartition) {
	p.mu.replicas = union(s.Replicas, s.AddingReplicas)
	p.mu.adding = s.AddingReplicas
	p.mu.reassigning = len(s.AddingReplicas)+len(s.RemovingReplicas) > 0
}

// reassignLocked notes that the replicas have changed without a new leader epoch, and reports whether they have: a
// controller has assigned them and died before it wrote the leader epoch that would have told. Otherwise a leader would
// wait for replicas that no longer exist, and count them for min.insync.replicas.
func (p *Partition) reassignLocked(s *kmsg.LeaderAndISRRequestTopicPartition) bool {
	before := p.mu.replicas
	p.assignReplicasLocked(s)
	if slices.Equal(before, p.mu.replicas) {
		return false
	}
	if p.mu.role == Leader {
		p.resetProgressLocked(p.mu.isr.committed, true)
		p.advanceLocked()
	}
	p.Changed.Notify()
	return true
}

func union(a, b []int32) []int32 {
	for _, id := range b {
		if !slices.Contains(a, id) {
			a = append(slices.Clip(a), id)
		}
	}
	return a
}

func (p *Partition) leadLocked(s *kmsg.LeaderAndISRRequestTopicPartition) error {
	// Another broker may have led in the epochs between, if a controller died before it could say so. Followers have
	// truncated their logs to that leader's, and what they fetched before is no evidence of what they have now.
	again := p.mu.role == Leader && s.LeaderEpoch == p.mu.leaderEpoch+1
	end := p.Log().LogEndOffset()
	if err := p.Log().AssignEpochStart(s.LeaderEpoch, end); err != nil {
		p.mu.role = Offline // with the previous epoch, so that the controller may repeat the same assignment
		return err
	}
	p.stateLocked(s, Leader)
	if !again {
		p.mu.epochStart = end
	}
	p.resetProgressLocked(s.ISR, again)
	p.advanceLocked()
	return nil
}

// resetProgressLocked prepares for a new leader epoch: an in-sync follower has replica.lag.time.max.ms to fetch, and
// the high watermark does not wait for any other until it has caught up in this epoch. known tells whether what
// followers have fetched so far is known (Partition.makeLeader, 3.9).
func (p *Partition) resetProgressLocked(isr []int32, known bool) {
	p.progress.Lock()
	defer p.progress.Unlock()
	before := p.progress.of
	p.progress.of = make(map[int32]*progress)
	for _, id := range p.mu.replicas {
		if id == p.env.brokerID {
			continue
		}
		f := &progress{end: -1, logStart: -1, brokerEpoch: -1}
		if old := before[id]; known && old != nil {
			f.end, f.logStart, f.brokerEpoch = old.end, old.logStart, old.brokerEpoch
		}
		if slices.Contains(isr, id) {
			now := p.env.now()
			f.caughtUp, f.lastFetch, f.lastEnd = now, now, p.Log().LogEndOffset()
		}
		p.progress.of[id] = f
	}
}

func (p *Partition) followLocked(s *kmsg.LeaderAndISRRequestTopicPartition) {
	p.stateLocked(s, Follower)
	p.progress.Lock()
	p.progress.of = nil
	p.progress.Unlock()
}
