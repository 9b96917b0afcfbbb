package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"barnabas/internal/logx"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
)

// moving reports whether the partition is being reassigned.
func (a assignment) moving() bool { return len(a.adding)+len(a.removing) > 0 }

// target returns where the replicas are to be; origin, where they were.
func (a assignment) target() []int32 { return without(a.replicas, a.removing) }
func (a assignment) origin() []int32 { return without(a.replicas, a.adding) }

// to returns the assignment that leads to a target: the target's replicas first, then those to be removed, which
// existed before.
func (a assignment) to(target []int32) assignment {
	origin := a.origin()
	all := append(slices.Clone(target), without(origin, target)...)
	return assignment{replicas: all, adding: without(all, origin), removing: without(all, target)}
}

func (a assignment) equal(b assignment) bool {
	return slices.Equal(a.replicas, b.replicas) && slices.Equal(a.adding, b.adding) && slices.Equal(a.removing, b.removing)
}

// complete reports whether all of a reassignment's target is in sync.
func (p *partition) complete() bool {
	if !p.moving() {
		return true
	}
	return p.state != nil && len(without(p.target(), p.state.ISR)) == 0
}

// checkTarget returns what is wrong with a reassignment's target.
func (m *model) checkTarget(tp topicPartition, target []int32) error {
	seen := make(map[int32]struct{}, len(target))
	for _, id := range target {
		if id < 0 {
			return fmt.Errorf("replica list %v has an invalid broker id: %w", target, kerr.InvalidReplicaAssignment)
		}
		if _, twice := seen[id]; twice {
			return fmt.Errorf("replica list %v names a broker twice: %w", target, kerr.InvalidReplicaAssignment)
		}
		seen[id] = struct{}{}
	}
	if len(target) == 0 {
		return fmt.Errorf("replica list is empty: %w", kerr.InvalidReplicaAssignment)
	}
	var now assignment
	if p := m.partition(tp); p != nil {
		now = p.assignment
	}
	for _, id := range now.to(target).adding {
		if _, live := m.liveEpoch(id); !live {
			return fmt.Errorf("replica list %v has broker %d, which is not alive: %w", target, id, kerr.InvalidReplicaAssignment)
		}
	}
	return nil
}

// reassign moves a partition to a target or, without one, back to where it was. Its errors have a code unless ZooKeeper
// or the controllership is lost.
func (ac *activeController) reassign(ctx context.Context, tp topicPartition, target []int32) error {
	p := ac.m.partition(tp)
	if p == nil || ac.m.deleting(tp) {
		return errPartitionUnknown
	}
	if target == nil {
		if !p.moving() {
			return kerr.NoReassignmentInProgress
		}
		target = p.origin()
	}
	next := p.to(target)
	if err := keepsRecords(p, next); err != nil {
		return err
	}
	return ac.move(ctx, tp, next)
}

// keepsRecords reports whether one of the replicas of an assignment is in sync. Otherwise all records would be deleted
// with the dropped replicas: another target, or a cancellation, is requested while only replicas of the last target are
// in sync. Apache Kafka loses the records in ZooKeeper mode, and refuses in KRaft mode.
func keepsRecords(p *partition, next assignment) error {
	if p.state == nil || slices.ContainsFunc(p.state.ISR, func(id int32) bool { return slices.Contains(next.replicas, id) }) {
		return nil
	}
	return fmt.Errorf("none of the replicas %v is in sync, only %v are: %w", next.replicas, p.state.ISR, kerr.InvalidReplicaAssignment)
}

var errPartitionUnknown = fmt.Errorf("the partition does not exist: %w", kerr.UnknownTopicOrPartition)

