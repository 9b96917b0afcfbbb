package zkcoord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
)

// NoLeader is the leader of a partition without one.
const NoLeader = -1

// PartitionState is a partition's leader and in-sync replicas.
type PartitionState struct {
	Leader          int32 // broker id, or NoLeader
	LeaderEpoch     int32
	ISR             []int32 // in the order in which they joined
	ControllerEpoch int32   // of the controller that wrote it last
	Recovering      bool    // the leader was elected uncleanly and has not recovered yet (KIP-704)
	PartitionEpoch  int32   // the node's version: not in the JSON, set when read or written
}

// The fields are in the order of Apache Kafka's nodes.
type stateJSON struct {
	ControllerEpoch *int32  `json:"controller_epoch"`
	Leader          *int32  `json:"leader"`
	Version         int     `json:"version"`
	LeaderEpoch     *int32  `json:"leader_epoch"`
	ISR             []int32 `json:"isr"`
	Recovery        int8    `json:"leader_recovery_state,omitempty"`
}

func encodeState(s PartitionState) []byte {
	out := stateJSON{
		ControllerEpoch: &s.ControllerEpoch,
		Leader:          &s.Leader,
		Version:         1,
		LeaderEpoch:     &s.LeaderEpoch,
		ISR:             s.ISR,
	}
	if out.ISR == nil {
		out.ISR = []int32{}
	}
	if s.Recovering {
		out.Recovery = 1
	}
	return marshal(out)
}

// DecodeState decodes a partition's state from a node with that version.
func DecodeState(data []byte, version int32) (PartitionState, error) {
	var in stateJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return PartitionState{}, fmt.Errorf("partition state: %w", err)
	}
	if in.ControllerEpoch == nil || in.Leader == nil || in.LeaderEpoch == nil || in.ISR == nil {
		return PartitionState{}, errors.New("partition state: a field is missing")
	}
	return PartitionState{
		Leader:          *in.Leader,
		LeaderEpoch:     *in.LeaderEpoch,
		ISR:             in.ISR,
		ControllerEpoch: *in.ControllerEpoch,
		Recovering:      in.Recovery != 0,
		PartitionEpoch:  version,
	}, nil
}

// PartitionStates reads the states of partitions. One that is missing or cannot be decoded is left out, the latter
// logged.
func (c *Client) PartitionStates(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]PartitionState, error) {
	paths := make([]string, len(partitions))
	for i, tp := range partitions {
		paths[i] = statePath(tp)
	}
	found, err := readAll(ctx, c, paths, c.get, func(_ int, n node) (PartitionState, error) { return DecodeState(n.data, n.stat.Version) })
	if err != nil {
		return nil, err
	}
	states := make(map[TopicPartition]PartitionState, len(partitions))
	for i, s := range found {
		if s != nil {
			states[partitions[i]] = *s
		}
	}
	return states, nil
}

// WatchPartitionState reads the state of a partition and watches it; found is false if it has none.
func (c *Client) WatchPartitionState(ctx context.Context, tp TopicPartition) (s PartitionState, found bool, err error) {
	n, found, err := c.watch(ctx, statePath(tp))
	if err != nil || !found {
		return PartitionState{}, false, err
	}
	s, err = DecodeState(n.data, n.stat.Version)
	return s, err == nil, err
}

// StateWrite is a partition's state to be written over the one with its PartitionEpoch.
type StateWrite struct {
	Partition TopicPartition
	State     PartitionState
}

// WriteResult is the result of a StateWrite: the state with its new PartitionEpoch, ErrConflict after a concurrent
// change, or another error.
type WriteResult struct {
	State PartitionState
	Err   error
}

// stateBatch is how many partitions are created or written in one request.
const stateBatch = 128

// WriteStates writes states as the controller of the term; the results are in the order of the writes. The error is
// ErrDeposed, or that ZooKeeper could not be reached.
func (c *Client) WriteStates(ctx context.Context, term Term, writes []StateWrite) ([]WriteResult, error) {
	return c.inBatches(ctx, writes, stateWriter{
		ops: func(w StateWrite) []any {
			return []any{c.opSet(statePath(w.Partition), encodeState(w.State), w.State.PartitionEpoch)}
		},
		guard:   func(ops []any) error { _, _, err := c.guarded(ctx, term, ops...); return err },
		version: func(w StateWrite) int32 { return w.State.PartitionEpoch + 1 },
	})
}

