package tools

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"barnabas/internal/uuid"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// partitionView is what --describe prints about a partition and what its filters examine.
type partitionView struct {
	kmsg.MetadataResponseTopicPartition
	adding, removing []int32
	minISR           int
	leaderAlive      bool
}

// replicationFactor excludes replicas that a reassignment is adding.
func (p *partitionView) replicationFactor() int {
	changing := func(id int32) bool { return slices.Contains(p.adding, id) || slices.Contains(p.removing, id) }
	if slices.ContainsFunc(p.Replicas, changing) {
		return len(p.Replicas) - len(p.adding)
	}
	return len(p.Replicas)
}

// shownIn reports whether a report shows the partition.
func (p *partitionView) shownIn(report string) bool {
	switch report {
	case underReplicated:
		return p.replicationFactor() > len(p.ISR)
	case unavailable:
		return !p.leaderAlive
	case underMinISR:
		return p.Leader < 0 || len(p.ISR) < p.minISR
	default: // atMinISR
		return len(p.ISR) == p.minISR
	}
}

func (t *topicsTool) describe(ctx context.Context) error {
	if t.o.has("topic") && t.o.has("topic-id") && t.o.has("if-exists") {
		t.env.println("--topic has no effect beside --topic-id")
	}
	found, brokers, err := t.matching(ctx, !t.o.has("if-exists"))
	if err != nil || len(found) == 0 {
		return err
	}
	names := make([]string, len(found))
	for i, m := range found {
		names[i] = *m.Topic
	}
	configs, err := describeConfigs(ctx, t.cl, kmsg.ConfigResourceTypeTopic, false, names...)
	if err != nil {
		return err
	}
	moves, err := reassignmentsOf(ctx, t.cl, found)
	if err != nil {
		return err
	}
	var reports []string
	for _, report := range topicReports {
		if t.o.has(report) {
			reports = append(reports, report)
		}
	}
	for _, m := range found {
		views := partitionViews(m, configs[*m.Topic], moves[*m.Topic], brokers)
		if len(reports) == 0 && !t.printTopic(m, views, configs[*m.Topic]) || t.o.has(withOverrides) {
			continue
		}
		for i := range views {
			if len(reports) == 0 || slices.ContainsFunc(reports, views[i].shownIn) {
				t.printPartition(*m.Topic, &views[i])
			}
		}
	}
	return nil
}

// printTopic prints a topic's line, unless only topics with settings of their own are wanted and it has none.
func (t *topicsTool) printTopic(m kmsg.MetadataResponseTopic, views []partitionView, c kmsg.DescribeConfigsResponseResource) bool {
	var overrides []string
	for _, e := range c.Configs {
		if e.Source != kmsg.ConfigSourceDefaultConfig && e.Value != nil {
			overrides = append(overrides, e.Name+"="+*e.Value)
		}
	}
	if len(overrides) == 0 && t.o.has(withOverrides) {
		return false
	}
	t.env.printf("Topic: %s", *m.Topic)
	if m.TopicID != [16]byte{} {
		t.env.printf("\tTopicId: %s", uuid.Text(m.TopicID))
	}
	factor := 0
	if len(views) > 0 {
		factor = views[0].replicationFactor()
	}
	t.env.printf("\tPartitionCount: %d\tReplicationFactor: %d\tConfigs: %s\n", len(views), factor, strings.Join(overrides, ","))
	return true
}

func (t *topicsTool) printPartition(topic string, p *partitionView) {
	leader := "none"
	if p.Leader >= 0 {
		leader = strconv.Itoa(int(p.Leader))
	}
	t.env.printf("\tTopic: %s\tPartition: %d\tLeader: %s\tReplicas: %s\tIsr: %s", topic, p.Partition, leader,
		joinInts(p.Replicas, ","), joinInts(p.ISR, ","))
	if len(p.adding)+len(p.removing) > 0 {
		t.env.printf("\tAdding Replicas: %s\tRemoving Replicas: %s", joinInts(p.adding, ","), joinInts(p.removing, ","))
	}
	t.env.println("\tElr: N/A\tLastKnownElr: N/A") // KIP-966 is for KRaft clusters
}

func partitionViews(m kmsg.MetadataResponseTopic, c kmsg.DescribeConfigsResponseResource,
	moves map[int32]kmsg.ListPartitionReassignmentsResponseTopicPartition, brokers []kmsg.MetadataResponseBroker) []partitionView {
	minISR := 1
	for _, e := range c.Configs {
		if e.Name == "min.insync.replicas" && e.Value != nil {
			minISR, _ = strconv.Atoi(*e.Value)
		}
	}
	views := make([]partitionView, len(m.Partitions))
	for i, p := range m.Partitions {
		move := moves[p.Partition]
		alive := slices.ContainsFunc(brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == p.Leader })
		views[i] = partitionView{p, move.AddingReplicas, move.RemovingReplicas, minISR, alive}
	}
	return views
}

// reassignmentsOf returns the partitions that are being moved, by topic and partition. If a broker does not have the
// API or does not allow it, none appear to be.
func reassignmentsOf(ctx context.Context, cl *kgo.Client, found []kmsg.MetadataResponseTopic) (map[string]map[int32]kmsg.ListPartitionReassignmentsResponseTopicPartition, error) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = requestTimeoutMs
	for _, m := range found {
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic = *m.Topic
		for _, p := range m.Partitions {
			t.Partitions = append(t.Partitions, p.Partition)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if errors.Is(err, kerr.UnsupportedVersion) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	moves := make(map[string]map[int32]kmsg.ListPartitionReassignmentsResponseTopicPartition)
	for _, t := range resp.Topics {
		moves[t.Topic] = make(map[int32]kmsg.ListPartitionReassignmentsResponseTopicPartition)
		for _, p := range t.Partitions {
			moves[t.Topic][p.Partition] = p
		}
	}
	return moves, nil
}
