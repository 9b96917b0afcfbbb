package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"barnabas/broker/acl"
	"barnabas/broker/metadata"
	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unasked stands for authorized operations that the client did not request.
const unasked = -1 << 31

// metadata describes brokers and topics, and creates topics if requested.
//
// v0: an empty list selects all topics; v1+: null does. v4: the client says whether topics may be created. v8:
// authorized operations (KIP-430). v10: topic ids, v12: lookup by id (KIP-516).
func (h *Handlers) metadata(ctx context.Context, c *Call, req *kmsg.MetadataRequest) kmsg.Response {
	snapshot := h.Metadata.Current()
	resp := kmsg.NewPtrMetadataResponse()
	resp.ClusterID = &h.ClusterID
	resp.ControllerID = controllerOf(snapshot)
	resp.AuthorizedOperations = unasked
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = h.authorize.clusterOperations(c)
	}
	resp.Brokers = brokersOn(snapshot, c.Conn.Listener)
	if err := checkMetadataIDs(c, req); err != nil {
		resp.Topics = failAll(req, err)
		return resp
	}
	if req.Topics == nil || (c.Version == 0 && len(req.Topics) == 0) {
		for name := range snapshot.Topics {
			if !h.authorize.quietly(c, acl.Describe, acl.Topic, name) {
				continue
			}
			resp.Topics = append(resp.Topics, h.describeTopic(c, req, snapshot, name))
		}
		return resp
	}
	resp.Topics = h.namedTopics(ctx, c, req, snapshot)
	return resp
}

// controllerOf returns the controller if it is alive.
func controllerOf(p *metadata.Snapshot) int32 {
	if p.Brokers[p.Controller] == nil {
		return -1
	}
	return p.Controller
}

func brokersOn(p *metadata.Snapshot, listener string) []kmsg.MetadataResponseBroker {
	var list []kmsg.MetadataResponseBroker
	for id, b := range p.Brokers {
		if e, ok := b.Endpoints[listener]; ok {
			broker := kmsg.NewMetadataResponseBroker()
			broker.NodeID, broker.Host, broker.Port, broker.Rack = id, e.Host, e.Port, b.Rack
			list = append(list, broker)
		}
	}
	return list
}

// checkMetadataIDs refuses topic ids before v12, where the request has them but they cannot be used.
func checkMetadataIDs(c *Call, req *kmsg.MetadataRequest) error {
	for _, t := range req.Topics {
		if c.Version < 12 && (t.Topic == nil || t.TopicID != noTopicID) {
			return fmt.Errorf("topic ids in Metadata v%d: %w", c.Version, kerr.InvalidRequest)
		}
		if t.Topic == nil && t.TopicID == noTopicID {
			return fmt.Errorf("a topic must have a name or an id: %w", kerr.UnknownServerError)
		}
	}
	return nil
}

func failAll(req *kmsg.MetadataRequest, err error) []kmsg.MetadataResponseTopic {
	var topics []kmsg.MetadataResponseTopic
	for _, t := range req.Topics {
		out := kmsg.NewMetadataResponseTopic()
		out.ErrorCode, out.TopicID, out.Topic = errcode.Of(err), t.TopicID, t.Topic
		if out.Topic == nil {
			out.Topic = new(string)
		}
		topics = append(topics, out)
	}
	return topics
}

func (h *Handlers) namedTopics(ctx context.Context, c *Call, req *kmsg.MetadataRequest, snapshot *metadata.Snapshot) []kmsg.MetadataResponseTopic {
	var topics []kmsg.MetadataResponseTopic
	seen := make(map[string]bool)
	for _, t := range req.Topics {
		name := ""
		if t.TopicID != noTopicID {
			known, ok := snapshot.TopicName(t.TopicID)
			if !ok {
				out := kmsg.NewMetadataResponseTopic()
				out.ErrorCode, out.TopicID, out.AuthorizedOperations = kerr.UnknownTopicID.Code, t.TopicID, unasked
				topics = append(topics, out)
				continue
			}
			name = known
		} else {
			name = *t.Topic
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		if err := h.authorize.topic(c, acl.Describe, name); err != nil {
			topics = append(topics, hiddenTopic(&t, errcode.Of(err)))
			continue
		}
		if snapshot.Topics[name] != nil {
			topics = append(topics, h.describeTopic(c, req, snapshot, name))
			continue
		}
		mayCreate := c.Version < 4 || req.AllowAutoTopicCreation
		topics = append(topics, h.unknownTopic(ctx, c, req, name, mayCreate && h.Config.Current().AutoCreateTopics))
	}
	return topics
}

// hiddenTopic answers for a topic that the client may not know of, with the name or id that the client has sent.
func hiddenTopic(t *kmsg.MetadataRequestTopic, code int16) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.ErrorCode, out.AuthorizedOperations = code, unasked
	if out.TopicID = t.TopicID; t.TopicID == noTopicID {
		out.Topic = t.Topic
	}
	return out
}

