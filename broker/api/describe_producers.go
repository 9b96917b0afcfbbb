package api

import (
	"context"
	"errors"
	"fmt"

	"barnabas/broker/acl"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeProducers lists the idempotent producers that a partition's leader knows (KIP-664).
func (h *Handlers) describeProducers(_ context.Context, c *Call, req *kmsg.DescribeProducersRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeProducersResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewDescribeProducersResponseTopic()
		topic.Topic = t.Topic
		refused := checkTopicName(t.Topic)
		if refused == nil {
			refused = h.authorize.topic(c, acl.Read, t.Topic)
		}
		for _, n := range t.Partitions {
			topic.Partitions = append(topic.Partitions, h.producersOf(t.Topic, n, refused))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func (h *Handlers) producersOf(topic string, number int32, err error) kmsg.DescribeProducersResponseTopicPartition {
	out := kmsg.NewDescribeProducersResponseTopicPartition()
	out.Partition = number
	if err == nil {
		err = h.fillProducers(topic, number, &out)
	}
	out.ErrorCode, out.ErrorMessage = h.codeOf(err), message(err)
	return out
}

func (h *Handlers) fillProducers(topic string, number int32, out *kmsg.DescribeProducersResponseTopicPartition) error {
	part, err := h.partition(topic, number)
	if errors.Is(err, kerr.NotLeaderForPartition) {
		return kerr.NotLeaderForPartition // Apache Kafka has no text for it here
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		if _, ok := h.Metadata.Current().Topics[topic]; ok {
			return kerr.UnknownTopicOrPartition // nor here
		}
	}
	if err != nil {
		return err
	}
	if err := part.Check(-1, true); err != nil {
		return fmt.Errorf("only the leader knows the producers: %w", kerr.NotLeaderForPartition)
	}
	for _, p := range part.Log().ActiveProducers() {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch, a.LastSequence = p.ProducerID, int32(p.ProducerEpoch), p.LastSequence
		a.LastTimestamp, a.CoordinatorEpoch, a.CurrentTxnStartOffset = p.LastTimestamp, p.CoordinatorEpoch, p.TxnFirstOffset
		out.ActiveProducers = append(out.ActiveProducers, a)
	}
	return nil
}
