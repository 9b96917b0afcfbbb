package zkcoord

import (
	"context"
	"fmt"
	"strconv"
)

// The offsets that OffsetCommit and OffsetFetch version 0 store in ZooKeeper.

func consumerOffsetPath(group string, tp TopicPartition) string {
	return consumersPath + "/" + group + "/offsets/" + tp.Topic + "/" + itoa(tp.Partition)
}

// ConsumerOffset reads a group's offset; found is false if it has none.
func (c *Client) ConsumerOffset(ctx context.Context, group string, tp TopicPartition) (offset int64, found bool, err error) {
	n, err := c.get(ctx, consumerOffsetPath(group, tp))
	if err != nil {
		return 0, false, ignoreNoNode(err)
	}
	offset, err = decodeConsumerOffset(n.data)
	return offset, err == nil, err
}

// SetConsumerOffset writes a group's offset.
func (c *Client) SetConsumerOffset(ctx context.Context, group string, tp TopicPartition, offset int64) error {
	return c.setOrCreate(ctx, consumerOffsetPath(group, tp), strconv.AppendInt(nil, offset, 10))
}

func decodeConsumerOffset(data []byte) (int64, error) {
	offset, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("consumer offset: %w", err)
	}
	return offset, nil
}