// unknownTopic answers for a topic that does not exist. One that is being created is LEADER_NOT_AVAILABLE until it has
// leaders, after which the client retries.
func (h *Handlers) unknownTopic(ctx context.Context, c *Call, req *kmsg.MetadataRequest, name string, create bool) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.IsInternal, out.AuthorizedOperations = &name, isInternal(name), unasked
	var err error
	if create {
		err = h.mayCreate(c, name, false)
	}
	if err == nil {
		err = checkTopicName(name)
		if req.IncludeTopicAuthorizedOperations {
			out.AuthorizedOperations = h.authorize.operations(c, acl.Topic, name)
		}
	}
	switch {
	case err != nil:
	case !create:
		err = kerr.UnknownTopicOrPartition
	case len(h.Metadata.Current().Brokers) == 0: // just started: no broker could host it yet
		err = kerr.LeaderNotAvailable
	default:
		err = h.autoCreate(ctx, c, name)
		if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
			err = kerr.LeaderNotAvailable
		}
	}
	out.ErrorCode = h.codeOf(err)
	return out
}

func (h *Handlers) describeTopic(c *Call, req *kmsg.MetadataRequest, snapshot *metadata.Snapshot, name string) kmsg.MetadataResponseTopic {
	t := snapshot.Topics[name]
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal, out.AuthorizedOperations = &name, t.ID, isInternal(name), unasked
	if req.IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = h.authorize.operations(c, acl.Topic, name)
	}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		describePartition(c, snapshot, &t.Partitions[i], &out.Partitions[i])
	}
	return out
}

// describePartition describes a partition as the client's listener sees it (ZkMetadataCache.getPartitionMetadata, 3.9).
func describePartition(c *Call, snapshot *metadata.Snapshot, p *metadata.Partition, out *kmsg.MetadataResponseTopicPartition) {
	reachable := func(id int32) bool {
		b := snapshot.Brokers[id]
		if b == nil {
			return false
		}
		_, ok := b.Endpoints[c.Conn.Listener]
		return ok
	}
	out.Default()
	out.Partition, out.Leader, out.LeaderEpoch = p.Number, p.Leader, p.LeaderEpoch
	out.Replicas, out.ISR = p.Replicas, p.ISR
	for _, id := range p.Replicas {
		if !reachable(id) || slices.Contains(p.Offline, id) {
			out.OfflineReplicas = append(out.OfflineReplicas, id)
		}
	}
	onlyReachable := c.Version == 0 // v0 has no offline replicas: it leaves them out and reports an error
	if onlyReachable {
		out.Replicas, out.ISR = filter(p.Replicas, reachable), filter(p.ISR, reachable)
	}
	switch {
	case !reachable(p.Leader):
		out.Leader, out.ErrorCode = -1, kerr.LeaderNotAvailable.Code
		if snapshot.Brokers[p.Leader] != nil && c.Version >= 6 {
			out.ErrorCode = kerr.ListenerNotFound.Code
		}
	case len(out.Replicas) < len(p.Replicas), len(out.ISR) < len(p.ISR):
		out.ErrorCode = kerr.ReplicaNotAvailable.Code
	}
}

func filter(ids []int32, keep func(int32) bool) []int32 {
	var kept []int32
	for _, id := range ids {
		if keep(id) {
			kept = append(kept, id)
		}
	}
	return kept
}