// CreateStates creates partitions with their first state as the controller of the term. The error for a state that
// exists already is ErrConflict.
func (c *Client) CreateStates(ctx context.Context, term Term, creates []StateWrite) ([]WriteResult, error) {
	guard := func(ops []any) error { _, _, err := c.guarded(ctx, term, ops...); return err }
	if err := c.createParents(ctx, creates, guard); err != nil {
		return nil, err
	}
	state := func(w StateWrite) any {
		return c.opCreate(statePath(w.Partition), encodeState(w.State), zk.FlagPersistent)
	}
	return c.inBatches(ctx, creates, stateWriter{
		ops: func(w StateWrite) []any {
			return []any{c.opCreate(partitionPath(w.Partition), nil, zk.FlagPersistent), state(w)}
		},
		// If a controller dies halfway, partitions are left without a state.
		single: func(w StateWrite) error {
			err := guard([]any{c.opCreate(partitionPath(w.Partition), nil, zk.FlagPersistent)})
			if err != nil && !isNodeExists(err) {
				return err
			}
			return guard([]any{state(w)})
		},
		guard:   guard,
		version: func(StateWrite) int32 { return 0 },
	})
}

// createParents creates, for each topic, the parent of its partitions. It exists already for a topic with partitions;
// if a topic was deleted meanwhile, the results for its partitions say so.
func (c *Client) createParents(ctx context.Context, creates []StateWrite, guard func([]any) error) error {
	var topics []string
	seen := make(map[string]struct{})
	for _, w := range creates {
		if _, ok := seen[w.Partition.Topic]; !ok {
			seen[w.Partition.Topic] = struct{}{}
			topics = append(topics, w.Partition.Topic)
		}
	}
	return c.parallel(ctx, len(topics), func(_ context.Context, i int) error {
		err := guard([]any{c.opCreate(partitionsPath(topics[i]), nil, zk.FlagPersistent)})
		if isNodeExists(err) || isNoNode(err) {
			return nil
		}
		return err
	})
}

// stateWriter says how partition states are written.
type stateWriter struct {
	ops     func(StateWrite) []any       // the operations for one write in a batch
	single  func(StateWrite) error       // a single write; nil: its ops with guard
	guard   func(ops []any) error        // carries out all of them or none
	version func(StateWrite) (new int32) // the node's version after the write
}

// inBatches makes many writes in few requests; if one in a batch is refused, each of that batch is made separately.
func (c *Client) inBatches(ctx context.Context, writes []StateWrite, how stateWriter) ([]WriteResult, error) {
	results := make([]WriteResult, len(writes))
	batches := slices.Collect(slices.Chunk(writes, stateBatch))
	err := c.parallel(ctx, len(batches), func(ctx context.Context, i int) error {
		return c.writeBatch(ctx, batches[i], results[i*stateBatch:][:len(batches[i])], how)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (c *Client) writeBatch(ctx context.Context, writes []StateWrite, results []WriteResult, how stateWriter) error {
	var ops []any
	for i, w := range writes {
		ops = append(ops, how.ops(w)...)
		results[i].State = w.State
		results[i].State.PartitionEpoch = how.version(w)
	}
	err := how.guard(ops)
	if !isRefusal(err) {
		return err
	}
	single := how.single
	if single == nil {
		single = func(w StateWrite) error { return how.guard(how.ops(w)) }
	}
	return c.parallel(ctx, len(writes), func(ctx context.Context, i int) error {
		err := single(writes[i])
		if isRefusal(err) {
			err = c.refusedState(ctx, writes[i], results[i].State.PartitionEpoch)
			if errors.Is(err, ErrConflict) {
				results[i].Err, err = err, nil
			}
		}
		return err
	})
}

// refusedState checks whether a write was refused because of its own effect: the first attempt may have been carried
// out although its response was lost.
func (c *Client) refusedState(ctx context.Context, w StateWrite, version int32) error {
	n, err := c.get(ctx, statePath(w.Partition))
	if err != nil && !isNoNode(err) {
		return err
	}
	if err == nil && n.stat.Version == version && string(n.data) == string(encodeState(w.State)) {
		return nil
	}
	return fmt.Errorf("state of %v: %w", w.Partition, ErrConflict)
}

// isRefusal reports whether the server has refused a conditional write because of the existing state.
func isRefusal(err error) bool { return isBadVersion(err) || isNodeExists(err) || isNoNode(err) }

// WriteISR writes a state as the partition's leader, which leaders do themselves with an inter.broker.protocol.version
// before 2.7. After a concurrent change the error is ErrConflict; for a missing partition, ErrNoTopic.
func (c *Client) WriteISR(ctx context.Context, tp TopicPartition, s PartitionState) (partitionEpoch int32, err error) {
	version, ok, err := c.setIf(ctx, statePath(tp), encodeState(s), s.PartitionEpoch)
	switch {
	case isNoNode(err):
		err = fmt.Errorf("state of %v: %w", tp, ErrNoTopic)
	case err == nil && !ok:
		err = fmt.Errorf("state of %v: %w", tp, ErrConflict)
	}
	return version, err
}