// move starts, changes, continues or completes a reassignment (KafkaController.onPartitionReassignment, 3.9).
func (ac *activeController) move(ctx context.Context, tp topicPartition, next assignment) error {
	p := ac.m.partition(tp)
	if !p.equal(next) {
		if err := ac.dropFromTarget(ctx, tp, next); err != nil {
			return err
		}
		if err := ac.assign(ctx, tp, next); err != nil {
			return err
		}
	}
	ac.m.reassigning[tp] = struct{}{}
	if p.state == nil { // none of its replicas has been online so far, but the new ones may be
		if err := ac.create(ctx, []topicPartition{tp}); err != nil {
			return err
		}
	}
	if p.complete() {
		if done, err := ac.finishMove(ctx, tp, p); done || err != nil {
			return err
		}
	}
	ac.log.WithField(logx.Topic, tp.Topic).WithField(logx.Partition, tp.Partition).Info("reassignment under way")
	if _, err := ac.elect(ctx, []topicPartition{tp}, keepLeader(p.replicas, p.replicas)); err != nil {
		return err
	}
	// New replicas are told in the same request, as new ones.
	for _, id := range p.adding {
		ac.b.lead(ac.m, []int32{id}, tp, true)
	}
	ac.flush()
	return nil
}

// dropFromTarget takes replicas that are not in the new target out of service and out of the leadership. That is
// written before the assignment: if the controller dies in between, there must not be a partition whose in-sync
// replicas are not among its replicas.
func (ac *activeController) dropFromTarget(ctx context.Context, tp topicPartition, next assignment) error {
	p := ac.m.partition(tp)
	dropped := without(p.replicas, next.replicas)
	if len(dropped) == 0 {
		return nil
	}
	if p.state != nil && slices.Contains(dropped, p.state.Leader) {
		if _, err := ac.elect(ctx, []topicPartition{tp}, electAmong(next.replicas, p.replicas)); err != nil {
			return err
		}
		ac.flush()
	}
	return ac.stopReplicas(ctx, tp, dropped)
}

// finishMove makes a reassignment's target the assignment. It is not done if none of the target can lead.
func (ac *activeController) finishMove(ctx context.Context, tp topicPartition, p *partition) (done bool, err error) {
	before, removed := p.assignment, p.removing
	p.assignment = assignment{replicas: p.target()}
	led, err := ac.keepLeaderIn(ctx, tp, p, removed)
	if err != nil {
		return false, err
	}
	if !led { // the target's in-sync replicas have gone offline or out of sync
		p.assignment = before
		return false, nil
	}
	ac.flush()
	if err := ac.stopReplicas(ctx, tp, removed); err != nil {
		return false, err
	}
	if err := ac.assign(ctx, tp, p.assignment); err != nil {
		return false, err
	}
	delete(ac.m.reassigning, tp)
	if err := ac.trimAsked(ctx, func(asked topicPartition, target []int32) bool {
		return asked == tp && slices.Equal(target, p.replicas)
	}); err != nil {
		return false, err
	}
	ac.b.update(ac.m.brokerIDs(), tp)
	ac.flush()
	ac.log.WithField(logx.Topic, tp.Topic).WithField(logx.Partition, tp.Partition).Info("reassignment complete")
	return true, nil
}

// keepLeaderIn ensures that the leader is one of the replicas that stay, and tells them. Those to be removed leave the
// ISR later. led is false if none that stays can lead.
func (ac *activeController) keepLeaderIn(ctx context.Context, tp topicPartition, p *partition, removed []int32) (led bool, err error) {
	if p.state == nil {
		return true, nil
	}
	members := slices.Concat(p.replicas, removed)
	decide := electAmong(p.replicas, members)
	if slices.Contains(p.replicas, p.state.Leader) && ac.m.online(p.state.Leader, tp) {
		decide = keepLeader(members, p.replicas)
	}
	failed, err := ac.elect(ctx, []topicPartition{tp}, decide)
	return failed[tp] == nil, err
}

// stopReplicas removes replicas from the ISR, and deletes them once all are out: a replica that is told about the next
// one to go must not have been deleted yet.
func (ac *activeController) stopReplicas(ctx context.Context, tp topicPartition, brokers []int32) error {
	for _, id := range brokers {
		ac.b.stopReplica(id, tp, false)
		if _, err := ac.elect(ctx, []topicPartition{tp}, dropReplica(id)); err != nil {
			return err
		}
		ac.flush()
	}
	for _, id := range brokers {
		ac.b.stopReplica(id, tp, true)
	}
	ac.flush()
	return nil
}

