package api

import (
	"context"

	"barnabas/broker/acl"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetForLeaderEpoch returns where a leader epoch ends in the leader's log (KIP-101, 279, 320).
func (h *Handlers) offsetForLeaderEpoch(_ context.Context, c *Call, req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, len(req.Topics))
	follower := h.authorize.quietlyCluster(c, acl.ClusterAction)
	for i := range req.Topics {
		t := &req.Topics[i]
		var refused error
		if !follower {
			refused = h.authorize.topic(c, acl.Describe, t.Topic)
		}
		resp.Topics[i].Topic = t.Topic
		resp.Topics[i].Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			out := &resp.Topics[i].Partitions[j]
			out.Default()
			out.Partition, out.LeaderEpoch, out.EndOffset = t.Partitions[j].Partition, -1, -1
			err := refused
			if err == nil {
				err = h.endOfEpoch(t.Topic, &t.Partitions[j], out)
			}
			out.ErrorCode = h.codeOf(err)
		}
	}
	return resp
}

func (h *Handlers) endOfEpoch(topic string, p *kmsg.OffsetForLeaderEpochRequestTopicPartition, out *kmsg.OffsetForLeaderEpochResponseTopicPartition) error {
	part, err := h.partition(topic, p.Partition)
	if err != nil {
		return err
	}
	end, err := part.EndOfEpoch(p.CurrentLeaderEpoch, p.LeaderEpoch, true)
	if err != nil {
		return err
	}
	out.LeaderEpoch, out.EndOffset = end.Epoch, end.Offset
	return nil
}
