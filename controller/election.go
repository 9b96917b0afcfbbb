package controller

import (
	"errors"
	"fmt"
	"slices"

	"barnabas/zkcoord"
)

// electionResult is the result of an election.
type electionResult struct {
	leader     int32
	isr        []int32
	recovering bool    // the new leader was out of sync
	tell       []int32 // the brokers that get a LeaderAndIsr request
}

var (
	// errNobody reports that no replica may become leader.
	errNobody = errors.New("no eligible leader")
	// errUnchanged reports that nothing needs to be written.
	errUnchanged = errors.New("nothing to change")
)

// rule decides about a partition that has a state. It is pure: model and partition in, decision out.
type rule func(m *model, tp topicPartition, p *partition) (electionResult, error)

// electOffline elects a leader for a partition whose leader is gone: the first assigned replica that is online and in
// sync or, if unclean, the first one that is online. Offline replicas are removed from the ISR
// (Election.leaderForOffline, 3.9).
func electOffline(unclean func(topic string) bool, markRecovery bool) rule {
	return func(m *model, tp topicPartition, p *partition) (electionResult, error) {
		live := m.onlineReplicas(tp, p)
		for _, id := range live {
			if slices.Contains(p.state.ISR, id) {
				isr := filter(p.state.ISR, func(id int32) bool { return m.online(id, tp) })
				return electionResult{leader: id, isr: isr, recovering: p.state.Recovering, tell: live}, nil
			}
		}
		if len(live) == 0 || !unclean(tp.Topic) {
			return electionResult{}, fmt.Errorf("%w for %v: in sync are %v, online are %v of the replicas %v", errNobody, tp, p.state.ISR, live, p.replicas)
		}
		leader := live[0]
		// A replica that a reassignment has just added may have no records at all.
		if older := without(live, p.adding); len(older) > 0 {
			leader = older[0]
		}
		return electionResult{leader: leader, isr: []int32{leader}, recovering: markRecovery || p.state.Recovering, tell: live}, nil
	}
}

// electPreferred makes the first assigned replica the leader if it is online and in sync.
func electPreferred(m *model, tp topicPartition, p *partition) (electionResult, error) {
	preferred, err := firstReplica(tp, p)
	if err != nil {
		return electionResult{}, err
	}
	if !m.online(preferred, tp) || !slices.Contains(p.state.ISR, preferred) {
		return electionResult{}, fmt.Errorf("%w for %v: the preferred replica %d is offline or not in sync (%v)", errNobody, tp, preferred, p.state.ISR)
	}
	return electionResult{leader: preferred, isr: p.state.ISR, recovering: p.state.Recovering, tell: p.replicas}, nil
}

// firstReplica returns the preferred leader. Apache Kafka accepts a partition without replicas and fails on it later;
// here it is an error.
func firstReplica(tp topicPartition, p *partition) (int32, error) {
	if len(p.replicas) == 0 {
		return zkcoord.NoLeader, fmt.Errorf("%w for %v: it has no replicas", errNobody, tp)
	}
	return p.replicas[0], nil
}

// electAmong makes the first of the candidates, the replicas that stay after a reassignment, that is online and in sync
// the leader, and tells them. It removes from the ISR those that are not among the members (see keepLeader).
func electAmong(candidates, members []int32) rule {
	return func(m *model, tp topicPartition, p *partition) (electionResult, error) {
		for _, id := range candidates {
			if m.online(id, tp) && slices.Contains(p.state.ISR, id) {
				isr := filter(p.state.ISR, func(id int32) bool { return slices.Contains(members, id) })
				return electionResult{leader: id, isr: isr, recovering: p.state.Recovering, tell: candidates}, nil
			}
		}
		return electionResult{}, fmt.Errorf("%w for %v: none of %v is online and in sync (%v)", errNobody, tp, candidates, p.state.ISR)
	}
}

// electForShutdown moves the leadership off brokers that are shutting down, and removes them from the ISR.
func electForShutdown(m *model, tp topicPartition, p *partition) (electionResult, error) {
	tell := filter(p.replicas, func(id int32) bool { return m.serving(id, tp) })
	for _, id := range tell {
		if slices.Contains(p.state.ISR, id) && m.online(id, tp) {
			isr := filter(p.state.ISR, func(id int32) bool { b := m.brokers[id]; return b == nil || !b.shuttingDown })
			return electionResult{leader: id, isr: isr, recovering: p.state.Recovering, tell: tell}, nil
		}
	}
	return electionResult{}, fmt.Errorf("%w for %v: no other replica of %v is online and in sync (%v)", errNobody, tp, p.replicas, p.state.ISR)
}

// dropReplica removes a replica from the ISR and as the leader. The last in-sync replica stays in the ISR, since only
// it has all records (ReplicaStateMachine.doRemoveReplicasFromIsr, 3.9).
func dropReplica(id int32) rule {
	return func(_ *model, _ topicPartition, p *partition) (electionResult, error) {
		if !slices.Contains(p.state.ISR, id) && p.state.Leader != id {
			return electionResult{}, errUnchanged
		}
		o := electionResult{leader: p.state.Leader, isr: p.state.ISR, recovering: p.state.Recovering, tell: without(p.replicas, []int32{id})}
		if o.leader == id {
			o.leader = zkcoord.NoLeader
		}
		if len(o.isr) > 1 {
			o.isr = without(o.isr, []int32{id})
		}
		if slices.Contains(p.replicas, id) && len(without(o.isr, p.replicas)) == len(o.isr) {
			o.isr = []int32{id} // all others are no replicas any more (see keepLeader) and may have been deleted
		}
		return o, nil
	}
}

// keepLeader writes the next leader epoch and tells the given replicas. It removes from the ISR those that are not
// among the members: a leader that writes the ISR itself may have added them before it heard that they are no longer
// replicas.
func keepLeader(members, tell []int32) rule {
	return func(_ *model, _ topicPartition, p *partition) (electionResult, error) {
		o := electionResult{leader: p.state.Leader, isr: p.state.ISR, recovering: p.state.Recovering, tell: tell}
		if isr := filter(o.isr, func(id int32) bool { return slices.Contains(members, id) }); len(isr) > 0 {
			o.isr = isr
		}
		return o, nil
	}
}

// firstState returns a new partition's state: all online replicas are in sync, and the first one leads.
func firstState(m *model, tp topicPartition, p *partition) (electionResult, error) {
	live := m.onlineReplicas(tp, p)
	if len(live) == 0 {
		return electionResult{}, fmt.Errorf("%w for %v: none of its replicas %v is online", errNobody, tp, p.replicas)
	}
	return electionResult{leader: live[0], isr: live, tell: live}, nil
}

// next returns the state for a result, to be written over the present one.
func (o electionResult) next(present zkcoord.PartitionState, controllerEpoch int32) zkcoord.PartitionState {
	return zkcoord.PartitionState{
		Leader:          o.leader,
		LeaderEpoch:     present.LeaderEpoch + 1,
		ISR:             o.isr,
		ControllerEpoch: controllerEpoch,
		Recovering:      o.recovering,
		PartitionEpoch:  present.PartitionEpoch,
	}
}
