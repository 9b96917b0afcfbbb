package zkcoord

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"barnabas/internal/logx"
)

// The nodes below /admin through which old tools send requests to the controller.

type reassignPartitionJSON struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
}

type reassignJSON struct {
	Version    int                     `json:"version"`
	Partitions []reassignPartitionJSON `json:"partitions"`
}

func encodeReassignments(targets map[TopicPartition][]int32) []byte {
	out := reassignJSON{Version: 1, Partitions: []reassignPartitionJSON{}}
	for _, tp := range slices.SortedFunc(maps.Keys(targets), TopicPartition.Compare) {
		out.Partitions = append(out.Partitions, reassignPartitionJSON{tp.Topic, tp.Partition, targets[tp]})
	}
	return marshal(out)
}

func decodeReassignments(data []byte) (map[TopicPartition][]int32, error) {
	var in reassignJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", reassignPath, err)
	}
	targets := make(map[TopicPartition][]int32, len(in.Partitions))
	for _, p := range in.Partitions {
		targets[TopicPartition{p.Topic, p.Partition}] = p.Replicas
	}
	return targets, nil
}

// WatchReassignments reads and watches the legacy node of requested reassignments. present is false if there is none;
// if it cannot be decoded that is logged, and there are no targets.
func (c *Client) WatchReassignments(ctx context.Context) (targets map[TopicPartition][]int32, present bool, err error) {
	n, present, err := c.watch(ctx, reassignPath)
	if err != nil || !present {
		return nil, false, err
	}
	targets, err = decodeReassignments(n.data)
	if err != nil {
		c.log.WithError(err).WithField(logx.Znode, reassignPath).Error("cannot decode a node, ignoring it")
	}
	return targets, true, nil
}

// SetReassignments writes the remaining requested reassignments, as the controller of the term; it removes the node if
// there are none.
func (c *Client) SetReassignments(ctx context.Context, term Term, left map[TopicPartition][]int32) error {
	if len(left) == 0 {
		_, _, err := c.guarded(ctx, term, c.opDelete(reassignPath))
		return ignoreNoNode(err)
	}
	_, _, err := c.guarded(ctx, term, c.opSet(reassignPath, encodeReassignments(left), anyVersion))
	return ignoreNoNode(err) // deleted by hand: nothing to write any more
}

// WatchPreferredElection reads and watches the legacy node of requested preferred leader elections. present is false if
// there is none; if it cannot be decoded that is logged, and there are no partitions.
func (c *Client) WatchPreferredElection(ctx context.Context) (partitions []TopicPartition, present bool, err error) {
	n, present, err := c.watch(ctx, preferredElectionPath)
	if err != nil || !present {
		return nil, false, err
	}
	partitions, err = decodePartitionList(n.data)
	if err != nil {
		c.log.WithError(err).WithField(logx.Znode, preferredElectionPath).Error("cannot decode a node, ignoring it")
	}
	return partitions, true, nil
}

// RemovePreferredElection removes that node, as the controller of the term.
func (c *Client) RemovePreferredElection(ctx context.Context, term Term) error {
	_, _, err := c.guarded(ctx, term, c.opDelete(preferredElectionPath))
	return ignoreNoNode(err)
}

// RequestReassignments requests reassignments from the controller through the legacy node. created is false if there is
// a request already.
func (c *Client) RequestReassignments(ctx context.Context, targets map[TopicPartition][]int32) (created bool, err error) {
	return c.createDeep(ctx, reassignPath, encodeReassignments(targets))
}

// RequestPreferredElection requests preferred leader elections from the controller through the legacy node. created is
// false if there is a request already.
func (c *Client) RequestPreferredElection(ctx context.Context, partitions []TopicPartition) (created bool, err error) {
	return c.createDeep(ctx, preferredElectionPath, encodePartitionList(partitions))
}
