package zkcoord

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// marshal encodes compact JSON without HTML escapes. The argument must always be encodable.
func marshal(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("zkcoord: " + err.Error()) // used with our own types only
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// byPartition is a JSON object of broker lists by partition number, encoded in the order of the numbers.
type byPartition map[int32][]int32

// MarshalJSON implements json.Marshaler.
func (m byPartition) MarshalJSON() ([]byte, error) {
	buf := []byte{'{'}
	for i, p := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, '"')
		buf = strconv.AppendInt(buf, int64(p), 10)
		buf = append(buf, `":[`...)
		for j, b := range m[p] {
			if j > 0 {
				buf = append(buf, ',')
			}
			buf = strconv.AppendInt(buf, int64(b), 10)
		}
		buf = append(buf, ']')
	}
	return append(buf, '}'), nil
}

// numberText is an integer that is encoded as a JSON string; a plain number is decoded too.
type numberText int64

// MarshalJSON implements json.Marshaler.
func (n numberText) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(n), 10)), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *numberText) UnmarshalJSON(data []byte) error {
	v, err := strconv.ParseInt(string(bytes.Trim(data, `"`)), 10, 64)
	if err != nil {
		return fmt.Errorf("not a whole number: %s", data)
	}
	*n = numberText(v)
	return nil
}

// ID is a UUID, such as a topic id.
type ID = [16]byte

// TopicPartition identifies a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic-partition, as in the name of a log directory.
func (tp TopicPartition) String() string { return tp.Topic + "-" + itoa(tp.Partition) }

// Compare orders by topic, then by partition.
func (tp TopicPartition) Compare(other TopicPartition) int {
	return cmp.Or(cmp.Compare(tp.Topic, other.Topic), cmp.Compare(tp.Partition, other.Partition))
}

// partitionJSON is a partition in the lists of notifications.
type partitionJSON struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type partitionListJSON struct {
	Version    int             `json:"version"`
	Partitions []partitionJSON `json:"partitions"`
}

func encodePartitionList(partitions []TopicPartition) []byte {
	list := partitionListJSON{Version: 1, Partitions: make([]partitionJSON, len(partitions))}
	for i, tp := range partitions {
		list.Partitions[i] = partitionJSON(tp)
	}
	return marshal(list)
}

func decodePartitionList(data []byte) ([]TopicPartition, error) {
	var list partitionListJSON
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("list of partitions: %w", err)
	}
	partitions := make([]TopicPartition, len(list.Partitions))
	for i, p := range list.Partitions {
		partitions[i] = TopicPartition(p)
	}
	return partitions, nil
}
