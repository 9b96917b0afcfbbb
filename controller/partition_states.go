package controller

import (
	"context"
	"errors"
	"maps"
	"slices"

	"barnabas/internal/logx"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// refresh reads the states of partitions; those without one keep what they have.
func (ac *activeController) refresh(ctx context.Context, partitions []topicPartition) error {
	states, err := ac.store.PartitionStates(ctx, partitions)
	if err != nil {
		return err
	}
	for tp, state := range states {
		if p := ac.m.partition(tp); p != nil {
			p.state = &state
		}
	}
	return nil
}

// isrsNotified reads the states that leaders have written themselves.
func (ac *activeController) isrsNotified(ctx context.Context) error {
	partitions, numbers, err := ac.store.WatchISRNotifications(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(partitions, topicPartition.Compare)
	partitions = slices.DeleteFunc(slices.Compact(partitions), func(tp topicPartition) bool { return ac.m.partition(tp) == nil })
	if err := ac.refresh(ctx, partitions); err != nil {
		return err
	}
	ac.b.update(ac.m.brokerIDs(), partitions...)
	ac.flush()
	if err := ac.store.RemoveISRNotifications(ctx, ac.term, numbers); err != nil {
		return err
	}
	return ac.completeReassignments(ctx, partitions)
}

// bringOnline gives new partitions their first state, and those without a leader a new one if possible. The replicas
// that are then in sync may complete a reassignment.
func (ac *activeController) bringOnline(ctx context.Context) error {
	fresh := ac.m.partitions(func(tp topicPartition, p *partition) bool { return p.state == nil && !ac.m.deleting(tp) })
	if err := ac.create(ctx, fresh); err != nil {
		return err
	}
	leaderless := ac.m.partitions(func(tp topicPartition, p *partition) bool {
		return p.state != nil && ac.m.leaderless(tp, p) && !ac.m.deleting(tp)
	})
	if _, err := ac.electLeaderless(ctx, leaderless, false); err != nil {
		return err
	}
	return ac.completeReassignments(ctx, sorted(ac.m.reassigning))
}

// dropOffline removes offline replicas from the ISRs, and tells the partitions' other replicas.
func (ac *activeController) dropOffline(ctx context.Context, offline map[int32][]topicPartition) error {
	for _, id := range slices.Sorted(maps.Keys(offline)) {
		for _, tp := range offline[id] {
			ac.b.stopReplica(id, tp, false) // in case the broker is alive and only a log directory has failed
			ac.b.update(ac.m.brokerIDs(), tp)
		}
		if _, err := ac.elect(ctx, offline[id], dropReplica(id)); err != nil {
			return err
		}
	}
	return nil
}

// offlineReplicas lists the partitions with a replica on an offline broker, by broker.
func (ac *activeController) offlineReplicas() map[int32][]topicPartition {
	offline := make(map[int32][]topicPartition)
	for _, tp := range ac.m.partitions(func(tp topicPartition, _ *partition) bool { return !ac.m.deleting(tp) }) {
		for _, id := range ac.m.partition(tp).replicas {
			if !ac.m.online(id, tp) {
				offline[id] = append(offline[id], tp)
			}
		}
	}
	return offline
}

// dropNonReplicas removes brokers from the ISRs of partitions of which they are not replicas: a leader that writes the
// ISR itself may have added one just before its controller died, which had moved the partition off that broker.
func (ac *activeController) dropNonReplicas(ctx context.Context) error {
	for _, tp := range ac.m.partitions(func(tp topicPartition, p *partition) bool {
		return p.state != nil && !ac.m.deleting(tp) && len(without(p.state.ISR, p.replicas)) > 0
	}) {
		p := ac.m.partition(tp)
		if _, err := ac.elect(ctx, []topicPartition{tp}, keepLeader(p.replicas, p.replicas)); err != nil {
			return err
		}
	}
	return nil
}

// electLeaderless elects leaders for partitions without one. force allows out-of-sync leaders whatever the configuration
// says.
func (ac *activeController) electLeaderless(ctx context.Context, partitions []topicPartition, force bool) (map[topicPartition]error, error) {
	unclean := func(string) bool { return true }
	if !force {
		var err error
		if unclean, err = ac.uncleanTopics(ctx, partitions); err != nil {
			return nil, err
		}
	}
	return ac.elect(ctx, partitions, electOffline(unclean, ac.c.cfg.Protocol.LeaderRecovery))
}

// uncleanTopics reads which topics allow out-of-sync leaders, as far as that matters for one of their partitions.
func (ac *activeController) uncleanTopics(ctx context.Context, partitions []topicPartition) (func(topic string) bool, error) {
	var need []string
	for _, tp := range partitions {
		p := ac.m.partition(tp)
		inSync := slices.ContainsFunc(p.state.ISR, func(id int32) bool { return ac.m.online(id, tp) })
		if !inSync && !slices.Contains(need, tp.Topic) {
			need = append(need, tp.Topic)
		}
	}
	configs, err := ac.store.EntityConfigs(ctx, zkcoord.Topics, need)
	if err != nil {
		return nil, err
	}
	return func(topic string) bool {
		if v, ok := configs[topic]["unclean.leader.election.enable"]; ok {
			return v == "true"
		}
		return ac.c.cfg.UncleanDefault()
	}, nil
}

// create gives partitions their first state. Those without an online replica have to wait.
func (ac *activeController) create(ctx context.Context, partitions []topicPartition) error {
	var writes []zkcoord.StateWrite
	waiting := make(map[topicPartition]error)
	defer ac.logFailed(waiting)
	for _, tp := range partitions {
		out, err := firstState(ac.m, tp, ac.m.partition(tp))
		if err != nil {
			waiting[tp] = err
			continue
		}
		writes = append(writes, zkcoord.StateWrite{Partition: tp, State: zkcoord.PartitionState{
			Leader: out.leader, ISR: out.isr, ControllerEpoch: ac.term.Epoch}})
	}
	if len(writes) == 0 {
		return nil
	}
	results, err := ac.store.CreateStates(ctx, ac.term, writes)
	if err != nil {
		return err
	}
	var there []topicPartition
	for i, r := range results {
		tp := writes[i].Partition
		if r.Err != nil {
			there = append(there, tp)
			continue
		}
		ac.m.partition(tp).state = &r.State
		ac.b.lead(ac.m, r.State.ISR, tp, true)
	}
	if len(there) == 0 {
		return nil
	}
	// Their state exists although this controller was not told, or their topic is gone.
	if err := ac.refresh(ctx, there); err != nil {
		return err
	}
	for _, tp := range there {
		if p := ac.m.partition(tp); p.state != nil {
			ac.b.lead(ac.m, ac.m.onlineReplicas(tp, p), tp, true)
		}
	}
	return nil
}

// elect applies the rule to partitions, writes the results and collects what the brokers have to be told. If a state
// has been changed concurrently, it reads the state and decides again. The result has the partitions for which it
// failed, with the reason; partitions for which the rule says that nothing is needed are not included.
func (ac *activeController) elect(ctx context.Context, partitions []topicPartition, decide rule) (map[topicPartition]error, error) {
	failed := make(map[topicPartition]error)
	if !ac.c.cfg.Protocol.AlterPartition { // leaders write the ISR, so the known state may be outdated
		if err := ac.refresh(ctx, partitions); err != nil {
			return nil, err
		}
	}
	for len(partitions) > 0 {
		writes, tell := ac.decide(partitions, decide, failed)
		if len(writes) == 0 {
			break
		}
		results, err := ac.store.WriteStates(ctx, ac.term, writes)
		if err != nil {
			return nil, err
		}
		partitions = nil
		for i, r := range results {
			tp := writes[i].Partition
			if r.Err != nil {
				partitions = append(partitions, tp)
				continue
			}
			ac.enter(tp, r.State, tell[i])
		}
		if partitions, err = ac.reread(ctx, partitions, failed); err != nil {
			return nil, err
		}
	}
	ac.logFailed(failed)
	return failed, nil
}

// logFailed logs once how many partitions got no leader, with one of the reasons.
func (ac *activeController) logFailed(failed map[topicPartition]error) {
	for _, tp := range sorted(failed) {
		ac.log.WithError(failed[tp]).WithField(logx.Count, len(failed)).Warn("no leader elected")
		return
	}
}

func (ac *activeController) decide(partitions []topicPartition, decide rule, failed map[topicPartition]error) (writes []zkcoord.StateWrite, tell [][]int32) {
	for _, tp := range partitions {
		p := ac.m.partition(tp)
		if p == nil || p.state == nil {
			failed[tp] = errNobody
			continue
		}
		out, err := decide(ac.m, tp, p)
		switch {
		case errors.Is(err, errUnchanged):
		case err != nil:
			failed[tp] = err
		default:
			writes = append(writes, zkcoord.StateWrite{Partition: tp, State: out.next(*p.state, ac.term.Epoch)})
			tell = append(tell, out.tell)
		}
	}
	return writes, tell
}

// enter applies a written state, and collects who has to be told.
func (ac *activeController) enter(tp topicPartition, state zkcoord.PartitionState, tell []int32) {
	before := ac.m.partition(tp).state
	ac.m.partition(tp).state = &state
	if state.Leader != zkcoord.NoLeader && !slices.Contains(before.ISR, state.Leader) {
		ac.c.unclean.Add(1)
		ac.log.WithFields(logrus.Fields{
			logx.Topic: tp.Topic, logx.Partition: tp.Partition, logx.LeaderEpoch: state.LeaderEpoch, logx.Leader: state.Leader, logx.ISR: before.ISR,
		}).Warn("an out-of-sync replica has become leader: acknowledged records may be lost")
	}
	ac.log.WithFields(logrus.Fields{
		logx.Topic: tp.Topic, logx.Partition: tp.Partition, logx.LeaderEpoch: state.LeaderEpoch, logx.Value: state.Leader,
	}).Debug("partition state written")
	if !ac.m.deleting(tp) {
		ac.b.lead(ac.m, tell, tp, false)
	}
}

// reread reads the states of partitions that have been changed concurrently. Those whose state is as known, or gone,
// cannot make progress: they fail.
func (ac *activeController) reread(ctx context.Context, partitions []topicPartition, failed map[topicPartition]error) ([]topicPartition, error) {
	if len(partitions) == 0 {
		return nil, nil
	}
	before := make(map[topicPartition]int32, len(partitions))
	for _, tp := range partitions {
		before[tp] = ac.m.partition(tp).state.PartitionEpoch
	}
	if err := ac.refresh(ctx, partitions); err != nil {
		return nil, err
	}
	var again []topicPartition
	for _, tp := range partitions {
		if ac.m.partition(tp).state.PartitionEpoch == before[tp] {
			failed[tp] = zkcoord.ErrConflict
			continue
		}
		again = append(again, tp)
	}
	return again, nil
}
