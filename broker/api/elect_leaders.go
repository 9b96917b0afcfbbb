package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/broker/metadata"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// uncleanElection is the election type of ElectLeaders that allows leaders out of sync.
const uncleanElection = 1

// electLeaders answers when this broker's picture shows the new leaders, or the time is up (DelayedElectLeader, 3.9).
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
			for j := range t.Partitions { // one deadline: waiting in turn is waiting for all
				out := &t.Partitions[j]
				if out.ErrorCode != 0 {
					continue
				}
				err := h.awaitPicture(ctx, func(p *metadata.Picture) bool { return electionShown(p, t.Topic, out.Partition, unclean) })
				if err != nil {
					out.ErrorCode = kerr.RequestTimedOut.Code
				}
			}
		}
		return resp
	})
}

// electionsDenied is the answer to who may not have leaders elected.
func electionsDenied(req *kmsg.ElectLeadersRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrElectLeadersResponse()
	resp.ErrorCode = code(err)
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

// electionShown tells whether a picture shows what an election that succeeded led to: the preferred leader, or after an
// unclean one any. A partition that has gone meanwhile shows nothing any more.
func electionShown(p *metadata.Picture, topic string, number int32, unclean bool) bool {
	part, ok := p.Partition(topic, number)
	switch {
	case !ok:
		return true
	case unclean:
		return part.Leader != metadata.NoLeader
	}
	return len(part.Replicas) == 0 || part.Leader == part.Replicas[0]
}
