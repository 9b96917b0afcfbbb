package tools

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stringDecoder is the default decoder of records in the dump.
const stringDecoder = "org.apache.kafka.tools.api.StringDecoder"

// newRecordParser selects how records are printed.
func newRecordParser(o *options, keyClass, valueClass string) (recordParser, error) {
	for _, option := range []string{"cluster-metadata-decoder", "remote-log-metadata-decoder"} {
		if o.has(option) {
			return nil, usagef("option %q is not supported: no log of a cluster with ZooKeeper has such records", option)
		}
	}
	switch {
	case o.has("offsets-decoder"):
		return parseOffsetsRecord, nil
	case o.has("transaction-log-decoder"):
		return parseTransactionRecord, nil
	}
	key, err := dumpDecoder(keyClass)
	if err != nil {
		return nil, err
	}
	value, err := dumpDecoder(valueClass)
	if err != nil {
		return nil, err
	}
	return func(r *record.Record) (*string, *string) {
		return decodeNullable(r.Key, key), decodeNullable(r.Value, value)
	}, nil
}

// dumpDecoder returns the decoder for one of Apache Kafka's, also under their old names.
func dumpDecoder(class string) (decoder, error) {
	name := class[strings.LastIndexByte(class, '.')+1:]
	switch name {
	case "", "StringDecoder":
		return nil, nil
	case "IntegerDecoder", "LongDecoder":
		return newDecoder(strings.TrimSuffix(name, "Decoder") + "Deserializer")
	case "DefaultDecoder":
		return nil, nil
	}
	return nil, usagef("unknown decoder %s", class)
}

func decodeNullable(b []byte, d decoder) *string {
	if b == nil {
		return nil
	}
	text := string([]rune(string(b))) // each byte that is not UTF-8 becomes a replacement character
	if d != nil {
		out, err := d(nil, b)
		if err != nil {
			text = fmt.Sprintf("<%v>", err)
		} else {
			text = string(out)
		}
	}
	return &text
}

// object is a JSON object with ordered fields.
type object []field

type field struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		v, err := marshal(f.value)
		if err != nil {
			return nil, err
		}
		b.WriteString(strconv.Quote(f.name) + ":")
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshal is json.Marshal without HTML escapes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Versions of the keys in __consumer_offsets.
const (
	offsetKeyVersion = 1 // the largest; 0 has the same layout
	groupKeyVersion  = 2
)

var errTooShort = errors.New("the record is too short")

// groupKey decodes a key of __consumer_offsets. data is nil for kinds that this group protocol does not have.
func groupKey(b []byte) (version int16, data object, err error) {
	if len(b) < 2 {
		return 0, nil, errTooShort
	}
	switch version = int16(binary.BigEndian.Uint16(b)); {
	case version >= 0 && version <= offsetKeyVersion:
		k := kmsg.NewOffsetCommitKey()
		err = k.ReadFrom(b)
		return version, object{{"group", k.Group}, {"topic", k.Topic}, {"partition", k.Partition}}, err
	case version == groupKeyVersion:
		k := kmsg.NewGroupMetadataKey()
		err = k.ReadFrom(b)
		return version, object{{"group", k.Group}}, err
	}
	return version, nil, nil
}

// offsetValue decodes the value of a committed offset.
func offsetValue(b []byte) (int16, object, error) {
	v := kmsg.NewOffsetCommitValue()
	if err := v.ReadFrom(b); err != nil {
		return 0, nil, err
	}
	data := object{{"offset", v.Offset}}
	if v.Version >= 3 {
		data = append(data, field{"leaderEpoch", v.LeaderEpoch})
	}
	data = append(data, field{"metadata", v.Metadata}, field{"commitTimestamp", v.CommitTimestamp})
	if v.Version == 1 {
		data = append(data, field{"expireTimestamp", v.ExpireTimestamp})
	}
	return v.Version, data, nil
}

