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

// deleteTopics requests the deletion of topics and answers when they have disappeared from this broker's metadata or
// the timeout expires.
//
// v5: messages, and too many mutations are refused (KIP-599). v6: by id (KIP-516).
func (h *Handlers) deleteTopics(ctx context.Context, c *Call, req *kmsg.DeleteTopicsRequest) network.Answer {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	resp.Version = c.Version
	if c.Version < 6 {
		for _, name := range req.TopicNames {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = &name
			req.Topics = append(req.Topics, t)
		}
	}
	resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, len(req.Topics))
	var waits []*kmsg.DeleteTopicsResponseTopic
	for i, t := range req.Topics {
		out := &resp.Topics[i]
		out.Topic, out.TopicID = t.Topic, t.TopicID
		if err := h.deleteTopic(ctx, c, out); err != nil {
			out.ErrorCode = h.codeOf(err)
			continue
		}
		waits = append(waits, out)
	}
	return network.Later(func(ctx context.Context) network.Response {
		ctx, cancel := c.waiting(ctx, req.TimeoutMillis)
		defer cancel()
		for _, out := range waits { // they share one deadline, so waiting in turn is waiting for all
			if err := h.awaitDeleted(ctx, req.TimeoutMillis, *out.Topic); err != nil {
				out.ErrorCode = kerr.RequestTimedOut.Code
			}
		}
		return resp
	})
}

func (h *Handlers) deleteTopic(ctx context.Context, c *Call, out *kmsg.DeleteTopicsResponseTopic) error {
	switch {
	case !h.Controller.Active():
		return kerr.NotController
	case !h.Config.Current().DeleteTopicEnable && c.Version < 3:
		return fmt.Errorf("delete.topic.enable=false: %w", kerr.InvalidRequest)
	case !h.Config.Current().DeleteTopicEnable:
		return fmt.Errorf("delete.topic.enable=false: %w", kerr.TopicDeletionDisabled)
	}
	snapshot := h.Metadata.Current()
	switch {
	case out.Topic != nil && out.TopicID != noTopicID:
		return fmt.Errorf("a topic must not be given by both name and id: %w", kerr.InvalidRequest)
	case out.Topic == nil && out.TopicID == noTopicID:
		return fmt.Errorf("a topic must have a name or an id: %w", kerr.TopicAuthorizationFailed)
	case out.Topic == nil:
		name, ok := snapshot.TopicName(out.TopicID)
		if !ok {
			return kerr.UnknownTopicID
		}
		if err := h.authorize.topic(c, acl.Describe, name); err != nil {
			return err // without the name, which the client may not be allowed to know
		}
		out.Topic = &name
	}
	if err := h.authorize.topic(c, acl.Delete, *out.Topic); err != nil {
		return err
	}
	topic := snapshot.Topics[*out.Topic]
	if topic == nil {
		return fmt.Errorf("topic %q: %w", *out.Topic, kerr.UnknownTopicOrPartition)
	}
	if err := h.mutate(c, len(topic.Partitions), 5); err != nil {
		return err
	}
	return h.ZK.RequestTopicDeletion(ctx, *out.Topic)
}

func (h *Handlers) awaitDeleted(ctx context.Context, timeoutMillis int32, name string) error {
	if timeoutMillis <= 0 {
		return kerr.RequestTimedOut
	}
	return h.awaitMetadata(ctx, func(p *metadata.Snapshot) bool { return p.Topics[name] == nil })
}
