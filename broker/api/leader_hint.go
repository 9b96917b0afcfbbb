package api

import "barnabas/broker/metadata"

// leaderHint names a partition's leader for a client that asked the wrong broker (KIP-951).
type leaderHint struct {
	leader int32
	epoch  int32
	node   *metadata.Endpoint // on the client's listener; nil: unknown
	rack   *string
}

func (h *Handlers) leaderHint(listener, topic string, number int32) (leaderHint, bool) {
	snapshot := h.Metadata.Current()
	p, ok := snapshot.Partition(topic, number)
	if !ok {
		return leaderHint{}, false
	}
	hint := leaderHint{leader: p.Leader, epoch: p.LeaderEpoch}
	if b := snapshot.Brokers[p.Leader]; b != nil {
		if e, ok := b.Endpoints[listener]; ok {
			hint.node, hint.rack = &e, b.Rack
		}
	}
	return hint, true
}