// groupValue decodes the value of a group and, if decode is set, the metadata of consumers in it.
func groupValue(b []byte, decode bool) (int16, object, error) {
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(b); err != nil {
		return 0, nil, err
	}
	data := object{{"protocolType", v.ProtocolType}, {"generation", v.Generation}, {"protocol", v.Protocol}, {"leader", v.Leader}}
	if v.Version >= 2 {
		data = append(data, field{"currentStateTimestamp", v.CurrentStateTimestamp})
	}
	members := make([]object, len(v.Members))
	for i := range v.Members {
		members[i] = memberObject(v.Version, &v.Members[i], decode && v.ProtocolType == "consumer")
	}
	return v.Version, append(data, field{"members", members}), nil
}

func memberObject(version int16, m *kmsg.GroupMetadataValueMember, decode bool) object {
	o := object{{"memberId", m.MemberID}}
	if version >= 3 {
		o = append(o, field{"groupInstanceId", m.InstanceID})
	}
	o = append(o, field{"clientId", m.ClientID}, field{"clientHost", m.ClientHost})
	if version >= 1 {
		o = append(o, field{"rebalanceTimeout", m.RebalanceTimeoutMillis})
	}
	var subscription, assignment any = m.Subscription, m.Assignment
	if decode {
		subscription, assignment = subscriptionObject(m.Subscription), assignmentObject(m.Assignment)
	}
	return append(o, field{"sessionTimeout", m.SessionTimeoutMillis}, field{"subscription", subscription}, field{"assignment", assignment})
}

// subscriptionObject decodes a consumer's subscription, or leaves the bytes.
func subscriptionObject(b []byte) any {
	s := kmsg.NewConsumerMemberMetadata()
	if err := s.ReadFrom(b); err != nil {
		return b
	}
	o := object{{"topics", s.Topics}, {"userData", s.UserData}}
	if s.Version >= 1 {
		owned := make([]object, len(s.OwnedPartitions))
		for i, t := range s.OwnedPartitions {
			owned[i] = object{{"topic", t.Topic}, {"partitions", t.Partitions}}
		}
		o = append(o, field{"ownedPartitions", owned})
	}
	if s.Version >= 2 {
		o = append(o, field{"generationId", s.Generation})
	}
	if s.Version >= 3 {
		o = append(o, field{"rackId", s.Rack})
	}
	return o
}

func assignmentObject(b []byte) any {
	a := kmsg.NewConsumerMemberAssignment()
	if err := a.ReadFrom(b); err != nil {
		return b
	}
	assigned := make([]object, len(a.Topics))
	for i, t := range a.Topics {
		assigned[i] = object{{"topic", t.Topic}, {"partitions", t.Partitions}}
	}
	return object{{"assignedPartitions", assigned}, {"userData", a.UserData}}
}

const deleted = "<DELETE>"

// parseOffsetsRecord formats a record of __consumer_offsets.
func parseOffsetsRecord(r *record.Record) (key, value *string) {
	version, data, err := groupKey(r.Key)
	if err != nil || data == nil {
		text := fmt.Sprintf("unknown record type %d at offset %d, skipped", version, r.Offset)
		return &text, nil
	}
	key = jsonText(object{{"type", strconv.Itoa(int(version))}, {"data", data}}, nil)
	if r.Value == nil {
		return key, kmsg.StringPtr(deleted)
	}
	var valueVersion int16
	if version == groupKeyVersion {
		valueVersion, data, err = groupValue(r.Value, true)
	} else {
		valueVersion, data, err = offsetValue(r.Value)
	}
	return key, jsonText(object{{"version", strconv.Itoa(int(valueVersion))}, {"data", data}}, err)
}

func jsonText(o object, err error) *string {
	b := []byte(nil)
	if err == nil {
		b, err = marshal(o)
	}
	text := string(b)
	if err != nil {
		text = fmt.Sprintf("<%v>", err)
	}
	return &text
}

