package tools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The settings that throttle moves: rates for a broker, and the replicas of a topic to which they apply.
const (
	leaderRate       = "leader.replication.throttled.rate"
	followerRate     = "follower.replication.throttled.rate"
	dirsRate         = "replica.alter.log.dirs.io.max.bytes.per.second"
	leaderReplicas   = "leader.replication.throttled.replicas"
	followerReplicas = "follower.replication.throttled.replicas"
)

type moving = map[string]kmsg.ListPartitionReassignmentsResponseTopicPartition

// setThrottles sets the rates of the participating brokers, before the moves start.
func (r *reassigner) setThrottles(ctx context.Context, before moving) error {
	if *r.o.throttle < 0 && *r.o.dirsThrottle < 0 {
		return nil
	}
	r.env.println("Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed.")
	if *r.o.throttle >= 0 {
		if err := r.throttleTopics(ctx, before); err != nil {
			return err
		}
		rate := strconv.FormatInt(*r.o.throttle, 10)
		if err := r.alterBrokers(ctx, r.movingBrokers(before), []setting{{leaderRate, rate}, {followerRate, rate}}); err != nil {
			return err
		}
		r.env.printf("The inter-broker throttle limit was set to %s B/s\n", rate)
	}
	if *r.o.dirsThrottle >= 0 {
		var brokers []int32
		for _, m := range r.plan.dirMoves() {
			brokers = append(brokers, m.broker)
		}
		rate := strconv.FormatInt(*r.o.dirsThrottle, 10)
		if err := r.alterBrokers(ctx, brokers, []setting{{dirsRate, rate}}); err != nil {
			return err
		}
		r.env.printf("The replica-alter-dir throttle limit was set to %s B/s\n", rate)
	}
	return nil
}

// sources returns the replicas that a partition is read from while it moves.
func (r *reassigner) sources(m move, before moving) []int32 {
	if b, ok := before[m.name()]; ok {
		return slices.DeleteFunc(slices.Clone(b.Replicas), func(id int32) bool { return slices.Contains(b.AddingReplicas, id) })
	}
	return r.replicas(m.Topic, m.Partition)
}

// throttled returns the moves that are throttled: those of the plan, and those in progress beside it (--additional),
// which share the rates of the brokers and the settings of the topics.
func (r *reassigner) throttled(before moving) []move {
	all := slices.Clone(r.plan.Partitions)
	for _, name := range sortedPartitions(before) {
		b := before[name]
		if !slices.ContainsFunc(all, func(m move) bool { return m.name() == name }) {
			all = append(all, move{Topic: strings.TrimSuffix(name, fmt.Sprintf("-%d", b.Partition)), Partition: b.Partition, Replicas: b.Replicas})
		}
	}
	return all
}

// movingBrokers returns all that send or receive.
func (r *reassigner) movingBrokers(before moving) []int32 {
	var all []int32
	for _, m := range r.throttled(before) {
		all = append(append(all, r.sources(m, before)...), m.Replicas...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// throttleTopics sets the replicas to which the rates apply: all current ones send, the added ones receive.
func (r *reassigner) throttleTopics(ctx context.Context, before moving) error {
	leaders, followers := make(map[string][]string), make(map[string][]string)
	for _, m := range r.throttled(before) {
		sources := r.sources(m, before)
		for _, id := range sources {
			leaders[m.Topic] = append(leaders[m.Topic], fmt.Sprintf("%d:%d", m.Partition, id))
		}
		for _, id := range m.Replicas {
			if !slices.Contains(sources, id) {
				followers[m.Topic] = append(followers[m.Topic], fmt.Sprintf("%d:%d", m.Partition, id))
			}
		}
	}
	var resources []configChange
	for _, topic := range slices.Sorted(maps.Keys(leaders)) {
		resources = append(resources, configChange{kmsg.ConfigResourceTypeTopic, topic, []setting{
			{leaderReplicas, strings.Join(leaders[topic], ",")}, {followerReplicas, strings.Join(followers[topic], ",")}}, nil})
	}
	return alterConfigs(ctx, r.cl, resources...)
}

func (r *reassigner) alterBrokers(ctx context.Context, brokers []int32, settings []setting) error {
	for _, id := range brokers {
		err := alterConfigs(ctx, r.cl, configChange{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), settings, nil})
		if err != nil {
			return err
		}
	}
	return nil
}

// clearThrottles removes the throttles of all brokers and of the plan's topics.
func (r *reassigner) clearThrottles(ctx context.Context) error {
	var ids []int32
	for _, b := range r.meta.Brokers {
		ids = append(ids, b.NodeID)
	}
	r.env.printf("Clearing broker-level throttles on broker%s %s\n", pluralOf(len(ids)), joinInts(ids, ","))
	for _, id := range ids {
		err := alterConfigs(ctx, r.cl, configChange{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), nil, []string{leaderRate, followerRate, dirsRate}})
		if err != nil {
			return err
		}
	}
	var resources []configChange
	var topics []string
	for _, t := range r.meta.Topics {
		if slices.Contains(r.plan.topicNames(), *t.Topic) {
			topics = append(topics, *t.Topic)
			resources = append(resources, configChange{kmsg.ConfigResourceTypeTopic, *t.Topic, nil, []string{leaderReplicas, followerReplicas}})
		}
	}
	if len(topics) == 0 {
		return nil
	}
	r.env.printf("Clearing topic-level throttles on topic%s %s\n", pluralOf(len(topics)), strings.Join(topics, ","))
	return alterConfigs(ctx, r.cl, resources...)
}

func pluralOf(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
