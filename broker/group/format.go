package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The key versions, fixed by the format.
const (
	offsetKeyMax       = 1 // 0 and 1 are the same
	groupKey           = 2
	valueVersionMax    = 4 // 4 is 3 in flexible form; it is read, but not written
	expiringValue      = 1 // the only version of an offset's value with an expiry time
	oneTimeoutForValue = 0 // the version of a group's value in which the session timeout serves as rebalance timeout
)

// ValueVersions are the versions in which values are written: the oldest brokers in the cluster must be able to read
// them.
type ValueVersions struct{ Offset, Group int16 }

// NewestVersions are written if all brokers are 2.3 or newer.
var NewestVersions = ValueVersions{Offset: 3, Group: 3}

func offsetKey(groupID string, tp logstore.TopicPartition) []byte {
	k := kmsg.OffsetCommitKey{Version: offsetKeyMax, Group: groupID, Topic: tp.Topic, Partition: tp.Partition}
	return k.AppendTo(make([]byte, 0, 2+2+len(groupID)+2+len(tp.Topic)+4))
}

func groupIDKey(groupID string) []byte {
	k := kmsg.GroupMetadataKey{Version: groupKey, Group: groupID}
	return k.AppendTo(nil)
}

func (v ValueVersions) offsetValue(c commit) []byte {
	value := kmsg.OffsetCommitValue{
		Version: v.Offset, Offset: c.offset, LeaderEpoch: c.leaderEpoch, Metadata: c.metadata,
		CommitTimestamp: c.committedMs, ExpireTimestamp: c.expiresMs,
	}
	if c.expiresMs != none {
		value.Version = expiringValue
	}
	return value.AppendTo(make([]byte, 0, 2+8+4+2+len(c.metadata)+8+8))
}

// groupValue encodes the group's record; assigned returns each member's assignment.
func (v ValueVersions) groupValue(g *group, assigned func(*member) []byte) []byte {
	value := kmsg.GroupMetadataValue{
		Version: v.Group, ProtocolType: g.protocolType, Generation: g.generation, CurrentStateTimestamp: none,
	}
	if !g.since.IsZero() {
		value.CurrentStateTimestamp = g.since.UnixMilli()
	}
	if len(g.order) > 0 {
		value.Protocol, value.Leader = &g.protocol, &g.leader
	}
	for _, m := range g.order {
		value.Members = append(value.Members, kmsg.GroupMetadataValueMember{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeoutMillis: int32(m.rebalanceTimeout.Milliseconds()),
			SessionTimeoutMillis:   int32(m.sessionTimeout.Milliseconds()),
			Subscription:           m.metadata(g.protocol), Assignment: assigned(m),
		})
	}
	return value.AppendTo(nil)
}

// entry is a decoded record: for an offset if partition is set, otherwise for a group. The value is nil if it was
// removed.
type entry struct {
	groupID   string
	partition *logstore.TopicPartition
	offset    *commit
	group     *kmsg.GroupMetadataValue
}

var (
	errOtherKind = errors.New("the record is of another kind of coordinator")
	errNoVersion = errors.New("the record is too short for its version")
)

// decodeEntry decodes a record. It fails with errOtherKind for keys that belong to other kinds of coordinators.
func decodeEntry(key, value []byte) (entry, error) {
	if len(key) < 2 {
		return entry{}, errNoVersion
	}
	switch version := int16(binary.BigEndian.Uint16(key)); {
	case version >= 0 && version <= offsetKeyMax:
		return decodeOffset(key, value)
	case version == groupKey:
		return decodeGroup(key, value)
	}
	return entry{}, errOtherKind
}

func decodeOffset(key, value []byte) (entry, error) {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return entry{}, fmt.Errorf("key of an offset: %w", err)
	}
	e := entry{groupID: k.Group, partition: &logstore.TopicPartition{Topic: k.Topic, Partition: k.Partition}}
	if value == nil {
		return e, nil
	}
	if err := checkVersion(value); err != nil {
		return entry{}, err
	}
	var v kmsg.OffsetCommitValue
	v.Default()
	if err := v.ReadFrom(value); err != nil {
		return entry{}, fmt.Errorf("offset of group %q: %w", k.Group, err)
	}
	e.offset = &commit{offset: v.Offset, leaderEpoch: none, metadata: v.Metadata, committedMs: v.CommitTimestamp, expiresMs: none}
	if v.Version >= 3 {
		e.offset.leaderEpoch = v.LeaderEpoch
	}
	if v.Version == expiringValue {
		e.offset.expiresMs = v.ExpireTimestamp
	}
	return e, nil
}

func decodeGroup(key, value []byte) (entry, error) {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return entry{}, fmt.Errorf("key of a group: %w", err)
	}
	e := entry{groupID: k.Group}
	if value == nil {
		return e, nil
	}
	if err := checkVersion(value); err != nil {
		return entry{}, err
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return entry{}, fmt.Errorf("group %q: %w", k.Group, err)
	}
	for i := range v.Members { // they outlive the buffer that they were read from
		m := &v.Members[i]
		m.Subscription, m.Assignment = slices.Clone(m.Subscription), slices.Clone(m.Assignment)
	}
	e.group = &v
	return e, nil
}

func checkVersion(value []byte) error {
	if len(value) < 2 {
		return errNoVersion
	}
	if version := int16(binary.BigEndian.Uint16(value)); version < 0 || version > valueVersionMax {
		return fmt.Errorf("value version %d is not known", version)
	}
	return nil
}
