package api

import (
	"context"
	"errors"
	"fmt"

	"barnabas/broker/acl"
	"barnabas/internal/javahash"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The kinds of coordinators.
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2 // v6; KRaft's
)

// findCoordinator returns the broker that coordinates a group or a transactional id. The first request creates the
// internal topic. v4: several keys (KIP-699).
func (h *Handlers) findCoordinator(ctx context.Context, c *Call, req *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if c.Version >= 4 {
		for _, key := range req.CoordinatorKeys {
			resp.Coordinators = append(resp.Coordinators, h.coordinator(ctx, c, req.CoordinatorType, key))
		}
		return resp
	}
	found := h.coordinator(ctx, c, req.CoordinatorType, req.CoordinatorKey)
	resp.ErrorCode, resp.ErrorMessage = found.ErrorCode, found.ErrorMessage
	resp.NodeID, resp.Host, resp.Port = found.NodeID, found.Host, found.Port
	switch { // Apache Kafka puts the error's text there, even for no error
	case found.ErrorCode == 0:
		resp.ErrorMessage = kmsg.StringPtr("NONE")
	case deref(found.ErrorMessage) == "":
		resp.ErrorMessage = kmsg.StringPtr(kerr.TypedErrorForCode(found.ErrorCode).Description)
	}
	return resp
}

func (h *Handlers) coordinator(ctx context.Context, c *Call, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key, out.ErrorMessage = key, new(string)
	hint, err := h.locate(ctx, c, kind, key)
	if err != nil {
		out.ErrorCode, out.NodeID, out.Port = h.codeOf(err), -1, -1
		if kind != shareCoordinator && errors.Is(err, kerr.InvalidRequest) {
			out.ErrorMessage = message(err)
		}
		return out
	}
	out.NodeID, out.Host, out.Port = hint.leader, hint.node.Host, hint.node.Port
	return out
}

// mayFind checks whether the client may describe the group or transactional id.
func (h *Handlers) mayFind(c *Call, kind int8, key string) error {
	switch {
	case kind == groupCoordinator:
		return h.authorize.group(c, acl.Describe, key)
	case kind == transactionCoordinator:
		return h.authorize.txnID(c, acl.Describe, key)
	case kind == shareCoordinator && c.Version >= 6:
		return h.authorize.cluster(c, acl.ClusterAction)
	}
	return nil
}

func (h *Handlers) locate(ctx context.Context, c *Call, kind int8, key string) (leaderHint, error) {
	if err := h.mayFind(c, kind, key); err != nil {
		return leaderHint{}, err
	}
	topic := ""
	switch {
	case kind == groupCoordinator:
		topic = offsetsTopic
	case kind == transactionCoordinator && c.Version >= 1:
		topic = transactionsTopic
	case kind == shareCoordinator && c.Version >= 6:
		return leaderHint{}, fmt.Errorf("share groups need KRaft: %w", kerr.CoordinatorNotAvailable)
	default:
		return leaderHint{}, fmt.Errorf("coordinator type %d: %w", kind, kerr.InvalidRequest)
	}
	t := h.Metadata.Current().Topics[topic]
	if t == nil {
		h.createInternal(ctx, c, topic)
		return leaderHint{}, fmt.Errorf("topic %s does not exist yet: %w", topic, kerr.CoordinatorNotAvailable)
	}
	hint, ok := h.leaderInMetadata(c.Conn.Listener, topic, javahash.PartitionFor(key, len(t.Partitions)))
	if !ok || hint.node == nil {
		return leaderHint{}, fmt.Errorf("the partition of %q has no leader: %w", key, kerr.CoordinatorNotAvailable)
	}
	return hint, nil
}

// createInternal creates an internal topic, once for all keys of a request. A request that is cancelled, since its client has
// left or the broker stops, does not say why the topic cannot be created.
func (h *Handlers) createInternal(ctx context.Context, c *Call, topic string) {
	if c.creating {
		return
	}
	c.creating = true
	err := h.autoCreate(ctx, c, topic)
	if err == nil || errors.Is(err, kerr.TopicAlreadyExists) || ctx.Err() != nil {
		return
	}
	if line, ok := h.lines.Line("cannot create "+topic, h.Logger); ok {
		line.WithError(err).Warnf("cannot create %s", topic)
	}
}
