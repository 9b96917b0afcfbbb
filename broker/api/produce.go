package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"barnabas/broker/metrics"
	"barnabas/broker/quota"
	"barnabas/broker/replica"
	"barnabas/logstore"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produced is a partition whose records are appended but not yet on all in-sync replicas.
type produced struct {
	partition *replica.Partition
	epoch     int32 // leader epoch
	end       int64 // offset after the last record
	out       *kmsg.ProduceResponseTopicPartition
}

// decodeProduce decodes a Produce request and handles it.
func (h *Handlers) decodeProduce(ctx context.Context, c *Call) (network.Answer, error) {
	if err := checkProduce(c.Body, c.Version); err != nil {
		return network.Answer{}, err
	}
	return on(h.produce)(ctx, c)
}

// produce appends batches. With acks=-1 it answers when all in-sync replicas have them; with acks=0 it does not answer,
// but closes the connection after an error so that the client notices.
//
// v10: the current leader with NOT_LEADER_OR_FOLLOWER (KIP-951). Before the first records of a transaction in a
// partition, its coordinator is asked, which may be another broker. Meanwhile the connection is not read, so that
// appends keep their order.
func (h *Handlers) produce(ctx context.Context, c *Call, req *kmsg.ProduceRequest) network.Answer {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = c.Version
	verification := h.verifyProduce(ctx, c, req)
	resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	var waits []produced
	failed := false
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := &resp.Topics[i]
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			out := &topic.Partitions[j]
			out.Default()
			out.Partition = t.Partitions[j].Partition
			part, info, err := h.append(req, t.Topic, &t.Partitions[j], &verification)
			h.countProduced(t.Topic, len(t.Partitions[j].Records), info, err)
			if err != nil {
				h.produceFailed(c, resp, t.Topic, out, info, err)
				failed = true
				continue
			}
			out.BaseOffset, out.LogAppendTime, out.LogStartOffset = info.FirstOffset, info.LogAppendTime, info.LogStartOffset
			if req.Acks == -1 {
				waits = append(waits, produced{part, info.LeaderEpoch, info.LastOffset + 1, out})
			}
		}
	}
	h.charge(c, quota.Produce, float64(len(c.Body)))
	c.unanswered = req.Acks == 0
	switch {
	case req.Acks == 0 && failed:
		return network.HangUp()
	case req.Acks == 0:
		return network.Answer{}
	}
	if waits = h.settled(c, resp, waits); len(waits) == 0 {
		return network.Ready(resp)
	}
	deadline := c.deadline(req.TimeoutMillis) // the next request may be read while this one's answer waits
	return network.Later(func(ctx context.Context) network.Response {
		return h.awaitReplicas(ctx, c, deadline, waits, resp)
	})
}

// settled drops the partitions whose records are on all in-sync replicas already: with one replica, all of them.
func (h *Handlers) settled(c *Call, resp *kmsg.ProduceResponse, waits []produced) []produced {
	left := waits[:0]
	for _, w := range waits {
		done, err := w.partition.Replicated(w.epoch, w.end)
		switch {
		case err != nil:
			h.notReplicated(c, resp, &w, err)
		case !done:
			left = append(left, w)
		}
	}
	return left
}

// notReplicated fills in why records are not known to be on enough replicas. Their offsets remain in the response, since
// this broker has appended them (DelayedProduce, 3.9).
func (h *Handlers) notReplicated(c *Call, resp *kmsg.ProduceResponse, w *produced, err error) {
	w.out.ErrorCode = code(err)
	h.produceHint(c, resp, w.partition.TP.Topic, w.out, err)
}

func (h *Handlers) awaitReplicas(ctx context.Context, c *Call, deadline time.Time, waits []produced, resp *kmsg.ProduceResponse) network.Response {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, kerr.RequestTimedOut)
	defer cancel()
	defer h.Metrics.Waiting(metrics.Produce)()
	for _, w := range waits { // they share one deadline and high watermarks only rise, so waiting in turn is waiting for all
		if err := w.partition.AwaitReplicated(ctx, w.epoch, w.end); err != nil {
			if errors.Is(err, kerr.RequestTimedOut) {
				h.Metrics.ProduceExpired()
			}
			h.notReplicated(c, resp, &w, err)
		}
	}
	return resp
}

