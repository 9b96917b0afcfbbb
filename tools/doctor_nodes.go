package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"barnabas/config"
	"barnabas/internal/scram"
	"barnabas/zkcoord"
)

// nodeKind describes the content of a kind of nodes.
type nodeKind struct {
	pattern string // of the path, for path.Match
	read    func(name string, data []byte) error
	mend    string
}

// nodeKinds are all nodes with content that brokers read. What a broker cannot decode it ignores, with a log line at
// best.
var nodeKinds = []nodeKind{
	{"/cluster/id", jsonObject("id"), "write the cluster.id of the brokers' meta.properties into it: {\"version\":\"1\",\"id\":\"...\"}"},
	{"/controller", jsonObject("brokerid"), "delete it: the brokers elect a controller again"},
	{"/controller_epoch", isNumber, "repair it with zookeeper-shell.sh: a number above every controller_epoch in the partition states"},
	{"/feature", jsonObject("version"), "delete it: the next controller creates it again"},
	{"/latest_producer_id_block", optional(decoded(zkcoord.DecodeProducerIDBlock, "block_start", "block_end")), "repair it with zookeeper-shell.sh: with a block_end below ids in use, those would be assigned twice"},
	{"/brokers/ids/*", numbered(registration), "restart that broker: it registers again"},
	{"/brokers/topics/*", topicReplicas, "repair the node with zookeeper-shell.sh: brokers ignore the topic"},
	{"/brokers/topics/*/partitions/*", numbered(nil), "delete it with zookeeper-shell.sh: no partition can have this name"},
	{"/brokers/topics/*/partitions/*/state", decoded(readState, "leader", "leader_epoch", "isr", "controller_epoch"), "repair the node with zookeeper-shell.sh: brokers ignore the partition"},
	{"/config/topics/*", decoded(zkcoord.DecodeConfig), "write the topic's settings into it, or {\"version\":1,\"config\":{}}: until then it has none"},
	{"/config/brokers/*", brokerSettings, "write the brokers' settings into it, or {\"version\":1,\"config\":{}}: until then they have none of them"},
	{"/config/users/*", userSettings, "write the user's quotas and credentials into it, or {\"version\":1,\"config\":{}}: until then there are none"},
	{"/config/users/*/clients/*", decoded(zkcoord.DecodeConfig), "write the quotas into it, or {\"version\":1,\"config\":{}}: until then there are none"},
	{"/config/clients/*", decoded(zkcoord.DecodeConfig), "write the quotas into it, or {\"version\":1,\"config\":{}}: until then there are none"},
	{"/config/ips/*", decoded(zkcoord.DecodeConfig), "write the quotas into it, or {\"version\":1,\"config\":{}}: until then there are none"},
	{"/config/changes/*", sequence("config_change_", decoded(zkcoord.DecodeConfigChange)), "delete it with zookeeper-shell.sh, and set the changed settings again: brokers were not notified of them"},
	{"/isr_change_notification/*", sequence("isr_change_", jsonObject("partitions")), "delete it with zookeeper-shell.sh"},
	{"/log_dir_event_notification/*", sequence("log_dir_event_", jsonObject("broker")), "delete it with zookeeper-shell.sh, and restart the broker that has lost a log directory"},
	{"/kafka-acl/*/*", decoded(zkcoord.DecodeACLs), unreadableACLsMend},
	{"/kafka-acl-extended/*/*/*", decoded(zkcoord.DecodeACLs), unreadableACLsMend},
	{"/kafka-acl-changes/*", sequence("acl_changes_", decoded(zkcoord.DecodeACLChange)), changedACLsMend},
	{"/kafka-acl-extended-changes/*", sequence("acl_changes_", decoded(zkcoord.DecodeExtendedACLChange)), changedACLsMend},
	{"/delegation_token/tokens/*", decoded(zkcoord.DecodeToken), "delete it with zookeeper-shell.sh, and create another: nobody can log in with it"},
	{"/delegation_token/token_changes/*", sequence("token_change_", anything), "delete it with zookeeper-shell.sh"},
	{"/admin/reassign_partitions", jsonObject("partitions"), "delete it with zookeeper-shell.sh: the controller cannot process it"},
	{"/admin/preferred_replica_election", jsonObject("partitions"), "delete it with zookeeper-shell.sh: the controller cannot process it"},
}

// Remedies for ACL nodes.
const (
	unreadableACLsMend = "write the ACLs into it with zookeeper-shell.sh, or delete it: running brokers keep what they read before, others do not start"
	changedACLsMend    = "delete it with zookeeper-shell.sh: brokers of Apache Kafka do not use these ACLs until they are restarted"
)

