package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"barnabas/internal/await"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ongoing returns the moves in progress, by partition; all of them or those of the plan.
func (r *reassigner) ongoing(ctx context.Context, all bool) (moving, error) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = requestTimeoutMs
	if !all {
		for _, m := range r.plan.Partitions {
			t := kmsg.NewListPartitionReassignmentsRequestTopic()
			t.Topic, t.Partitions = m.Topic, []int32{m.Partition}
			req.Topics = append(req.Topics, t)
		}
	}
	resp, err := req.RequestWith(ctx, r.cl)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, err
	}
	moves := make(moving)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			moves[partitionName(t.Topic, p.Partition)] = p
		}
	}
	return moves, nil
}

func (r *reassigner) list(ctx context.Context) error {
	moves, err := r.ongoing(ctx, true)
	if err != nil {
		return err
	}
	if len(moves) == 0 {
		r.env.println("No partition reassignments found.")
		return nil
	}
	r.env.println("Current partition reassignments:")
	for _, name := range sortedPartitions(moves) {
		m := moves[name]
		r.env.printf("%s: replicas: %s.", name, joinInts(m.Replicas, ","))
		if len(m.AddingReplicas) > 0 {
			r.env.printf(" adding: %s.", joinInts(m.AddingReplicas, ","))
		}
		if len(m.RemovingReplicas) > 0 {
			r.env.printf(" removing: %s.", joinInts(m.RemovingReplicas, ","))
		}
		r.env.println()
	}
	return nil
}

// sortedPartitions returns the keys topic-partition, sorted by topic and number.
func sortedPartitions[V any](m map[string]V) []string {
	split := func(name string) (string, int) {
		i := strings.LastIndexByte(name, '-')
		n, _ := strconv.Atoi(name[i+1:])
		return name[:i], n
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		at, an := split(a)
		bt, bn := split(b)
		return cmp.Or(cmp.Compare(at, bt), cmp.Compare(an, bn))
	})
}

func (r *reassigner) execute(ctx context.Context) error {
	before, err := r.ongoing(ctx, true)
	if err != nil {
		return err
	}
	if len(before) > 0 && !r.o.has("additional") {
		return terseError("Cannot execute because there is an existing partition assignment. Cancel it, or add --additional to begin another one beside it.")
	}
	for _, m := range r.plan.Partitions {
		for _, id := range m.Replicas {
			if !alive(r.meta, id) {
				return fmt.Errorf("unknown broker id %d", id)
			}
		}
	}
	now, err := r.current()
	if err != nil {
		return err
	}
	r.env.printf("Current partition replica assignment\n\n%s\n\nSave this to use as the --reassignment-json-file option during rollback\n", now.text())
	if err := r.env.flush(); err != nil { // nothing is moved without a way back
		return err
	}
	if err := r.setThrottles(ctx, before); err != nil {
		return err
	}
	failed, err := r.submit(ctx, r.plan.Partitions)
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return terseError("Error reassigning partition(s):\n" + strings.Join(failed, "\n"))
	}
	r.env.printf("Successfully started partition reassignment%s for %s\n", pluralOf(len(r.plan.Partitions)), r.plan.names())
	return r.moveDirs(ctx, r.plan.dirMoves())
}

// submit requests reassignments to the replicas of moves, or their cancellation where there are none. It returns the
// partitions for which that is refused, each with the reason.
func (r *reassigner) submit(ctx context.Context, moves []move) (failed []string, err error) {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = requestTimeoutMs
	for _, m := range moves {
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = m.Partition, m.Replicas
		if n := len(req.Topics); n > 0 && req.Topics[n-1].Topic == m.Topic {
			req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, p)
			continue
		}
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic = m.Topic
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, r.cl)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := answered(p.ErrorCode, p.ErrorMessage); err != nil {
				failed = append(failed, fmt.Sprintf("%s-%d: %s", t.Topic, p.Partition, describe(err)))
			}
		}
	}
	return failed, nil
}

// dirReplica is a replica for which the plan names a directory.
type dirReplica struct {
	name      string
	topic     string
	partition int32
	broker    int32
	dir       string
}

// dirMoves returns the replicas for which the plan names a directory.
func (p *plan) dirMoves() []dirReplica {
	var all []dirReplica
	for _, m := range p.Partitions {
		for i, dir := range m.LogDirs {
			if dir != anyDir {
				all = append(all, dirReplica{m.name(), m.Topic, m.Partition, m.Replicas[i], dir})
			}
		}
	}
	return all
}

// moveDirs requests brokers to move replicas to directories. For a replica that does not exist yet, the request is
// repeated until --timeout expires.
func (r *reassigner) moveDirs(ctx context.Context, left []dirReplica) error {
	const between = 100 * time.Millisecond
	if len(left) == 0 {
		return nil
	}
	timeout, err := r.o.GetInt64("timeout")
	if err != nil {
		return err
	}
	deadline := time.Now().Add(duration(timeout, time.Millisecond))
	for {
		var later []dirReplica
		for _, m := range left {
			err := r.moveDir(ctx, m)
			switch {
			case errors.Is(err, kerr.ReplicaNotAvailable):
				later = append(later, m)
			case err != nil:
				return fmt.Errorf("failed to alter dir for %s-%d to %s: %w", m.name, m.broker, m.dir, err)
			default:
				r.env.printf("Successfully started moving log directory to %s for replica %s with broker %d\n", m.dir, m.name, m.broker)
			}
		}
		if left = later; len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			names := make([]string, len(left))
			for i, m := range left {
				names[i] = fmt.Sprintf("%s-%d", m.name, m.broker)
			}
			return terseError(fmt.Sprintf("Timed out before log directory move%s could be started for: %s", pluralOf(len(left)), strings.Join(names, ",")))
		}
		if await.Pause(ctx, between) != nil {
			return context.Cause(ctx)
		}
	}
}

