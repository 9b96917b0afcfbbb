package controller

import (
	"context"
	"fmt"

	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The election types of ElectLeaders.
const (
	preferredElection = 0
	uncleanElection   = 1
)

// ElectLeaders elects leaders at the request of a tool, for all partitions or for the given ones, and answers when the
// elections are written; the brokers are told by UpdateMetadata. For a request for all partitions, those that need no
// election are omitted from the response.
func (c *Controller) ElectLeaders(ctx context.Context, req *kmsg.ElectLeadersRequest) *kmsg.ElectLeadersResponse {
	return electLeaders.ask(ctx, c, req)
}

var electLeaders = api[*kmsg.ElectLeadersRequest, *kmsg.ElectLeadersResponse]{
	name:   "elect leaders",
	work:   ManualLeaderBalance,
	answer: (*activeController).electLeaders,
	refuse: refuseElections,
}

func refuseElections(req *kmsg.ElectLeadersRequest, resp *kmsg.ElectLeadersResponse) {
	for _, t := range req.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewElectLeadersResponseTopicPartition()
			answer.Partition, answer.ErrorCode = p, kerr.NotController.Code
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
}

func electionAnswer(partition int32, err error) kmsg.ElectLeadersResponseTopicPartition {
	out := kmsg.NewElectLeadersResponseTopicPartition()
	out.Partition = partition
	explain(err, &out.ErrorCode, &out.ErrorMessage)
	return out
}

func (ac *activeController) electLeaders(ctx context.Context, req *kmsg.ElectLeadersRequest) (*kmsg.ElectLeadersResponse, error) {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	unclean := req.Version >= 1 && req.ElectionType == uncleanElection
	if req.Version >= 1 && req.ElectionType != preferredElection && !unclean {
		resp.ErrorCode = kerr.UnknownServerError.Code // as in Apache Kafka, which fails on the number
		return resp, nil
	}
	asked, all := ac.electionsAsked(req)
	verdicts := make(map[topicPartition]error, len(asked))
	var due []topicPartition
	for _, tp := range asked {
		if err := ac.m.electionDue(tp, unclean); err != nil {
			verdicts[tp] = err
			continue
		}
		due = append(due, tp)
	}
	failed, err := ac.electNow(ctx, due, unclean)
	if err != nil {
		return nil, err
	}
	ac.flush()
	if err := ac.completeReassignments(ctx, due); err != nil {
		return nil, err
	}
	for _, tp := range due {
		verdicts[tp] = nil
		if err := failed[tp]; err != nil && unclean {
			verdicts[tp] = fmt.Errorf("%w: %w", err, kerr.EligibleLeadersNotAvailable)
		} else if err != nil {
			verdicts[tp] = fmt.Errorf("%w: %w", err, kerr.PreferredLeaderNotAvailable)
		}
	}
	for _, tp := range asked {
		if all && coded(verdicts[tp]) == kerr.ElectionNotNeeded {
			continue
		}
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != tp.Topic {
			t := kmsg.NewElectLeadersResponseTopic()
			t.Topic = tp.Topic
			resp.Topics = append(resp.Topics, t)
		}
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, electionAnswer(tp.Partition, verdicts[tp]))
	}
	return resp, nil
}

func (ac *activeController) electNow(ctx context.Context, partitions []topicPartition, unclean bool) (map[topicPartition]error, error) {
	if unclean {
		return ac.electLeaderless(ctx, partitions, true)
	}
	return ac.elect(ctx, partitions, electPreferred)
}

func (ac *activeController) electionsAsked(req *kmsg.ElectLeadersRequest) (asked []topicPartition, all bool) {
	if req.Topics == nil {
		return ac.m.partitions(func(topicPartition, *partition) bool { return true }), true
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			asked = append(asked, topicPartition{Topic: t.Topic, Partition: p})
		}
	}
	return asked, false
}

// electionDue returns the reason why there is nothing to elect.
func (m *model) electionDue(tp topicPartition, unclean bool) error {
	p := m.partition(tp)
	switch {
	case p == nil:
		return errPartitionUnknown
	case m.deleting(tp):
		return fmt.Errorf("the topic is being deleted: %w", kerr.InvalidTopicException)
	case p.state == nil:
		return nil // the election will say why not
	}
	if unclean {
		_, live := m.liveEpoch(p.state.Leader)
		if p.state.Leader != zkcoord.NoLeader && live {
			return kerr.ElectionNotNeeded
		}
		return nil
	}
	if preferred, err := firstReplica(tp, p); err == nil && preferred == p.state.Leader {
		return kerr.ElectionNotNeeded
	}
	return nil
}
