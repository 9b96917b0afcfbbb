package zkcoord

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// NotifyISRChange notifies the controller of partitions whose ISR their leader has changed itself
// (inter.broker.protocol.version before 2.7).
func (c *Client) NotifyISRChange(ctx context.Context, partitions []TopicPartition) error {
	return c.createSequential(ctx, isrChangePath+"/"+isrChangePrefix, encodePartitionList(partitions))
}

// WatchISRNotifications reads and watches the notifications of changed ISRs. numbers identifies them for
// RemoveISRNotifications.
func (c *Client) WatchISRNotifications(ctx context.Context) (partitions []TopicPartition, numbers []int64, err error) {
	names, err := c.watchChildren(ctx, isrChangePath)
	if err != nil {
		return nil, nil, err
	}
	numbers = sequences(names, isrChangePrefix)
	lists, err := readSequence(ctx, c, isrChangePath+"/"+isrChangePrefix, numbers, decodePartitionList)
	return slices.Concat(lists...), numbers, err
}

// RemoveISRNotifications removes notifications that were handled, as the controller of the term.
func (c *Client) RemoveISRNotifications(ctx context.Context, term Term, numbers []int64) error {
	return c.removeSequence(ctx, term, isrChangePath+"/"+isrChangePrefix, numbers)
}

const logDirFailure = 1

type logDirEventJSON struct {
	Version int   `json:"version"`
	Broker  int32 `json:"broker"`
	Event   int   `json:"event"`
}

func encodeLogDirEvent(broker int32) []byte {
	return marshal(logDirEventJSON{Version: 1, Broker: broker, Event: logDirFailure})
}

func decodeLogDirEvent(data []byte) (broker int32, err error) {
	in := logDirEventJSON{Broker: -1}
	if err := json.Unmarshal(data, &in); err != nil {
		return -1, fmt.Errorf("log directory event: %w", err)
	}
	if in.Broker < 0 {
		return -1, fmt.Errorf("log directory event: broker %d", in.Broker)
	}
	return in.Broker, nil
}

// NotifyLogDirFailure notifies the controller that a broker has lost a log directory.
func (c *Client) NotifyLogDirFailure(ctx context.Context, broker int32) error {
	return c.createSequential(ctx, logDirEventPath+"/"+logDirEventPrefix, encodeLogDirEvent(broker))
}

// WatchLogDirEvents reads and watches the notifications of lost log directories, and returns the brokers that have lost
// one. numbers identifies the notifications for RemoveLogDirEvents.
func (c *Client) WatchLogDirEvents(ctx context.Context) (brokers []int32, numbers []int64, err error) {
	names, err := c.watchChildren(ctx, logDirEventPath)
	if err != nil {
		return nil, nil, err
	}
	numbers = sequences(names, logDirEventPrefix)
	brokers, err = readSequence(ctx, c, logDirEventPath+"/"+logDirEventPrefix, numbers, decodeLogDirEvent)
	slices.Sort(brokers)
	return slices.Compact(brokers), numbers, err
}

// RemoveLogDirEvents removes notifications that were handled, as the controller of the term.
func (c *Client) RemoveLogDirEvents(ctx context.Context, term Term, numbers []int64) error {
	return c.removeSequence(ctx, term, logDirEventPath+"/"+logDirEventPrefix, numbers)
}

// readSequence reads the numbered nodes with a prefix. One that is missing or cannot be decoded is left out, the latter
// logged.
func readSequence[T any](ctx context.Context, c *Client, prefix string, numbers []int64, decode func([]byte) (T, error)) ([]T, error) {
	paths := make([]string, len(numbers))
	for i, number := range numbers {
		paths[i] = sequenceName(prefix, number)
	}
	found, err := readAll(ctx, c, paths, c.get, func(_ int, n node) (T, error) { return decode(n.data) })
	return present(found), err
}

func (c *Client) removeSequence(ctx context.Context, term Term, prefix string, numbers []int64) error {
	return c.parallel(ctx, len(numbers), func(ctx context.Context, i int) error {
		_, _, err := c.guarded(ctx, term, c.opDelete(sequenceName(prefix, numbers[i])))
		return ignoreNoNode(err)
	})
}
