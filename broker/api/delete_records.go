package api

import (
	"context"
	"fmt"

	"barnabas/broker/acl"
	"barnabas/broker/replica"
	"barnabas/internal/await"
	"barnabas/internal/errcode"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// trimmed is a partition whose log start offset has moved here and has yet to move on its followers.
type trimmed struct {
	partition *replica.Partition
	offset    int64
	out       *kmsg.DeleteRecordsResponseTopicPartition
}

// deleteRecords advances log start offsets (KIP-107) and answers when all replicas have followed or the timeout
// expires.
func (h *Handlers) deleteRecords(_ context.Context, c *Call, req *kmsg.DeleteRecordsRequest) network.Answer {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Version = c.Version
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(req.Topics))
	var waits []trimmed
	topics := h.authorize.topics(c, acl.Delete)
	for i, t := range req.Topics {
		resp.Topics[i].Topic = t.Topic
		resp.Topics[i].Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(t.Partitions))
		for j, p := range t.Partitions {
			out := &resp.Topics[i].Partitions[j]
			out.Partition, out.LowWatermark = p.Partition, -1
			err := topics.check(t.Topic)
			var part *replica.Partition
			var offset int64
			if err == nil {
				part, offset, err = h.startDelete(t.Topic, p)
			}
			if err != nil {
				out.ErrorCode = h.codeOf(err)
				continue
			}
			waits = append(waits, trimmed{part, offset, out})
		}
	}
	return network.Later(func(ctx context.Context) network.Response {
		ctx, cancel := c.waiting(ctx, req.TimeoutMillis)
		defer cancel()
		for _, w := range waits { // they share one deadline and start offsets only rise, so waiting in turn is waiting for all
			err := await.Until(ctx, w.done, &w.partition.Changed)
			w.out.ErrorCode = errcode.Of(err)
		}
		return resp
	})
}

func (w trimmed) done() (bool, error) {
	low, err := w.partition.LowWatermark()
	w.out.LowWatermark = low // -1 if there is none any more
	return err == nil && low >= w.offset, err
}

func (h *Handlers) startDelete(topic string, p kmsg.DeleteRecordsRequestTopicPartition) (*replica.Partition, int64, error) {
	if isInternal(topic) {
		return nil, 0, fmt.Errorf("records of topic %s must not be deleted: %w", topic, kerr.InvalidTopicException)
	}
	part, err := h.partition(topic, p.Partition)
	if err != nil {
		return nil, 0, err
	}
	if err := part.Check(-1, true); err != nil {
		return nil, 0, err
	}
	if !h.TopicConfig(topic).CleanupDelete {
		return nil, 0, fmt.Errorf("cleanup.policy of topic %s lacks delete: %w", topic, kerr.PolicyViolation)
	}
	offset, err := part.DeleteRecordsBefore(p.Offset)
	return part, offset, err
}
