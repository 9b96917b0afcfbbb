package api

import (
	"barnabas/broker/metadata"
	"barnabas/logstore"
)

// leaderHint names a partition's leader for a client that asked the wrong broker (KIP-951).
type leaderHint struct {
	leader int32
	epoch  int32
	node   *metadata.Endpoint // on the client's listener; nil: unknown
	rack   *string
}

// leaderHint returns a partition's leader for clients on a listener. A partition without one has no hint, not even the
// epoch in which it has lost its leader.
func (h *Handlers) leaderHint(listener, topic string, number int32) (leaderHint, bool) {
	hint, known := h.newestLeader(listener, topic, number)
	return hint, known && hint.leader >= 0
}

// newestLeader returns the leader that this broker knows of as a replica or, if that is newer, from its metadata: the
// controller tells replicas of a new leader first (KafkaApis.getCurrentLeader, 3.9).
func (h *Handlers) newestLeader(listener, topic string, number int32) (leaderHint, bool) {
	hint, known := h.leaderInMetadata(listener, topic, number)
	part, hosted := h.Replicas.Partition(logstore.TopicPartition{Topic: topic, Partition: number})
	if !hosted {
		return hint, known
	}
	s := part.State()
	if known && s.LeaderEpoch <= hint.epoch {
		return hint, true
	}
	return h.reachable(listener, leaderHint{leader: s.Leader, epoch: s.LeaderEpoch}), true
}

func (h *Handlers) leaderInMetadata(listener, topic string, number int32) (leaderHint, bool) {
	p, ok := h.Metadata.Current().Partition(topic, number)
	if !ok {
		return leaderHint{}, false
	}
	return h.reachable(listener, leaderHint{leader: p.Leader, epoch: p.LeaderEpoch}), true
}

// reachable adds the leader's address if it is alive and has the listener.
func (h *Handlers) reachable(listener string, hint leaderHint) leaderHint {
	if b := h.Metadata.Current().Brokers[hint.leader]; b != nil {
		if e, ok := b.Endpoints[listener]; ok {
			hint.node, hint.rack = &e, b.Rack
		}
	}
	return hint
}