// parseTransactionRecord formats a record of __transaction_state.
func parseTransactionRecord(r *record.Record) (key, value *string) {
	k := kmsg.NewTxnMetadataKey()
	if err := k.ReadFrom(r.Key); err != nil || k.Version != 0 {
		text := fmt.Sprintf("unknown::version=%d", k.Version)
		return &text, nil
	}
	key = kmsg.StringPtr("transaction_metadata::transactionalId=" + k.TransactionalID)
	if r.Value == nil {
		return key, kmsg.StringPtr(deleted)
	}
	v := kmsg.NewTxnMetadataValue()
	if err := v.ReadFrom(r.Value); err != nil {
		text := fmt.Sprintf("<%v>", err)
		return key, &text
	}
	var partitions []string
	for _, t := range v.Topics {
		for _, p := range t.Partitions {
			partitions = append(partitions, partitionName(t.Topic, p))
		}
	}
	text := fmt.Sprintf("producerId:%d,producerEpoch:%d,state=%s,partitions=[%s],txnLastUpdateTimestamp=%d,txnTimeoutMs=%d",
		v.ProducerID, v.ProducerEpoch, v.State, strings.Join(partitions, ","), v.LastUpdateTimestamp, v.TimeoutMillis)
	return key, &text
}

// jsonFormatter prints records of internal topics in the console consumer, one JSON object per line. The function
// returns nil for records of other kinds.
type jsonFormatter struct {
	object func(r *kgo.Record) (object, error)
}

func (f jsonFormatter) format(dst []byte, r *kgo.Record) ([]byte, error) {
	o, err := f.object(r)
	if err != nil || o == nil {
		return dst, err
	}
	b, err := marshal(o)
	return append(append(dst, b...), '\n'), err
}

// versioned returns a decoded key or value with its version, null if there was none.
func versioned(version int16, data object) any {
	if data == nil {
		return nil
	}
	return object{{"version", version}, {"data", data}}
}

func groupObject(r *kgo.Record, wanted func(version int16) bool, decode func([]byte) (int16, object, error)) (object, error) {
	version, key, err := groupKey(r.Key)
	if err != nil || key == nil || !wanted(version) {
		return nil, err
	}
	o := object{{"key", versioned(version, key)}, {"value", nil}}
	if r.Value != nil {
		version, value, err := decode(r.Value)
		if err != nil {
			return nil, err
		}
		o[1].value = versioned(version, value)
	}
	return o, nil
}

func offsetsJSON(r *kgo.Record) (object, error) {
	return groupObject(r, func(v int16) bool { return v <= offsetKeyVersion }, offsetValue)
}

func groupMetadataJSON(r *kgo.Record) (object, error) {
	return groupObject(r, func(v int16) bool { return v == groupKeyVersion }, func(b []byte) (int16, object, error) { return groupValue(b, false) })
}

func transactionJSON(r *kgo.Record) (object, error) {
	k := kmsg.NewTxnMetadataKey()
	if err := k.ReadFrom(r.Key); err != nil {
		return nil, err
	}
	o := object{{"key", versioned(k.Version, object{{"transactionalId", k.TransactionalID}})}, {"value", nil}}
	if r.Value == nil {
		return o, nil
	}
	v := kmsg.NewTxnMetadataValue()
	if err := v.ReadFrom(r.Value); err != nil {
		return nil, err
	}
	partitions := make([]object, len(v.Topics))
	for i, t := range v.Topics {
		partitions[i] = object{{"topic", t.Topic}, {"partitionIds", t.Partitions}}
	}
	o[1].value = versioned(v.Version, object{{"producerId", v.ProducerID}, {"producerEpoch", v.ProducerEpoch},
		{"transactionTimeoutMs", v.TimeoutMillis}, {"transactionStatus", int8(v.State)}, {"transactionPartitions", partitions},
		{"transactionLastUpdateTimestampMs", v.LastUpdateTimestamp}, {"transactionStartTimestampMs", v.StartTimestamp}})
	return o, nil
}
