package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/broker/metadata"
	"barnabas/internal/errcode"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// uncleanElection is the election type of ElectLeaders that allows out-of-sync leaders.
const uncleanElection = 1

// electLeaders answers when this broker's metadata shows the new leaders or the timeout expires (DelayedElectLeader,
// 3.9).
//
// v1: unclean elections (KIP-460). v2: flexible (KIP-482).
func (h *Handlers) electLeaders(ctx context.Context, c *Call, req *kmsg.ElectLeadersRequest) network.Answer {
	if err := h.authorize.cluster(c, acl.Alter); err != nil {
		return ready(c, electionsDenied(req, err))
	}
	resp := h.Controller.ElectLeaders(ctx, req)
	resp.SetVersion(c.Version)
	unclean := c.Version >= 1 && req.ElectionType == uncleanElection
	return network.Later(func(ctx context.Context) network.Response {
		ctx, cancel := c.waiting(ctx, req.TimeoutMillis)
		defer cancel()
		for i := range resp.Topics {
			t := &resp.Topics[i]
			for j := range t.Partitions { // they share one deadline, so waiting in turn is waiting for all
				out := &t.Partitions[j]
				if out.ErrorCode != 0 {
					continue
				}
				err := h.awaitMetadata(ctx, func(p *metadata.Snapshot) bool { return electionShown(p, t.Topic, out.Partition, unclean) })
				if err != nil {
					out.ErrorCode = kerr.RequestTimedOut.Code
				}
			}
		}
		return resp
	})
}

// electionsDenied is the response to a client that may not elect leaders.
func electionsDenied(req *kmsg.ElectLeadersRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrElectLeadersResponse()
	resp.ErrorCode = errcode.Of(err)
	for _, t := range req.Topics {
		topic := kmsg.NewElectLeadersResponseTopic()
		topic.Topic = t.Topic
		for _, number := range t.Partitions {
			out := kmsg.NewElectLeadersResponseTopicPartition()
			out.Partition, out.ErrorCode = number, resp.ErrorCode
			topic.Partitions = append(topic.Partitions, out)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// electionShown reports whether a snapshot shows the result of a successful election: the preferred leader or, after an
// unclean election, any leader. It is also true for a partition that has been deleted meanwhile.
func electionShown(p *metadata.Snapshot, topic string, number int32, unclean bool) bool {
	part, ok := p.Partition(topic, number)
	switch {
	case !ok:
		return true
	case unclean:
		return part.Leader != metadata.NoLeader
	}
	return len(part.Replicas) == 0 || part.Leader == part.Replicas[0]
}
