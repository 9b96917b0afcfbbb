package txn

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions in which keys and values are written. Values of version 1, which is flexible, are only read.
const (
	keyVersion   = 0
	valueVersion = 0
)

func encodeKey(id string) []byte {
	key := kmsg.TxnMetadataKey{Version: keyVersion, TransactionalID: id}
	return key.AppendTo(nil)
}

// encodeValue encodes a transaction for __transaction_state: partitions by topic, null if the id is Empty.
func encodeValue(t *transaction) []byte {
	value := kmsg.NewTxnMetadataValue()
	value.Version = valueVersion
	value.ProducerID, value.ProducerEpoch = t.ID, t.Epoch
	value.TimeoutMillis, value.State = int32(t.timeout.Milliseconds()), t.state
	value.LastUpdateTimestamp, value.StartTimestamp = t.updated, t.started
	if t.state != Empty {
		value.Topics = make([]kmsg.TxnMetadataValueTopic, 0, len(t.partitions))
	}
	for _, tp := range t.partitions.sorted() {
		if n := len(value.Topics); n == 0 || value.Topics[n-1].Topic != tp.Topic {
			value.Topics = append(value.Topics, kmsg.TxnMetadataValueTopic{Topic: tp.Topic})
		}
		topic := &value.Topics[len(value.Topics)-1]
		topic.Partitions = append(topic.Partitions, tp.Partition)
	}
	return value.AppendTo(nil)
}

func (p partitions) sorted() []logstore.TopicPartition {
	return slices.SortedFunc(maps.Keys(p), logstore.TopicPartition.Compare)
}

func decodeValue(data []byte) (transaction, error) {
	value := kmsg.NewTxnMetadataValue()
	if len(data) < 2 {
		return transaction{}, fmt.Errorf("a transaction of %d bytes", len(data))
	}
	if v := int16(binary.BigEndian.Uint16(data)); v < 0 || v > 1 {
		return transaction{}, fmt.Errorf("a transaction of version %d", v)
	}
	if err := value.ReadFrom(data); err != nil {
		return transaction{}, fmt.Errorf("a transaction that cannot be read: %w", err)
	}
	if value.State < Empty || value.State > CompleteAbort {
		return transaction{}, fmt.Errorf("a transaction in state %d", value.State)
	}
	t := newTransaction(value.ProducerID)
	t.Epoch, t.state = value.ProducerEpoch, value.State
	t.timeout = time.Duration(value.TimeoutMillis) * time.Millisecond
	t.updated, t.started = value.LastUpdateTimestamp, value.StartTimestamp
	t.partitions = make(partitions)
	for _, topic := range value.Topics {
		for _, p := range topic.Partitions {
			t.partitions[logstore.TopicPartition{Topic: topic.Topic, Partition: p}] = topicID{}
		}
	}
	return t, nil
}

// replay applies the records of a batch to byID. Records with keys of other kinds are skipped.
func replay(b record.Batch, byID map[string]transaction, odd func(offset int64, err error)) error {
	if b.Control() {
		return nil
	}
	return b.Records(func(r *record.Record) error {
		if len(r.Key) < 2 || binary.BigEndian.Uint16(r.Key) != keyVersion {
			odd(r.Offset, fmt.Errorf("a key of an unknown kind: %x", r.Key))
			return nil
		}
		var key kmsg.TxnMetadataKey
		if err := key.ReadFrom(r.Key); err != nil {
			odd(r.Offset, err)
			return nil
		}
		if r.Value == nil {
			delete(byID, key.TransactionalID)
			return nil
		}
		t, err := decodeValue(r.Value)
		if err != nil {
			odd(r.Offset, err)
			return nil
		}
		byID[key.TransactionalID] = t
		return nil
	})
}
