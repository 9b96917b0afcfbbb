package controller

import (
	"context"
	"errors"
	"slices"

	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterPartition changes the ISRs of partitions as requested by their leader.
func (c *Controller) AlterPartition(ctx context.Context, req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	return alterPartition.ask(ctx, c, req)
}

var alterPartition = api[*kmsg.AlterPartitionRequest, *kmsg.AlterPartitionResponse]{
	name:   "alter partition",
	work:   ISRChange,
	answer: (*activeController).alterPartition,
	refuse: func(_ *kmsg.AlterPartitionRequest, resp *kmsg.AlterPartitionResponse) {
		resp.ErrorCode = kerr.NotController.Code
	},
}

// isrChange is a leader's request for one partition.
type isrChange struct {
	leader         int32
	leaderEpoch    int32
	isr            []int32
	recovering     bool
	partitionEpoch int32
	epochs         []int64 // broker epochs of isr when its members fetched; nil or -1: unknown
}

// checkISRChange returns the reason why a change cannot be made, or errUnchanged if the ISR is already as requested.
func (m *model) checkISRChange(tp topicPartition, ask isrChange, version int16) error {
	p := m.partition(tp)
	if p == nil || p.state == nil {
		return kerr.UnknownTopicOrPartition
	}
	now := p.state
	switch {
	case ask.partitionEpoch > now.PartitionEpoch || ask.leaderEpoch > now.LeaderEpoch:
		return kerr.NotController // the leader knows more than this controller
	case ask.leaderEpoch < now.LeaderEpoch:
		return kerr.FencedLeaderEpoch
	case ask.leader == now.Leader && ask.recovering == now.Recovering && slices.Equal(ask.isr, now.ISR):
		return errUnchanged
	case ask.partitionEpoch < now.PartitionEpoch:
		return kerr.InvalidUpdateVersion
	case ask.recovering && (len(ask.isr) > 1 || !now.Recovering):
		return kerr.InvalidRequest
	}
	for i, id := range ask.isr {
		// A replica that was restarted since it fetched may have lost records (KIP-903).
		epoch, live := m.liveEpoch(id)
		if id == now.Leader { // even while it is shutting down, so that replicas that catch up can take over from it
			epoch, live = m.registeredEpoch(id)
		}
		anew := i < len(ask.epochs) && ask.epochs[i] >= 0 && ask.epochs[i] != epoch
		// The leader may not have heard that a replica was taken off the partition: an earlier controller died before it
		// could say so.
		if !live || anew || !slices.Contains(p.replicas, id) {
			if version > 1 {
				return kerr.IneligibleReplica
			}
			return kerr.OperationNotAttempted
		}
	}
	return nil
}

func (ac *activeController) alterPartition(ctx context.Context, req *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error) {
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	if epoch, ok := ac.m.registeredEpoch(req.BrokerID); !ok || epoch != req.BrokerEpoch {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp, nil
	}
	errs := make(map[topicPartition]error)
	var writes []zkcoord.StateWrite
	ac.eachAsked(req, func(tp topicPartition, ask isrChange) {
		err := ac.m.checkISRChange(tp, ask, req.Version)
		errs[tp] = err
		if err == nil {
			writes = append(writes, zkcoord.StateWrite{Partition: tp, State: zkcoord.PartitionState{
				Leader: ask.leader, LeaderEpoch: ask.leaderEpoch, ISR: ask.isr, Recovering: ask.recovering,
				ControllerEpoch: ac.term.Epoch, PartitionEpoch: ask.partitionEpoch}})
		}
	})
	written, err := ac.writeISRs(ctx, writes, errs)
	if err != nil {
		return nil, err
	}
	for tp := range errs {
		ac.b.update(ac.m.brokerIDs(), tp)
	}
	ac.flush()
	ac.fillAltered(req, resp, errs)
	return resp, ac.completeReassignments(ctx, written)
}

// writeISRs writes the changes and adds errors to errs.
func (ac *activeController) writeISRs(ctx context.Context, writes []zkcoord.StateWrite, errs map[topicPartition]error) (written []topicPartition, err error) {
	if len(writes) == 0 {
		return nil, nil
	}
	results, err := ac.store.WriteStates(ctx, ac.term, writes)
	if err != nil {
		return nil, err
	}
	var lost []topicPartition
	for i, r := range results {
		tp := writes[i].Partition
		if r.Err != nil {
			errs[tp] = kerr.InvalidUpdateVersion
			lost = append(lost, tp)
			continue
		}
		ac.m.partition(tp).state = &r.State
		written = append(written, tp)
	}
	return written, ac.refresh(ctx, lost)
}

// eachAsked calls f for every requested partition of known topics.
func (ac *activeController) eachAsked(req *kmsg.AlterPartitionRequest, f func(topicPartition, isrChange)) {
	for _, t := range req.Topics {
		name, known := ac.askedTopic(req.Version, t)
		if !known {
			continue
		}
		for _, p := range t.Partitions {
			ask := isrChange{req.BrokerID, p.LeaderEpoch, p.NewISR, p.LeaderRecoveryState == 1, p.PartitionEpoch, nil}
			if req.Version >= 3 {
				ask.isr = make([]int32, len(p.NewEpochISR))
				ask.epochs = make([]int64, len(p.NewEpochISR))
				for i, member := range p.NewEpochISR {
					ask.isr[i], ask.epochs[i] = member.BrokerID, member.BrokerEpoch
				}
			}
			f(topicPartition{Topic: name, Partition: p.Partition}, ask)
		}
	}
}

func (ac *activeController) askedTopic(version int16, t kmsg.AlterPartitionRequestTopic) (name string, known bool) {
	if version < 2 {
		return t.Topic, true
	}
	name, known = ac.m.names[t.TopicID]
	return name, known
}

func (ac *activeController) fillAltered(req *kmsg.AlterPartitionRequest, resp *kmsg.AlterPartitionResponse, errs map[topicPartition]error) {
	for _, t := range req.Topics {
		out := kmsg.NewAlterPartitionResponseTopic()
		out.Topic, out.TopidID = t.Topic, t.TopicID
		name, known := ac.askedTopic(req.Version, t)
		for _, p := range t.Partitions {
			tp := topicPartition{Topic: name, Partition: p.Partition}
			err := errs[tp]
			if !known {
				err = kerr.UnknownTopicID
			}
			out.Partitions = append(out.Partitions, ac.altered(tp, err))
		}
		resp.Topics = append(resp.Topics, out)
	}
}

// altered answers for one partition: with the error, or with the state after the change.
func (ac *activeController) altered(tp topicPartition, err error) kmsg.AlterPartitionResponseTopicPartition {
	answer := kmsg.NewAlterPartitionResponseTopicPartition()
	answer.Partition = tp.Partition
	if err != nil && !errors.Is(err, errUnchanged) {
		answer.ErrorCode = coded(err).Code
		return answer
	}
	s := ac.m.partition(tp).state
	answer.LeaderID, answer.LeaderEpoch, answer.ISR, answer.PartitionEpoch = s.Leader, s.LeaderEpoch, s.ISR, s.PartitionEpoch
	if s.Recovering {
		answer.LeaderRecoveryState = 1
	}
	return answer
}
