package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"barnabas/internal/javahash"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	generationsTold = 5                // rebalances that are reported
	historyTimeout  = 20 * time.Second // for reading them
)

// group reports a group's members, their lag, and what caused the last rebalances.
func (d *doctor) group(ctx context.Context, name string) error {
	if err := awaitCoordinatorOf(ctx, d.cl, name); err != nil {
		return err
	}
	lags, err := d.adm.Lag(ctx, name)
	g := lags[name]
	if unreachable := cmp.Or(err, g.DescribeErr); isDial(unreachable) {
		d.trouble(name, "start that broker; if it stays away, another one coordinates the group once its ZooKeeper session has ended",
			"its coordinator cannot be reached, so that its members cannot either: %s.", message(unreachable))
		return nil
	}
	if err != nil && len(lags) == 0 {
		return err
	}
	if err := errors.Join(g.DescribeErr, g.FetchErr); err != nil {
		return fmt.Errorf("group %s: %w", name, err)
	}
	d.groupState(name, g)
	d.groupMembers(name, g)
	d.groupLag(name, g)
	return d.rebalances(ctx, name)
}

func (d *doctor) groupState(name string, g kadm.DescribedGroupLag) {
	switch g.State {
	case "Dead":
		d.trouble(name, "is the name right? kafka-consumer-groups.sh --list names all groups", "there is no such group; its coordinator would be broker %d.", g.Coordinator.NodeID)
	case "Empty":
		d.trouble(name, "start its consumers", "has no members, so nothing is consumed; broker %d coordinates it.", g.Coordinator.NodeID)
	case "PreparingRebalance":
		d.trouble(name, "a member whose processing takes longer than max.poll.interval.ms joins late: process fewer records at once (max.poll.records), or raise it",
			"is rebalancing: broker %d waits for %s to join again.", g.Coordinator.NodeID, counted(len(g.Members), "member"))
	case "CompletingRebalance":
		d.note(name, "is rebalancing: broker %d waits for the leader's assignment.", g.Coordinator.NodeID)
	default:
		d.note(name, "is %s with %s; broker %d coordinates it.", g.State, counted(len(g.Members), "member"), g.Coordinator.NodeID)
	}
}

func (d *doctor) groupMembers(name string, g kadm.DescribedGroupLag) {
	if g.State != "Stable" {
		return
	}
	idle := 0
	for _, m := range g.Members {
		a, ok := m.Assigned.AsConsumer()
		if ok && len(a.Topics) == 0 {
			idle++
		}
	}
	if idle > 0 {
		d.trouble(name, "stop some, or add partitions", "members without a partition: %d of %d. There are more members than partitions.", idle, len(g.Members))
	}
}

// groupLag reports members that lag behind. Lag by itself is no problem, but a partition without a member is.
func (d *doctor) groupLag(name string, g kadm.DescribedGroupLag) {
	for _, l := range g.Lag.Sorted() {
		subject := name + " at " + partitionName(l.Topic, l.Partition)
		switch {
		case l.Err != nil:
			d.trouble(subject, "see kafka-doctor.sh listeners, or the partition with kafka-topics.sh --describe", "its lag cannot be determined: %v.", l.Err)
		case l.Commit.At >= 0 && l.Start.Offset > l.Commit.At:
			d.trouble(subject, "retention deleted records before they were read: consume faster, keep them longer, or reset with kafka-consumer-groups.sh --reset-offsets",
				"the committed offset %d is below the log start %d: the group missed %s.", l.Commit.At, l.Start.Offset, counted(l.Start.Offset-l.Commit.At, "record"))
		case l.Member == nil && g.State == "Stable" && l.Lag > 0:
			d.trouble(subject, "does a member subscribe to the topic?", "is %s behind, and no member has the partition.", counted(l.Lag, "record"))
		case l.Member == nil:
			d.note(subject, "is %s behind.", counted(l.Lag, "record"))
		default:
			d.note(subject, "is %s behind; %s has the partition.", counted(l.Lag, "record"), who(l.Member.ClientID, l.Member.ClientHost))
		}
	}
}

func who(client, host string) string { return client + " at " + strings.TrimPrefix(host, "/") }