func (r *reassigner) moveDir(ctx context.Context, m dirReplica) error {
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir = m.dir
	t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	t.Topic, t.Partitions = m.topic, []int32{m.partition}
	d.Topics = append(d.Topics, t)
	req.Dirs = append(req.Dirs, d)
	resp, err := r.cl.Broker(int(m.broker)).RetriableRequest(ctx, req)
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.AlterReplicaLogDirsResponse).Topics {
		for _, p := range t.Partitions {
			if err := answered(p.ErrorCode, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reassigner) verify(ctx context.Context) error {
	moves, err := r.ongoing(ctx, true)
	if err != nil {
		return err
	}
	if r.meta, err = fetchMetadata(ctx, r.cl); err != nil { // what is not ongoing may have completed since they were first fetched
		return err
	}
	r.env.println("Status of partition reassignment:")
	for _, m := range r.plan.Partitions {
		replicas := r.replicas(m.Topic, m.Partition)
		_, active := moves[m.name()]
		switch {
		case active:
			r.env.printf("Reassignment of partition %s is still in progress.\n", m.name())
		case slices.Equal(replicas, m.Replicas):
			r.env.printf("Reassignment of partition %s is completed.\n", m.name())
		default:
			r.env.printf("There is no active reassignment of partition %s, but replica set is %s rather than %s.\n", m.name(),
				joinInts(replicas, ","), joinInts(m.Replicas, ","))
		}
	}
	dirsActive, err := r.verifyDirs(ctx)
	if err != nil {
		return err
	}
	r.env.println()
	if len(moves) > 0 || dirsActive || r.o.has("preserve-throttles") {
		return nil
	}
	return r.clearThrottles(ctx)
}

// verifyDirs reports the progress of moves between directories, and returns whether one is in progress.
func (r *reassigner) verifyDirs(ctx context.Context) (active bool, err error) {
	for _, m := range r.plan.dirMoves() {
		current, future, err := r.dirsOf(ctx, m)
		if err != nil {
			return active, err
		}
		switch {
		case future == m.dir:
			active = true
			r.env.printf("Reassignment of replica %s on broker %d is still in progress.\n", m.name, m.broker)
		case future != "":
			active = true
			r.env.printf("Partition %s on broker %d is being moved to log dir %s instead of %s.\n", m.name, m.broker, future, m.dir)
		case current == m.dir:
			r.env.printf("Reassignment of replica %s on broker %d completed successfully.\n", m.name, m.broker)
		case current == "":
			r.env.printf("Partition %s cannot be found in any live log directory on broker %d.\n", m.name, m.broker)
		default:
			r.env.printf("Partition %s on broker %d is not being moved from log dir %s to %s.\n", m.name, m.broker, current, m.dir)
		}
	}
	return active, nil
}

// dirsOf returns the directories of a replica and of its future copy, "" for none.
func (r *reassigner) dirsOf(ctx context.Context, m dirReplica) (current, future string, err error) {
	resp, err := r.cl.Broker(int(m.broker)).RetriableRequest(ctx, kmsg.NewPtrDescribeLogDirsRequest())
	if err != nil {
		return "", "", err
	}
	for _, d := range resp.(*kmsg.DescribeLogDirsResponse).Dirs {
		for _, t := range d.Topics {
			for _, p := range t.Partitions {
				switch {
				case t.Topic != m.topic || p.Partition != m.partition:
				case p.IsFuture:
					future = d.Dir
				default:
					current = d.Dir
				}
			}
		}
	}
	return current, future, nil
}

// cancel cancels what the plan's partitions are doing. The plan says what to cancel, not what to return to.
func (r *reassigner) cancel(ctx context.Context) error {
	moves := make(moving)
	if len(r.plan.Partitions) > 0 { // a request for none means all
		var err error
		if moves, err = r.ongoing(ctx, false); err != nil {
			return err
		}
	}
	names := sortedPartitions(moves)
	if len(names) == 0 {
		r.env.println("None of the specified partition reassignments are active.")
	} else if err := r.cancelMoves(ctx, names); err != nil {
		return err
	}
	if err := r.cancelDirs(ctx); err != nil {
		return err
	}
	if r.o.has("preserve-throttles") {
		return nil
	}
	return r.clearThrottles(ctx)
}

func (r *reassigner) cancelMoves(ctx context.Context, names []string) error {
	var active []move
	for _, m := range r.plan.Partitions {
		if slices.Contains(names, m.name()) {
			active = append(active, move{Topic: m.Topic, Partition: m.Partition})
		}
	}
	failed, err := r.submit(ctx, active)
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return terseError(fmt.Sprintf("Error cancelling partition reassignment%s for:\n%s", pluralOf(len(failed)), strings.Join(failed, "\n")))
	}
	r.env.printf("Successfully cancelled partition reassignment%s for: %s\n", pluralOf(len(names)), strings.Join(names, ","))
	return nil
}

// cancelDirs cancels moves between directories, by moves back to where the replicas are.
func (r *reassigner) cancelDirs(ctx context.Context) error {
	var back []dirReplica
	for _, m := range r.plan.dirMoves() {
		current, future, err := r.dirsOf(ctx, m)
		if err != nil {
			return err
		}
		if current != "" && future == m.dir {
			m.dir = current
			back = append(back, m)
		}
	}
	if len(back) == 0 {
		r.env.println("None of the specified partition moves are active.")
	}
	return r.moveDirs(ctx, back)
}
