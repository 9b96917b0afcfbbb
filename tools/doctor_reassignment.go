package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reassignment reports for each partition that is being moved what it waits for, and throttles that are no longer
// needed.
func (d *doctor) reassignment(ctx context.Context) error {
	meta, err := fetchMetadata(ctx, d.cl)
	if err != nil {
		return err
	}
	moves, err := d.moves(ctx)
	if err != nil {
		return err
	}
	brokers := make(map[int32]settings)
	for _, b := range meta.Brokers {
		if brokers[b.NodeID], err = d.brokerSettings(ctx, b.NodeID); isDial(err) {
			d.unreachable(b.NodeID, err, "its throttles are not known")
		} else if err != nil {
			return err
		}
	}
	if len(moves) == 0 {
		d.note("reassignment", "none is under way.")
		return d.leftThrottles(ctx, meta, brokers)
	}
	for _, m := range moves {
		if err := d.move(ctx, meta, brokers, m); err != nil {
			return err
		}
	}
	return nil
}

// movedPartition is a partition whose replicas are being moved.
type movedPartition struct {
	topic string
	kmsg.ListPartitionReassignmentsResponseTopicPartition
}

// moves requests all reassignments from the controller, sorted.
func (d *doctor) moves(ctx context.Context) ([]movedPartition, error) {
	resp, err := kmsg.NewPtrListPartitionReassignmentsRequest().RequestWith(ctx, d.cl)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, err
	}
	var moves []movedPartition
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			moves = append(moves, movedPartition{t.Topic, p})
		}
	}
	slices.SortFunc(moves, func(a, b movedPartition) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.Partition, b.Partition))
	})
	return moves, nil
}

// move reports on one partition.
func (d *doctor) move(ctx context.Context, meta *kmsg.MetadataResponse, brokers map[int32]settings, m movedPartition) error {
	subject := partitionName(m.topic, m.Partition)
	p := partitionOf(meta, m.topic, m.Partition)
	if p == nil || p.Leader < 0 {
		d.trouble(subject, "bring one of its replicas back", "has no leader: the new replicas cannot copy from anywhere.")
		return nil
	}
	var behind []int32
	for _, id := range m.AddingReplicas {
		switch {
		case slices.Contains(p.ISR, id):
		case !alive(meta, id):
			d.trouble(subject, fmt.Sprintf("start broker %d, or cancel the move with kafka-reassign-partitions.sh --cancel", id), "broker %d, which is to get a replica, is not running.", id)
		case slices.Contains(p.OfflineReplicas, id):
			d.trouble(subject, fmt.Sprintf("repair the log directory on broker %d; its log says which one failed", id), "the log directory of the new replica on broker %d has failed.", id)
		default:
			behind = append(behind, id)
		}
	}
	for _, id := range m.RemovingReplicas {
		if !alive(meta, id) {
			d.note(subject, "broker %d, which is to give up its replica, is not running; it deletes it when it is back.", id)
		}
	}
	if len(behind) == 0 {
		d.note(subject, "moves to %s.", joinInts(without(m.Replicas, m.RemovingReplicas), ","))
		return nil
	}
	return d.catchingUp(ctx, brokers, m, p, behind)
}

func without(list, out []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(id int32) bool { return slices.Contains(out, id) })
}

// patience is how long a throttled copy may take before it counts as a problem.
const patience = 24 * time.Hour

// catchingUp reports the progress of new replicas, and the throttle that applies to them.
func (d *doctor) catchingUp(ctx context.Context, brokers map[int32]settings, m movedPartition, p *kmsg.MetadataResponseTopicPartition, behind []int32) error {
	topic, err := d.topicSettings(ctx, m.topic)
	if err != nil {
		return err
	}
	dirs, err := d.replicaDirs(ctx, m.topic, []int32{m.Partition})
	if err != nil {
		return err
	}
	sizes := make(map[int32]int64)
	for _, dir := range dirs {
		sizes[dir.broker] = dir.size
	}
	for _, id := range behind {
		subject := fmt.Sprintf("%s on broker %d", partitionName(m.topic, m.Partition), id)
		left := max(0, sizes[p.Leader]-sizes[id])
		rate, setting := throttleOf(topic, brokers, m.Partition, p.Leader, id)
		switch {
		case rate < 0:
			d.note(subject, "has %d of %s; it is not throttled.", sizes[id], counted(sizes[p.Leader], "byte"))
		case rate == 0 || duration(left/rate, time.Second) > patience:
			d.trouble(subject, "raise it: kafka-reassign-partitions.sh --execute --additional --throttle BYTES with the same plan",
				"has %d of %s; with %s=%d, the rest takes %s.", sizes[id], counted(sizes[p.Leader], "byte"), setting, rate, eta(left, rate))
		default:
			d.note(subject, "has %d of %s; with %s=%d, the rest takes about %s.", sizes[id], counted(sizes[p.Leader], "byte"), setting, rate, eta(left, rate))
		}
	}
	return nil
}

func eta(left, rate int64) string {
	if rate == 0 {
		return "forever"
	}
	return lasting(duration(left/rate, time.Second))
}

// throttleOf returns the lowest rate that applies to a copy, -1 if there is none.
func throttleOf(topic settings, brokers map[int32]settings, partition, from, to int32) (rate int64, setting string) {
	rate = -1
	for _, side := range []struct {
		broker         int32
		rate, replicas string
	}{{from, leaderRate, leaderReplicas}, {to, followerRate, followerReplicas}} {
		if !throttled(topic[side.replicas], partition, side.broker) {
			continue
		}
		if r := brokers[side.broker].number(side.rate); r >= 0 && (rate < 0 || r < rate) {
			rate, setting = r, side.rate
		}
	}
	return rate, setting
}

// throttled reports whether a list of throttled replicas contains one.
func throttled(list string, partition, broker int32) bool {
	return list == "*" || slices.Contains(strings.Split(list, ","), fmt.Sprintf("%d:%d", partition, broker))
}

// leftThrottles finds throttles that a finished reassignment has left behind: they slow down replicas that fall behind.
func (d *doctor) leftThrottles(ctx context.Context, meta *kmsg.MetadataResponse, brokers map[int32]settings) error {
	const do = "remove it with kafka-reassign-partitions.sh --verify and the plan, or with kafka-configs.sh --alter --delete-config"
	for _, b := range meta.Brokers {
		for _, name := range []string{leaderRate, followerRate} {
			if v, ok := brokers[b.NodeID][name]; ok {
				d.trouble("broker "+number(b.NodeID), do, "%s=%s is left over.", name, v)
			}
		}
	}
	var names []string
	for _, t := range meta.Topics {
		names = append(names, *t.Topic)
	}
	if len(names) == 0 {
		return nil
	}
	found, err := describeConfigs(ctx, d.cl, kmsg.ConfigResourceTypeTopic, false, names...)
	if err != nil {
		return err
	}
	slices.SortFunc(meta.Topics, func(a, b kmsg.MetadataResponseTopic) int { return cmp.Compare(*a.Topic, *b.Topic) })
	for _, name := range names {
		for _, c := range found[name].Configs {
			if (c.Name == leaderReplicas || c.Name == followerReplicas) && c.Value != nil && *c.Value != "" {
				d.trouble("topic "+name, do, "%s=%s is left over.", c.Name, *c.Value)
			}
		}
	}
	return nil
}