// generation is what a group's coordinator wrote at the end of a rebalance.
type generation struct {
	number  int32
	written time.Time
	members []kmsg.GroupMetadataValueMember
}

// rebalances reads what the coordinator wrote about the group to __consumer_offsets, as far as compaction has left it.
func (d *doctor) rebalances(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	history, err := d.generations(ctx, name)
	if err != nil {
		return fmt.Errorf("read the group's history in __consumer_offsets: %w", err)
	}
	if len(history) == 0 {
		d.note(name, "no rebalance is recorded.")
		return nil
	}
	first := max(1, len(history)-generationsTold)
	for i := first; i < len(history); i++ {
		d.note(fmt.Sprintf("%s generation %d", name, history[i].number), "%s: %s", at(history[i].written.UnixMilli()), changed(history[i-1], history[i]))
	}
	if len(history) == 1 {
		d.note(fmt.Sprintf("%s generation %d", name, history[0].number), "%s: the only one recorded, with %s.", at(history[0].written.UnixMilli()), counted(len(history[0].members), "member"))
	}
	return nil
}

// changed describes the difference between two generations.
func changed(before, after generation) string {
	var parts []string
	tell := func(what string, of, others []kmsg.GroupMetadataValueMember) {
		for _, m := range of {
			if !slices.ContainsFunc(others, func(o kmsg.GroupMetadataValueMember) bool { return o.MemberID == m.MemberID }) {
				parts = append(parts, who(m.ClientID, m.ClientHost)+" "+what)
			}
		}
	}
	tell("left or was removed", before.members, after.members)
	tell("joined", after.members, before.members)
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ") + "."
	case len(after.members) == 0:
		return "the group was already empty."
	}
	return "the same members: one joined again because its subscription or the topic's partitions had changed."
}

// generations returns all recorded generations, oldest first.
func (d *doctor) generations(ctx context.Context, name string) ([]generation, error) {
	meta, err := fetchMetadata(ctx, d.cl, "__consumer_offsets")
	if err != nil || meta.Topics[0].ErrorCode != 0 || len(meta.Topics[0].Partitions) == 0 {
		return nil, err
	}
	partition := javahash.PartitionFor(name, len(meta.Topics[0].Partitions))
	offsets, err := listKnown(ctx, d.adm.ListEndOffsets, "__consumer_offsets")
	if err != nil {
		return nil, err
	}
	end, ok := offsets.Lookup("__consumer_offsets", partition)
	if !ok || end.Err != nil {
		return nil, end.Err
	}
	starts, err := d.adm.ListStartOffsets(ctx, "__consumer_offsets")
	if err != nil {
		return nil, err
	}
	start, _ := starts.Lookup("__consumer_offsets", partition)
	if start.Offset >= end.Offset {
		return nil, nil
	}
	var history []generation
	err = d.each(ctx, "__consumer_offsets", partition, start.Offset, end.Offset, func(r *kgo.Record) {
		if g, ok := generationOf(name, r); ok {
			history = append(history, g)
		}
	})
	return history, err
}

// each reads the records of a partition from one offset to another.
func (d *doctor) each(ctx context.Context, topic string, partition int32, from, to int64, f func(*kgo.Record)) error {
	p, err := readProperties(*d.o.config)
	if err != nil {
		return err
	}
	p["bootstrap.servers"] = *d.o.bootstrap
	opts, err := clientOptions(ctx, d.env, p, nil)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(opts, kgo.KeepControlRecords(), // which may be the last ones
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for last := from - 1; last < to-1; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			last = r.Offset
			if !r.Attrs.IsControl() {
				f(r)
			}
		})
	}
	return nil
}

// generationOf decodes a record that a rebalance of the group has left.
func generationOf(group string, r *kgo.Record) (generation, bool) {
	k := kmsg.NewGroupMetadataKey()
	if version, _, err := groupKey(r.Key); err != nil || version != groupKeyVersion || k.ReadFrom(r.Key) != nil || k.Group != group || r.Value == nil {
		return generation{}, false
	}
	v := kmsg.NewGroupMetadataValue()
	if v.ReadFrom(r.Value) != nil {
		return generation{}, false
	}
	return generation{v.Generation, r.Timestamp, v.Members}, true
}
