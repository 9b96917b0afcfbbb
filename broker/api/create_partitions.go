package api

import (
	"context"
	"fmt"

	"barnabas/broker/acl"
	"barnabas/broker/metadata"
	"barnabas/internal/placement"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// grown is a topic whose new partitions have yet to get leaders.
type grown struct {
	count int
	out   *kmsg.CreatePartitionsResponseTopic
}

// createPartitions adds partitions to topics and answers when they have leaders or the timeout expires (KIP-195).
//
// v3: too many mutations are refused (KIP-599).
func (h *Handlers) createPartitions(ctx context.Context, c *Call, req *kmsg.CreatePartitionsRequest) network.Answer {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	resp.Version = c.Version
	names := make(map[string]int)
	for _, t := range req.Topics {
		names[t.Topic]++
	}
	answered := make(map[string]bool)
	resp.Topics = make([]kmsg.CreatePartitionsResponseTopic, 0, len(req.Topics)) // never grows: waits point into it
	var waits []grown
	for i := range req.Topics {
		t := &req.Topics[i]
		if answered[t.Topic] {
			continue
		}
		answered[t.Topic] = true
		resp.Topics = append(resp.Topics, kmsg.CreatePartitionsResponseTopic{Topic: t.Topic})
		out := &resp.Topics[len(resp.Topics)-1]
		if err := h.growTopic(ctx, c, req, t, names[t.Topic] > 1); err != nil {
			out.ErrorCode, out.ErrorMessage = h.codeOf(err), message(err)
		} else if !req.ValidateOnly {
			waits = append(waits, grown{int(t.Count), out})
		}
	}
	return network.Later(func(ctx context.Context) network.Response {
		ctx, cancel := c.waiting(ctx, req.TimeoutMillis)
		defer cancel()
		for _, w := range waits { // they share one deadline, so waiting in turn is waiting for all
			led := func(p *metadata.Snapshot) bool { return allLed(p, w.out.Topic, w.count) }
			if err := h.awaitMetadata(ctx, led); err != nil {
				w.out.ErrorCode = kerr.RequestTimedOut.Code
			}
		}
		return resp
	})
}

func (h *Handlers) growTopic(ctx context.Context, c *Call, req *kmsg.CreatePartitionsRequest, t *kmsg.CreatePartitionsRequestTopic, twice bool) error {
	switch {
	case !h.Controller.Active():
		return kerr.NotController
	case twice:
		return fmt.Errorf("topic %q appears twice in one request: %w", t.Topic, kerr.InvalidRequest)
	}
	if err := h.authorize.topic(c, acl.Alter, t.Topic); err != nil {
		return err
	}
	info, _, err := h.ZK.Topic(ctx, t.Topic)
	if err != nil {
		return fmt.Errorf("topic %q: %w", t.Topic, err)
	}
	if len(info.Adding) > 0 || len(info.Removing) > 0 {
		return fmt.Errorf("topic %q: %w", t.Topic, kerr.ReassignmentInProgress)
	}
	if old := len(info.Partitions); int(t.Count) <= old {
		return fmt.Errorf("topic %q has %d partitions already, %d were asked for: %w", t.Topic, old, t.Count, kerr.InvalidPartitions)
	}
	added, err := h.placePartitions(info.Partitions, t)
	if err != nil || req.ValidateOnly {
		return err
	}
	if err := h.mutate(c, len(added), 3); err != nil {
		return err
	}
	return h.ZK.AddPartitions(ctx, t.Topic, added)
}

// placePartitions places the new partitions as requested, or like the existing ones.
func (h *Handlers) placePartitions(existing map[int32][]int32, t *kmsg.CreatePartitionsRequestTopic) (map[int32][]int32, error) {
	brokers := placeable(h.Metadata.Current())
	more := int(t.Count) - len(existing)
	first := existing[0]
	if len(first) == 0 { // somebody has written the node by hand
		return nil, fmt.Errorf("topic %q has no partition 0, or one without replicas: %w", t.Topic, kerr.UnknownServerError)
	}
	if len(t.Assignment) == 0 {
		return placement.Assign(brokers, more, len(first), placement.After(brokers, first[0], len(existing)))
	}
	if len(t.Assignment) != more {
		return nil, fmt.Errorf("%d partitions to add and %d assignments: %w", more, len(t.Assignment), kerr.InvalidReplicaAssignment)
	}
	live := make(map[int32]bool)
	for _, b := range brokers {
		live[b.ID] = true
	}
	added := make(map[int32][]int32, more)
	for i, a := range t.Assignment {
		if err := checkReplicas(a.Replicas, len(first), live); err != nil {
			return nil, err
		}
		added[int32(len(existing)+i)] = a.Replicas
	}
	return added, nil
}

func checkReplicas(replicas []int32, count int, live map[int32]bool) error {
	switch {
	case len(replicas) != count:
		return fmt.Errorf("replicas %v: the topic's replication factor is %d: %w", replicas, count, kerr.InvalidReplicaAssignment)
	case hasTwice(replicas):
		return fmt.Errorf("replicas %v name a broker twice: %w", replicas, kerr.InvalidReplicaAssignment)
	}
	for _, id := range replicas {
		if !live[id] {
			return fmt.Errorf("replicas %v: broker %d is unknown or down: %w", replicas, id, kerr.InvalidReplicaAssignment)
		}
	}
	return nil
}