// checkProduce refuses a null list of topics, which the wire library decodes as an empty one.
func checkProduce(body []byte, version int16) error {
	r := kbin.Reader{Src: body}
	if version >= 9 {
		r.CompactNullableString()
	} else if version >= 3 {
		r.NullableString()
	}
	r.Int16() // acks
	r.Int32() // timeout
	count := int32(0)
	if version >= 9 {
		count = r.CompactArrayLen()
	} else {
		count = r.ArrayLen()
	}
	if !r.Ok() || count < 0 {
		return errNullTopics
	}
	return nil
}

var errNullTopics = errors.New("the list of topics is null")

// append writes one partition's records. The returned info has the log start offset with many errors, too.
func (h *Handlers) append(req *kmsg.ProduceRequest, topic string, in *kmsg.ProduceRequestTopicPartition, v *txnVerification) (*replica.Partition, logstore.AppendInfo, error) {
	none := logstore.AppendInfo{LogStartOffset: -1}
	tp := logstore.TopicPartition{Topic: topic, Partition: in.Partition}
	if v.all != nil {
		none.Message = v.text
		return nil, none, v.all
	}
	if err := v.topics.check(topic); err != nil {
		return nil, none, err
	}
	if err := v.errs[tp]; err != nil {
		none.Message, err = unverified(err, req.Version)
		return nil, none, err
	}
	if req.Acks < -1 || req.Acks > 1 {
		return nil, none, fmt.Errorf("acks %d: %w", req.Acks, kerr.InvalidRequiredAcks)
	}
	if isInternal(topic) {
		return nil, none, fmt.Errorf("topic %s is internal: %w", topic, kerr.InvalidTopicException)
	}
	part, err := h.partition(topic, in.Partition)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, none, err
	}
	if checked := record.CheckProduce(in.Records, req.Version); checked != nil {
		return nil, none, checked // before leadership matters, as in Apache Kafka
	}
	if err != nil {
		return nil, none, err
	}
	info, err := part.Append(in.Records, req.Acks == -1, logstore.LeaderAppend{
		Origin: logstore.Client, ProduceVersion: req.Version, Verify: v.verify, Guard: v.guards[tp]})
	return part, info, err
}

// produceFailed fills in a partition's error.
func (h *Handlers) produceFailed(c *Call, resp *kmsg.ProduceResponse, topic string, out *kmsg.ProduceResponseTopicPartition, info logstore.AppendInfo, err error) {
	out.ErrorCode, out.BaseOffset, out.LogAppendTime, out.LogStartOffset = h.codeOf(err), -1, -1, info.LogStartOffset
	for _, r := range info.RecordErrors {
		e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		e.RelativeOffset = r.Index
		if r.Message != "" {
			e.ErrorMessage = &r.Message
		}
		out.ErrorRecords = append(out.ErrorRecords, e)
	}
	switch {
	case info.Message != "":
		out.ErrorMessage = &info.Message
	case errors.Is(err, record.ErrMagic):
		out.ErrorMessage = message(err)
	}
	h.produceHint(c, resp, topic, out, err)
}

// produceHint adds the current leader if this broker is not.
func (h *Handlers) produceHint(c *Call, resp *kmsg.ProduceResponse, topic string, out *kmsg.ProduceResponseTopicPartition, err error) {
	if resp.Version < 10 || !errors.Is(err, kerr.NotLeaderForPartition) {
		return
	}
	hint, ok := h.leaderHint(c.Conn.Listener, topic, out.Partition)
	if !ok {
		return
	}
	out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = hint.leader, hint.epoch
	if hint.node == nil {
		return
	}
	for _, b := range resp.Brokers {
		if b.NodeID == hint.leader {
			return
		}
	}
	b := kmsg.NewProduceResponseBroker()
	b.NodeID, b.Host, b.Port, b.Rack = hint.leader, hint.node.Host, hint.node.Port, hint.rack
	resp.Brokers = append(resp.Brokers, b)
}
