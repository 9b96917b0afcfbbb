package logstore

import (
	"cmp"
	"strconv"
)

// TopicPartition identifies a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic-partition, the name of its directory.
func (tp TopicPartition) String() string { return tp.Topic + "-" + strconv.Itoa(int(tp.Partition)) }

// Compare orders by topic, then by partition.
func (tp TopicPartition) Compare(other TopicPartition) int {
	return cmp.Or(cmp.Compare(tp.Topic, other.Topic), cmp.Compare(tp.Partition, other.Partition))
}
