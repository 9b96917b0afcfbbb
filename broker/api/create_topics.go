package api

import (
	"context"
	"fmt"

	"barnabas/broker/acl"
	"barnabas/broker/metadata"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// created is a topic whose partitions have yet to get leaders.
type created struct {
	plan *newTopic
	out  *kmsg.CreateTopicsResponseTopic
}

// createTopics creates topics and answers when all their partitions have leaders or the timeout expires.
//
// v1: validate only, messages. v4: defaults for counts. v5: what was created (KIP-525). v6: too many mutations are
// refused (KIP-599). v7: topic ids.
func (h *Handlers) createTopics(ctx context.Context, c *Call, req *kmsg.CreateTopicsRequest) network.Answer {
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = c.Version
	resp.Topics = make([]kmsg.CreateTopicsResponseTopic, len(req.Topics))
	names := make(map[string]int)
	for _, t := range req.Topics {
		names[t.Topic]++
	}
	var waits []created
	for i := range req.Topics {
		t, out := &req.Topics[i], &resp.Topics[i]
		out.Default()
		out.Topic = t.Topic
		plan, err := h.createTopic(ctx, c, req, t, names[t.Topic] > 1, out)
		switch {
		case err != nil:
			failTopic(out, h.codeOf(err), message(err))
		case !req.ValidateOnly:
			waits = append(waits, created{plan, out})
		}
	}
	return network.Later(func(ctx context.Context) network.Response {
		ctx, cancel := c.waiting(ctx, req.TimeoutMillis)
		defer cancel()
		for _, w := range waits { // they share one deadline, so waiting in turn is waiting for all
			if err := h.awaitCreated(ctx, req.TimeoutMillis, w); err != nil {
				failTopic(w.out, kerr.RequestTimedOut.Code, nil)
			}
		}
		return resp
	})
}

func failTopic(out *kmsg.CreateTopicsResponseTopic, code int16, message *string) {
	out.ErrorCode, out.ErrorMessage, out.NumPartitions, out.ReplicationFactor = code, message, -1, -1
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
}

func (h *Handlers) createTopic(ctx context.Context, c *Call, req *kmsg.CreateTopicsRequest, t *kmsg.CreateTopicsRequestTopic, twice bool, out *kmsg.CreateTopicsResponseTopic) (*newTopic, error) {
	switch {
	case !h.Controller.Active():
		return nil, kerr.NotController
	case t.Topic == clusterTopic:
		return nil, fmt.Errorf("topic %q is reserved for KRaft: %w", t.Topic, kerr.InvalidRequest)
	}
	describable := h.authorize.quietly(c, acl.DescribeConfigs, acl.Topic, t.Topic)
	if err := h.mayCreate(c, t.Topic, twice); err != nil {
		if !describable {
			out.ConfigErrorCode = kerr.TopicAuthorizationFailed.Code
		}
		return nil, err
	}
	plan, err := h.planTopic(h.Metadata.Current(), t)
	if err != nil {
		return nil, err
	}
	if !req.ValidateOnly {
		if err := h.mutate(c, len(plan.assignment), 6); err != nil {
			return nil, err
		}
		if out.TopicID, err = h.ZK.CreateTopic(ctx, t.Topic, plan.assignment, plan.configs); err != nil {
			return nil, err
		}
	}
	if !describable {
		hideCreated(out)
		return plan, nil
	}
	out.NumPartitions, out.ReplicationFactor = int32(len(plan.assignment)), plan.replicationFactor()
	entries, err := h.Config.DescribeTopic(plan.configs, nil)
	for _, e := range entries {
		cfg := kmsg.NewCreateTopicsResponseTopicConfig()
		cfg.Name, cfg.Value, cfg.ReadOnly, cfg.Source, cfg.IsSensitive = e.Name, e.Value, e.ReadOnly, int8(e.Source), e.Sensitive
		out.Configs = append(out.Configs, cfg)
	}
	return plan, err
}

// mayCreate checks whether the client may create a topic: any topic, by an operation on the cluster, or this one.
func (h *Handlers) mayCreate(c *Call, topic string, twice bool) error {
	switch {
	case twice:
		return fmt.Errorf("topic %q appears twice in one request: %w", topic, kerr.InvalidRequest)
	case h.authorize.quietlyCluster(c, acl.Create):
		return nil
	}
	return h.authorize.topic(c, acl.Create, topic)
}

// hideCreated removes what only clients that may describe the topic's settings are allowed to see.
func hideCreated(out *kmsg.CreateTopicsResponseTopic) {
	out.ConfigErrorCode, out.TopicID = kerr.TopicAuthorizationFailed.Code, noTopicID
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
}

// awaitCreated waits for leaders. A request with a timeout of zero gets a timeout error even though the topic is being
// created.
func (h *Handlers) awaitCreated(ctx context.Context, timeoutMillis int32, w created) error {
	if timeoutMillis <= 0 {
		return kerr.RequestTimedOut
	}
	return h.awaitMetadata(ctx, func(p *metadata.Snapshot) bool { return allLed(p, w.out.Topic, len(w.plan.assignment)) })
}
