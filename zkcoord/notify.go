package zkcoord

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// sequences returns the numbers of sequential nodes in ascending order. Other nodes are skipped.
func sequences(names []string, prefix string) []int64 {
	var numbers []int64
	for _, name := range names {
		if digits, ok := strings.CutPrefix(name, prefix); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

func sequenceName(prefix string, number int64) string { return fmt.Sprintf("%s%010d", prefix, number) }

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
	found := make([]*T, len(numbers))
	err := c.parallel(ctx, len(numbers), func(ctx context.Context, i int) error {
		n, err := c.get(ctx, sequenceName(prefix, numbers[i]))
		if err != nil {
			return ignoreNoNode(err)
		}
		v, err := decode(n.data)
		if err != nil {
			c.log.WithError(err).Error("notification ignored")
			return nil
		}
		found[i] = &v
		return nil
	})
	if err != nil {
		return nil, err
	}
	var values []T
	for _, v := range found {
		if v != nil {
			values = append(values, *v)
		}
	}
	return values, nil
}

func (c *Client) removeSequence(ctx context.Context, term Term, prefix string, numbers []int64) error {
	return c.parallel(ctx, len(numbers), func(ctx context.Context, i int) error {
		_, _, err := c.guarded(ctx, term, c.opDelete(sequenceName(prefix, numbers[i])))
		return ignoreNoNode(err)
	})
}
