package api

import (
	"context"
	"fmt"
	"slices"

	"barnabas/broker/metadata"
	"barnabas/config"
	"barnabas/internal/await"
	"barnabas/internal/placement"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newTopic is a topic that has passed all checks.
type newTopic struct {
	assignment map[int32][]int32
	configs    map[string]string
}

// replicationFactor returns that of partition 0.
func (t *newTopic) replicationFactor() int16 { return int16(len(t.assignment[0])) }

// planTopic checks a topic that is to be created and places its replicas, with Apache Kafka's order of checks
// (ZkAdminManager.createTopics, 3.9).
func (h *Handlers) planTopic(snapshot *metadata.Snapshot, t *kmsg.CreateTopicsRequestTopic) (*newTopic, error) {
	if snapshot.Topics[t.Topic] != nil {
		return nil, fmt.Errorf("topic %q: %w", t.Topic, kerr.TopicAlreadyExists)
	}
	configs, err := topicConfigs(t)
	if err != nil {
		return nil, err
	}
	assignment, err := h.placeTopic(snapshot, t)
	if err != nil {
		return nil, err
	}
	if err := checkTopicName(t.Topic); err != nil {
		return nil, err
	}
	if err := checkCollision(snapshot, t.Topic); err != nil {
		return nil, err
	}
	if err := checkAssignment(assignment); err != nil {
		return nil, err
	}
	if _, err := h.Config.Current().AlterTopic(nil, setAll(configs)); err != nil {
		return nil, err
	}
	return &newTopic{assignment, configs}, nil
}

// topicConfigs returns the configs of a request; if one is given twice, the last counts.
func topicConfigs(t *kmsg.CreateTopicsRequestTopic) (map[string]string, error) {
	configs := make(map[string]string, len(t.Configs))
	for _, c := range t.Configs {
		if c.Value == nil {
			return nil, fmt.Errorf("config %s is null: %w", c.Name, kerr.InvalidConfig)
		}
		configs[c.Name] = *c.Value
	}
	return configs, nil
}

func setAll(configs map[string]string) []config.Op {
	ops := make([]config.Op, 0, len(configs))
	for key, value := range configs {
		ops = append(ops, config.Op{Key: key, Kind: config.OpSet, Value: &value})
	}
	return ops
}

func (h *Handlers) placeTopic(snapshot *metadata.Snapshot, t *kmsg.CreateTopicsRequestTopic) (map[int32][]int32, error) {
	if len(t.ReplicaAssignment) > 0 {
		if t.NumPartitions != -1 || t.ReplicationFactor != -1 {
			return nil, fmt.Errorf("an assignment excludes counts of partitions and replicas: %w", kerr.InvalidRequest)
		}
		assignment := make(map[int32][]int32, len(t.ReplicaAssignment))
		for _, a := range t.ReplicaAssignment {
			assignment[a.Partition] = a.Replicas
		}
		return assignment, nil
	}
	partitions, factor := int(t.NumPartitions), int(t.ReplicationFactor)
	if partitions == -1 {
		partitions = h.Config.Current().NumPartitions
	}
	if factor == -1 {
		factor = h.Config.Current().DefaultReplicationFactor
	}
	brokers := placeable(snapshot)
	return placement.Assign(brokers, partitions, factor, placement.Random(len(brokers)))
}

// placeable returns the brokers that replicas can be placed on.
func placeable(snapshot *metadata.Snapshot) []placement.Broker {
	brokers := make([]placement.Broker, 0, len(snapshot.Brokers))
	for id, b := range snapshot.Brokers {
		rack := ""
		if b.Rack != nil {
			rack = *b.Rack
		}
		brokers = append(brokers, placement.Broker{ID: id, Rack: rack})
	}
	return brokers
}

// checkAssignment requires partitions from 0 on without gaps, all with the same number of distinct replicas.
func checkAssignment(assignment map[int32][]int32) error {
	for p := range int32(len(assignment)) {
		replicas, ok := assignment[p]
		switch {
		case !ok:
			return fmt.Errorf("the assignment lacks partition %d: %w", p, kerr.InvalidReplicaAssignment)
		case len(replicas) != len(assignment[0]):
			return fmt.Errorf("partition %d has %d replicas, partition 0 has %d: %w", p, len(replicas), len(assignment[0]), kerr.InvalidReplicaAssignment)
		case hasTwice(replicas):
			return fmt.Errorf("partition %d: replicas %v name a broker twice: %w", p, replicas, kerr.InvalidReplicaAssignment)
		}
	}
	return nil
}

func hasTwice(ids []int32) bool {
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	return len(slices.Compact(sorted)) != len(ids)
}

// autoCreate creates a topic that was requested by name. The request does not wait for its leaders. At the controller, it
// counts towards the client's mutation quota, but the client does not have to wait (KafkaApis, 3.9).
func (h *Handlers) autoCreate(ctx context.Context, c *Call, name string) error {
	cfg := h.Config.Current()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	switch name {
	case offsetsTopic:
		t.NumPartitions, t.ReplicationFactor = int32(cfg.OffsetsTopicPartitions), int16(cfg.OffsetsTopicReplicationFactor)
		addConfigs(&t, offsetsTopicConfigs(cfg))
	case transactionsTopic:
		t.NumPartitions, t.ReplicationFactor = int32(cfg.TransactionStateLogPartitions), int16(cfg.TransactionStateLogReplication)
		addConfigs(&t, transactionsTopicConfigs(cfg))
	}
	plan, err := h.planTopic(h.Metadata.Current(), &t)
	if err != nil {
		return err
	}
	if h.Controller.Active() {
		h.Quotas.Mutate(c.user(), c.clientID(), len(plan.assignment), false)
	}
	_, err = h.ZK.CreateTopic(ctx, name, plan.assignment, plan.configs)
	return err
}

func addConfigs(t *kmsg.CreateTopicsRequestTopic, configs map[string]string) {
	for name, value := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		t.Configs = append(t.Configs, c)
	}
}

// offsetsTopicConfigs returns the settings with which Apache Kafka creates __consumer_offsets.
func offsetsTopicConfigs(cfg *config.Broker) map[string]string {
	return map[string]string{
		"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": fmt.Sprint(cfg.OffsetsTopicSegmentBytes),
	}
}

// transactionsTopicConfigs returns the settings with which Apache Kafka creates __transaction_state.
func transactionsTopicConfigs(cfg *config.Broker) map[string]string {
	return map[string]string{
		"cleanup.policy": "compact", "compression.type": "uncompressed",
		"min.insync.replicas":            fmt.Sprint(cfg.TransactionStateLogMinISR),
		"segment.bytes":                  fmt.Sprint(cfg.TransactionStateLogSegmentBytes),
		"unclean.leader.election.enable": "false",
	}
}

// awaitMetadata waits until this broker's metadata passes a check.
func (h *Handlers) awaitMetadata(ctx context.Context, check func(*metadata.Snapshot) bool) error {
	return await.Until(ctx, func() (bool, error) { return check(h.Metadata.Current()), nil }, &h.Metadata.Changed)
}

// allLed reports whether partitions 0 to count-1 have leaders.
func allLed(p *metadata.Snapshot, topic string, count int) bool {
	t := p.Topics[topic]
	if t == nil || len(t.Partitions) < count {
		return false
	}
	for i := range t.Partitions {
		if t.Partitions[i].Leader < 0 {
			return false
		}
	}
	return true
}