// assign writes a partition's assignment and applies it to the model.
func (ac *activeController) assign(ctx context.Context, tp topicPartition, a assignment) error {
	t := ac.m.topics[tp.Topic]
	before := t.partitions[tp.Partition].assignment
	t.partitions[tp.Partition].assignment = a
	err := ac.setTopic(ctx, t)
	if err != nil {
		t.partitions[tp.Partition].assignment = before
	}
	if errors.Is(err, zkcoord.ErrNoTopic) {
		return errPartitionUnknown
	}
	return err
}

// setTopic writes a topic as in the model. Partitions that have been added meanwhile are added to the model first, and
// brought online.
func (ac *activeController) setTopic(ctx context.Context, t *topic) error {
	var added []topicPartition
	for {
		version, err := ac.store.SetTopic(ctx, ac.term, t.topicInfo())
		if err == nil {
			t.version = version
			return ac.partitionsAdded(ctx, added)
		}
		if !errors.Is(err, zkcoord.ErrConflict) {
			return err
		}
		infos, err := ac.store.WatchTopicInfos(ctx, []string{t.name})
		if err != nil {
			return err
		}
		if len(infos) == 0 || infos[0].ID != t.id {
			return zkcoord.ErrNoTopic
		}
		added = append(added, ac.m.addTopic(infos[0])...)
	}
}

// completeReassignments completes those of the partitions whose target is in sync.
func (ac *activeController) completeReassignments(ctx context.Context, partitions []topicPartition) error {
	for _, tp := range partitions {
		p := ac.m.partition(tp)
		if _, moving := ac.m.reassigning[tp]; !moving || p == nil || !p.complete() {
			continue
		}
		if err := ac.move(ctx, tp, p.assignment); err != nil && coded(err) == nil {
			return err
		}
	}
	return nil
}

// resumeReassignments continues what an earlier controller has begun.
func (ac *activeController) resumeReassignments(ctx context.Context) error {
	return ac.resume(ctx, func(*partition) bool { return true })
}

// resumeReassignmentsOn continues reassignments to brokers that have joined.
func (ac *activeController) resumeReassignmentsOn(ctx context.Context, brokers []int32) error {
	return ac.resume(ctx, func(p *partition) bool {
		return slices.ContainsFunc(p.target(), func(id int32) bool { return slices.Contains(brokers, id) })
	})
}

func (ac *activeController) resume(ctx context.Context, which func(*partition) bool) error {
	for _, tp := range sorted(ac.m.reassigning) {
		p := ac.m.partition(tp)
		if p == nil || !which(p) {
			continue
		}
		if err := ac.move(ctx, tp, p.assignment); err != nil && coded(err) == nil {
			return err
		}
	}
	return nil
}

// reassignmentsAsked starts the reassignments requested by the legacy node, and removes those from it that are invalid
// or done.
func (ac *activeController) reassignmentsAsked(ctx context.Context) error {
	targets, present, err := ac.store.WatchReassignments(ctx)
	if err != nil || !present {
		return err
	}
	settled := make(map[topicPartition]struct{})
	for _, tp := range sorted(targets) {
		target := targets[tp]
		log := ac.log.WithField(logx.Topic, tp.Topic).WithField(logx.Partition, tp.Partition)
		p := ac.m.partition(tp)
		if p != nil && !ac.m.deleting(tp) && p.moving() && slices.Equal(p.target(), target) {
			continue // in progress
		}
		err := ac.m.checkTarget(tp, target)
		if err == nil {
			err = ac.reassign(ctx, tp, target)
		}
		switch {
		case err == nil && ac.m.partition(tp).moving():
			continue
		case err != nil && coded(err) == nil:
			return err
		case err != nil:
			log.WithError(err).Warn("dropped a requested reassignment")
		}
		settled[tp] = struct{}{}
	}
	return ac.trimAsked(ctx, func(tp topicPartition, _ []int32) bool { _, ok := settled[tp]; return ok })
}

// trimAsked removes entries from the legacy node of requested reassignments.
func (ac *activeController) trimAsked(ctx context.Context, drop func(tp topicPartition, target []int32) bool) error {
	targets, present, err := ac.store.WatchReassignments(ctx)
	if err != nil || !present {
		return err
	}
	n := len(targets)
	for tp, target := range targets {
		if drop(tp, target) {
			delete(targets, tp)
		}
	}
	if len(targets) == n && n > 0 {
		return nil
	}
	return ac.store.SetReassignments(ctx, ac.term, targets)
}
