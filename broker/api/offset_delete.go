package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/internal/errcode"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetDelete removes offsets of a group, except for topics that its members subscribe to (KIP-496).
func (h *Handlers) offsetDelete(_ context.Context, c *Call, req *kmsg.OffsetDeleteRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	if err := h.authorize.group(c, acl.Delete, req.Group); err != nil {
		resp.ErrorCode = errcode.Of(err)
		return resp
	}
	mayRead := h.authorize.topics(c, acl.Read)
	topics := make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	var partitions []logstore.TopicPartition
	var codes []*int16
	for i, t := range req.Topics {
		topics[i].Topic = t.Topic
		topics[i].Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(t.Partitions))
		for j, p := range t.Partitions {
			out := &topics[i].Partitions[j]
			out.Partition = p.Partition
			if err := h.mayUseOffset(&mayRead, t.Topic, p.Partition); err != nil {
				out.ErrorCode = errcode.Of(err)
				continue
			}
			partitions = append(partitions, logstore.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			codes = append(codes, &out.ErrorCode)
		}
	}
	errs, err := h.Groups.DeleteOffsets(req.Group, partitions)
	if err != nil {
		resp.ErrorCode = h.codeOf(err)
		return resp
	}
	for i, err := range errs {
		*codes[i] = h.codeOf(err)
	}
	resp.Topics = topics
	return resp
}
