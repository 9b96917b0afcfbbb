package group

import (
	"maps"
	"slices"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FetchOffsets returns a group's committed offsets for partitions of topics, or all of them if topics is nil. An offset
// of -1 means that there is none. If stable, partitions with a pending commit have UNSTABLE_OFFSET_COMMIT (KIP-447).
func (c *Coordinator) FetchOffsets(groupID string, topics []kmsg.OffsetFetchRequestGroupTopic, stable bool) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	s, err := c.shardOf(groupID, true)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.servingLocked(); err != nil {
		return nil, err
	}
	g := s.mu.groups[groupID]
	if g == nil {
		g = newGroup(groupID, c.limits, c.cfg.Now())
	}
	highWatermark := s.partition.Log().HighWatermark()
	g.settle(highWatermark)
	if topics == nil {
		topics = g.committedTopics(highWatermark)
	}
	out := make([]kmsg.OffsetFetchResponseGroupTopic, len(topics))
	for i, t := range topics {
		out[i].Topic = t.Topic
		out[i].Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.Partitions))
		for j, number := range t.Partitions {
			g.fill(&out[i].Partitions[j], logstore.TopicPartition{Topic: t.Topic, Partition: number}, highWatermark, stable)
		}
	}
	return out, nil
}

// committedTopics lists the partitions that the group has an offset for.
func (g *group) committedTopics(highWatermark int64) []kmsg.OffsetFetchRequestGroupTopic {
	byTopic := make(map[string][]int32)
	for tp, of := range g.offsets {
		if of.settle(highWatermark); of.known {
			byTopic[tp.Topic] = append(byTopic[tp.Topic], tp.Partition)
		}
	}
	list := make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(byTopic))
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = topic, byTopic[topic]
		slices.Sort(t.Partitions)
		list = append(list, t)
	}
	return list
}

func (g *group) fill(out *kmsg.OffsetFetchResponseGroupTopicPartition, tp logstore.TopicPartition, highWatermark int64, stable bool) {
	empty := ""
	out.Partition, out.Offset, out.LeaderEpoch, out.Metadata = tp.Partition, -1, none, &empty
	c, ok, unstable := g.offset(tp, highWatermark)
	switch {
	case stable && unstable:
		out.ErrorCode = kerr.UnstableOffsetCommit.Code
	case ok:
		out.Offset, out.LeaderEpoch, out.Metadata = c.offset, c.leaderEpoch, &c.metadata
	}
}
