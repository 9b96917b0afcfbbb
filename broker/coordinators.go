package broker

import (
	"context"
	"slices"
	"time"

	"barnabas/broker/group"
	"barnabas/broker/txn"
	"barnabas/config"
	"barnabas/internal/javahash"
	"barnabas/logstore"
	"barnabas/logstore/record"
)

// leadershipChanged makes this broker the coordinator for the partitions of internal topics that it leads.
func (s *Server) leadershipChanged(tp logstore.TopicPartition, leaderEpoch int32, leads bool) {
	switch tp.Topic {
	case group.Topic:
		s.groups.LeadershipChanged(tp.Partition, leaderEpoch, leads)
	case txn.Topic:
		s.transactions.LeadershipChanged(tp.Partition, leaderEpoch, leads)
	}
}

func (s *Server) groupConfig() group.Config {
	c := s.static
	return group.Config{
		MinSessionTimeout: c.GroupMinSessionTimeout, MaxSessionTimeout: c.GroupMaxSessionTimeout,
		InitialRebalanceDelay: c.GroupInitialRebalanceDelay, MaxSize: c.GroupMaxSize,
		MetadataMaxBytes: c.OffsetMetadataMaxBytes, Retention: c.OffsetsRetention, RetentionCheck: c.OffsetsRetentionCheckInterval,
		CommitTimeout: c.OffsetsCommitTimeout, CommitAcks: int16(c.Int("offsets.commit.required.acks")),
		LoadBufferBytes: int32(c.OffsetsLoadBufferBytes), Codec: record.Codec(c.OffsetsTopicCompressionCodec),
		ValueVersions: groupValueVersions(c.InterBrokerProtocolVersion),
		Partition: func(number int32) (group.Partition, bool) {
			return s.replicas.Partition(logstore.TopicPartition{Topic: group.Topic, Partition: number})
		},
		PartitionFor: s.groupPartition, Gone: s.goneTopics, Loaded: s.collector.groupsLoaded, Logger: s.loggers.Entry(config.GroupLogger), Now: time.Now,
	}
}

// groupPartition returns the partition of __consumer_offsets that a group belongs to.
func (s *Server) groupPartition(groupID string) int32 {
	count := s.static.OffsetsTopicPartitions
	if t := s.metadata.Current().Topics[group.Topic]; t != nil {
		count = len(t.Partitions)
	}
	return javahash.PartitionFor(groupID, count)
}

// goneTopics returns those of some topics that are neither in the metadata nor in ZooKeeper.
func (s *Server) goneTopics(ctx context.Context, topics []string) ([]string, error) {
	known := s.metadata.Current().Topics
	gone := slices.DeleteFunc(slices.Clone(topics), func(name string) bool { return known[name] != nil })
	if len(gone) == 0 {
		return nil, nil
	}
	names, _, err := s.zk.NewestTopics(ctx, func(string) bool { return false })
	if err != nil {
		return nil, err
	}
	return missingNames(gone, names), nil
}

// missingNames returns the topics that are not among the names that ZooKeeper has. If not even __consumer_offsets is,
// these are not the names of this cluster's topics.
func missingNames(topics, names []string) []string {
	if !slices.Contains(names, group.Topic) {
		return nil
	}
	return slices.DeleteFunc(topics, func(name string) bool { return slices.Contains(names, name) })
}

// groupValueVersions returns the versions of stored values that all brokers with that protocol version can read
// (GroupMetadataManager, 3.9).
func groupValueVersions(v config.ProtocolVersion) group.ValueVersions {
	versions := group.NewestVersions
	switch {
	case v < config.IBP21IV0:
		versions.Offset = 1
	case v < config.IBP21IV1:
		versions.Offset = 2
	}
	switch {
	case v < config.IBP0101IV0:
		versions.Group = 0
	case v < config.IBP21IV0:
		versions.Group = 1
	case v < config.IBP23IV0:
		versions.Group = 2
	}
	return versions
}