// unreadable reports every node that cannot be decoded, and returns their paths.
func (d *doctor) unreadable(z znodes) map[string]bool {
	bad := make(map[string]bool)
	for _, p := range slices.Sorted(maps.Keys(z)) {
		for _, kind := range nodeKinds {
			if matches, _ := path.Match(kind.pattern, p); !matches {
				continue
			}
			if err := kind.read(path.Base(p), z[p].data); err != nil {
				bad[p] = true
				d.trouble(p, kind.mend, "cannot be read: %v.", err)
			}
		}
	}
	return bad
}

// jsonObject requires JSON with the given fields.
func jsonObject(fields ...string) func(string, []byte) error {
	return func(_ string, data []byte) error { return decodeNode(data, &struct{}{}, fields...) }
}

// decodeNode decodes JSON into v, and requires some fields.
func decodeNode(data []byte, v any, fields ...string) error {
	if len(data) == 0 {
		return errors.New("it is empty")
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	for _, f := range fields {
		if value, ok := all[f]; !ok || string(value) == "null" {
			return fmt.Errorf("%s is missing", f)
		}
	}
	return json.Unmarshal(data, v)
}

// decoded requires content that brokers can decode, with the given fields even if brokers would do without them.
func decoded[T any](decode func([]byte) (T, error), fields ...string) func(string, []byte) error {
	return func(_ string, data []byte) error {
		if len(fields) > 0 {
			if err := decodeNode(data, &struct{}{}, fields...); err != nil {
				return err
			}
		}
		_, err := decode(data)
		return err
	}
}

func optional(read func(string, []byte) error) func(string, []byte) error {
	return func(name string, data []byte) error {
		if len(data) == 0 {
			return nil
		}
		return read(name, data)
	}
}

func isNumber(_ string, data []byte) error {
	if _, err := strconv.ParseInt(string(data), 10, 32); err != nil {
		return fmt.Errorf("%.100q is not a number", data)
	}
	return nil
}

// numbered requires a node whose name is a number. read, if not nil, decodes its content.
func numbered(read func(string, []byte) error) func(string, []byte) error {
	return func(name string, data []byte) error {
		if err := isNumber("", []byte(name)); err != nil || read == nil {
			return err
		}
		return read(name, data)
	}
}

// sequence requires a node whose name is the prefix and a number.
func sequence(prefix string, read func(string, []byte) error) func(string, []byte) error {
	return func(name string, data []byte) error {
		digits, ok := strings.CutPrefix(name, prefix)
		if _, err := strconv.ParseInt(digits, 10, 64); !ok || err != nil {
			return fmt.Errorf("its name is not %s followed by a number", prefix)
		}
		return read(name, data)
	}
}

// registration requires the registration of a broker with that name.
func registration(name string, data []byte) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return err
	}
	return decoded(func(data []byte) (zkcoord.BrokerInfo, error) { return zkcoord.DecodeBroker(int32(id), data) }, "version")(name, data)
}

// topicReplicas requires a topic whose partitions have replicas.
func topicReplicas(name string, data []byte) error {
	if err := decodeNode(data, &struct{}{}, "partitions"); err != nil {
		return err
	}
	t, err := zkcoord.DecodeTopic(name, data)
	for partition, replicas := range t.Partitions {
		if len(replicas) == 0 {
			return fmt.Errorf("partition %d has no replicas", partition)
		}
	}
	return err
}

func readState(data []byte) (zkcoord.PartitionState, error) { return zkcoord.DecodeState(data, 0) }

// userSettings requires the quotas and credentials of a user, or the default for all.
func userSettings(_ string, data []byte) error {
	settings, err := zkcoord.DecodeConfig(data)
	if err != nil {
		return err
	}
	for _, m := range scram.Mechanisms() {
		if text, ok := settings[m.Name]; ok {
			if _, err := m.ParseCredential(text); err != nil {
				return fmt.Errorf("nobody can log in with %s: %w", m.Name, err)
			}
		}
	}
	return nil
}

func anything(string, []byte) error { return nil }

// brokerSettings requires settings of one broker, or of all.
func brokerSettings(name string, data []byte) error {
	all := name == zkcoord.DefaultEntity
	if !all {
		if err := isNumber("", []byte(name)); err != nil {
			return fmt.Errorf("its name: %w", err)
		}
	}
	settings, err := zkcoord.DecodeConfig(data)
	if err != nil {
		return err
	}
	if err := config.CheckDynamic(settings, all); err != nil {
		return fmt.Errorf("brokers ignore a setting: %w", err)
	}
	return nil
}
