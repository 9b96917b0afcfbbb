package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"barnabas/broker/metrics"
	"barnabas/broker/quota"
	"barnabas/broker/replica"
	"barnabas/internal/errcode"
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

// producing is a Produce request being handled.
type producing struct {
	call         *Call
	req          *kmsg.ProduceRequest
	resp         *kmsg.ProduceResponse
	verification txnVerification
	waits        []produced
	failed       bool // for a partition
}

func (p *producing) listener() string { return p.call.Conn.Listener }

// handleProduce decodes a Produce request and handles it.
func (h *Handlers) handleProduce(ctx context.Context, c *Call) (network.Answer, error) {
	req := kmsg.NewPtrProduceRequest()
	if err := decodeProduce(req, c); err != nil {
		return network.Answer{}, err
	}
	return h.produce(ctx, c, req), nil
}

func decodeProduce(req *kmsg.ProduceRequest, c *Call) error {
	if err := checkProduce(c.Body, c.Version); err != nil {
		return err
	}
	return decode(req, c)
}

// produce appends batches. With acks=-1 it answers when all in-sync replicas have them; with acks=0 it does not answer,
// but closes the connection after an error so that the client notices.
//
// v10: the current leader with NOT_LEADER_OR_FOLLOWER (KIP-951). Before the first records of a transaction in a
// partition, its coordinator is asked, which may be another broker. Meanwhile the connection is not read, so that
// appends keep their order.
func (h *Handlers) produce(ctx context.Context, c *Call, req *kmsg.ProduceRequest) network.Answer {
	p := h.beginProduce(ctx, c, req)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			part, info, err := h.append(&p, i, j)
			h.appended(&p, i, j, part, info, err)
		}
	}
	return h.produced(&p)
}

// beginProduce checks what concerns a request as a whole, and prepares its response.
func (h *Handlers) beginProduce(ctx context.Context, c *Call, req *kmsg.ProduceRequest) producing {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = c.Version
	resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	for i := range req.Topics {
		topic := &resp.Topics[i]
		topic.Topic = req.Topics[i].Topic
		topic.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(req.Topics[i].Partitions))
		for j := range topic.Partitions {
			topic.Partitions[j].Default()
			topic.Partitions[j].Partition = req.Topics[i].Partitions[j].Partition
		}
	}
	return producing{call: c, req: req, resp: resp, verification: h.verifyProduce(ctx, c, req)}
}

// appended notes the outcome for a request's partition, given as its topic's and its own index.
func (h *Handlers) appended(p *producing, i, j int, part *replica.Partition, info logstore.AppendInfo, err error) {
	topic, out := p.req.Topics[i].Topic, &p.resp.Topics[i].Partitions[j]
	h.countProduced(topic, len(p.req.Topics[i].Partitions[j].Records), info, err)
	if err != nil {
		h.produceFailed(p.listener(), p.resp, topic, out, info, err)
		p.failed = true
		return
	}
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = info.FirstOffset, info.LogAppendTime, info.LogStartOffset
	if p.req.Acks == -1 {
		p.waits = append(p.waits, produced{part, info.LeaderEpoch, info.LastOffset + 1, out})
	}
}

// produced answers a request whose records are appended.
func (h *Handlers) produced(p *producing) network.Answer {
	c, resp := p.call, p.resp
	h.charge(c, quota.Produce, float64(len(c.Body)))
	c.unanswered = p.req.Acks == 0
	switch {
	case c.unanswered && p.failed:
		return network.HangUp()
	case c.unanswered:
		return network.Answer{}
	}
	waits := h.settled(p.listener(), resp, p.waits)
	if len(waits) == 0 {
		return network.Ready(resp)
	}
	listener, deadline := p.listener(), c.deadline(p.req.TimeoutMillis) // without c, which the next request reuses while this one's answer waits
	return network.Later(func(ctx context.Context) network.Response {
		return h.awaitReplicas(ctx, listener, deadline, waits, resp)
	})
}

// settled drops the partitions whose records are on all in-sync replicas already: with one replica, all of them.
func (h *Handlers) settled(listener string, resp *kmsg.ProduceResponse, waits []produced) []produced {
	left := waits[:0]
	for _, w := range waits {
		done, err := w.partition.Replicated(w.epoch, w.end)
		switch {
		case err != nil:
			h.notReplicated(listener, resp, &w, err)
		case !done:
			left = append(left, w)
		}
	}
	return left
}

// notReplicated fills in why records are not known to be on enough replicas. Their offsets remain in the response, since
// this broker has appended them (DelayedProduce, 3.9).
func (h *Handlers) notReplicated(listener string, resp *kmsg.ProduceResponse, w *produced, err error) {
	w.out.ErrorCode = errcode.Of(err)
	h.produceHint(listener, resp, w.partition.TP.Topic, w.out, err)
}

func (h *Handlers) awaitReplicas(ctx context.Context, listener string, deadline time.Time, waits []produced, resp *kmsg.ProduceResponse) network.Response {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, kerr.RequestTimedOut)
	defer cancel()
	defer h.Metrics.Waiting(metrics.Produce)()
	for _, w := range waits { // they share one deadline and high watermarks only rise, so waiting in turn is waiting for all
		if err := w.partition.AwaitReplicated(ctx, w.epoch, w.end); err != nil {
			if errors.Is(err, kerr.RequestTimedOut) {
				h.Metrics.ProduceExpired()
			}
			h.notReplicated(listener, resp, &w, err)
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

// append writes the records of a request's partition. The returned info has the log start offset with many errors, too.
func (h *Handlers) append(p *producing, i, j int) (*replica.Partition, logstore.AppendInfo, error) {
	part, none, err := h.mayAppend(p, i, j)
	if err != nil {
		return nil, none, err
	}
	in := &p.req.Topics[i].Partitions[j]
	tp := logstore.TopicPartition{Topic: p.req.Topics[i].Topic, Partition: in.Partition}
	info, err := part.Append(in.Records, p.req.Acks == -1, logstore.LeaderAppend{
		Origin: logstore.Client, ProduceVersion: p.req.Version, Verify: p.verification.verify, Guard: p.verification.guards[tp]})
	return part, info, err
}

// mayAppend finds the partition that records are to be written to. With an error, the info has what is to be answered
// besides.
func (h *Handlers) mayAppend(p *producing, i, j int) (*replica.Partition, logstore.AppendInfo, error) {
	req, v, topic, in := p.req, &p.verification, p.req.Topics[i].Topic, &p.req.Topics[i].Partitions[j]
	none := logstore.AppendInfo{LogStartOffset: -1}
	if v.all != nil {
		none.Message = v.text
		return nil, none, v.all
	}
	if err := v.topics.check(topic); err != nil {
		return nil, none, err
	}
	if err := v.errs[logstore.TopicPartition{Topic: topic, Partition: in.Partition}]; err != nil {
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
	return part, none, err
}

// produceFailed fills in a partition's error.
func (h *Handlers) produceFailed(listener string, resp *kmsg.ProduceResponse, topic string, out *kmsg.ProduceResponseTopicPartition, info logstore.AppendInfo, err error) {
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
	h.produceHint(listener, resp, topic, out, err)
}

// produceHint adds the current leader if this broker is not.
func (h *Handlers) produceHint(listener string, resp *kmsg.ProduceResponse, topic string, out *kmsg.ProduceResponseTopicPartition, err error) {
	if resp.Version < 10 || !errors.Is(err, kerr.NotLeaderForPartition) {
		return
	}
	hint, ok := h.leaderHint(listener, topic, out.Partition)
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
