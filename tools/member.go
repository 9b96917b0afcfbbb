package tools

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asMember returns the options of a client that reads as a member of a group. The defaults are those of Java's
// consumer.
func asMember(group string, p properties) []kgo.Opt {
	opts := []kgo.Opt{kgo.ConsumerGroup(group)}
	if _, ok := p["partition.assignment.strategy"]; !ok { // the first one is used, unless other members do not know it
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()))
	}
	if !autoCommits(p) {
		return append(opts, kgo.DisableAutoCommit())
	}
	if reset := p["auto.offset.reset"]; reset == "earliest" || reset == "latest" {
		s := &startOffsets{reset: reset, level: p["isolation.level"]}
		opts = append(opts, kgo.OnOffsetsFetched(s.commit), kgo.AdjustFetchOffsetsFn(s.begin))
	}
	return opts
}

// autoCommits reports whether a member with these settings commits automatically.
func autoCommits(p properties) bool {
	v, ok := p["enable.auto.commit"]
	return !ok || isTrue(v)
}

// startOffsets makes a group member commit where it starts in partitions for which the group has no offset, even if
// there is no record. Java's consumer commits its position in all of its partitions, while franz-go commits only those
// from which records were read: without this, the next member that starts at the end would skip records that arrived in
// such a partition in between. Its methods are called by a client, one after another.
type startOffsets struct {
	reset string // auto.offset.reset
	level string // isolation.level
	found map[string]map[int32]kgo.Offset
}

// commit determines where to start if the group has no offset, and commits that. If it fails, that is left to the
// client, which starts anyway.
func (s *startOffsets) commit(ctx context.Context, cl *kgo.Client, fetched *kmsg.OffsetFetchResponse) error {
	s.found = nil
	missing := withoutOffset(fetched)
	if len(missing) == 0 {
		return nil
	}
	listed, err := s.list(ctx, kadm.NewClient(cl), missing.Topics()...)
	if err != nil {
		return nil
	}
	s.found = make(map[string]map[int32]kgo.Offset)
	starts := make(map[string]map[int32]kgo.EpochOffset)
	missing.Each(func(topic string, partition int32) {
		at, ok := listed.Lookup(topic, partition)
		if !ok || at.Err != nil || at.Offset < 0 {
			return
		}
		if starts[topic] == nil {
			s.found[topic], starts[topic] = make(map[int32]kgo.Offset), make(map[int32]kgo.EpochOffset)
		}
		s.found[topic][partition] = kgo.NewOffset().At(at.Offset)
		starts[topic][partition] = kgo.EpochOffset{Epoch: at.LeaderEpoch, Offset: at.Offset}
	})
	cl.CommitOffsetsSync(ctx, starts, nil)
	return nil
}

// begin substitutes what was found for what the client would look up itself.
func (s *startOffsets) begin(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for topic, partitions := range s.found {
		for partition, offset := range partitions {
			if _, ok := offsets[topic][partition]; ok {
				offsets[topic][partition] = offset
			}
		}
	}
	return offsets, nil
}

func (s *startOffsets) list(ctx context.Context, adm *kadm.Client, topics ...string) (kadm.ListedOffsets, error) {
	switch {
	case s.reset == "earliest":
		return adm.ListStartOffsets(ctx, topics...)
	case s.level == "read_committed":
		return listKnown(ctx, adm.ListCommittedOffsets, topics...)
	}
	return listKnown(ctx, adm.ListEndOffsets, topics...)
}

// withoutOffset returns the partitions for which a group has no offset.
func withoutOffset(fetched *kmsg.OffsetFetchResponse) kadm.TopicsSet {
	missing := make(kadm.TopicsSet)
	for _, group := range fetched.Groups {
		for _, topic := range group.Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode == 0 && p.Offset < 0 {
					missing.Add(topic.Topic, p.Partition)
				}
			}
		}
	}
	return missing
}
