package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// OpKind is an operation of IncrementalAlterConfigs (KIP-339); the numbers are the protocol's.
type OpKind int8

// The kinds. Append and Subtract modify lists.
const (
	OpSet OpKind = iota
	OpDelete
	OpAppend
	OpSubtract
)

// Op changes one setting.
type Op struct {
	Key   string
	Kind  OpKind
	Value *string // ignored by OpDelete
}

// AlterTopic applies operations to a topic's settings and returns its new settings. AlterConfigs, which replaces
// everything, is a list of OpSet on no settings. The errors have the protocol's code and name the key.
func (b *Broker) AlterTopic(current map[string]string, ops []Op) (map[string]string, error) {
	if err := CheckOps(ops); err != nil {
		return nil, err
	}
	next, err := applyOps(current, ops, topicKey)
	if err != nil {
		return nil, err
	}
	if err := b.validateTopic(next); err != nil {
		return nil, err
	}
	return next, nil
}

// CheckTopicOps returns the error of AlterTopic for operations that fail whatever a topic's settings are.
func CheckTopicOps(ops []Op) error {
	_, err := applyOps(nil, ops, topicKey)
	return err
}

// AlterBroker is AlterTopic for the settings of this broker in ZooKeeper. It takes them as stored, and returns them in
// the form expected by EncodeBroker. Variables must have values, but are stored as they are: Apache Kafka stores the
// values with the next change of any other setting.
func (d *Dynamic) AlterBroker(current map[string]string, ops []Op) (map[string]string, error) {
	return d.alter(current, ops, brokerLevel)
}

// AlterCluster is AlterBroker for the settings of all brokers in ZooKeeper, to be passed to EncodeCluster.
func (d *Dynamic) AlterCluster(current map[string]string, ops []Op) (map[string]string, error) {
	return d.alter(current, ops, clusterLevel)
}

// WithBroker returns the configuration that would result from these settings of this broker, as returned by
// AlterBroker.
func (d *Dynamic) WithBroker(settings map[string]string) (*Broker, error) {
	now := d.state.Load()
	settings, err := now.resolveAll(settings)
	if err != nil {
		return nil, err
	}
	return now.merged.with(now.file, now.cluster, settings)
}

func (d *Dynamic) alter(current map[string]string, ops []Op, at level) (map[string]string, error) {
	if err := CheckOps(ops); err != nil {
		return nil, err
	}
	next, err := applyOps(d.usable(current, at, d.node(at)), ops, brokerOnlyKey)
	if err != nil {
		return nil, err
	}
	if err := d.validate(next, at); err != nil {
		return nil, with(kerr.InvalidRequest, err)
	}
	return next, nil
}

// node returns the node from which the settings of a level were read.
func (d *Dynamic) node(at level) string {
	if at == clusterLevel {
		return d.state.Load().clusterNode
	}
	return d.state.Load().brokerNode
}

func brokerOnlyKey(name string) *Key { return brokerSchema.byName[name] }

// CheckOps returns INVALID_REQUEST for what no resource allows: a repeated key, or setting a null value.
func CheckOps(ops []Op) error {
	seen := make(map[string]bool, len(ops))
	for _, op := range ops {
		if seen[op.Key] {
			return &Error{Key: op.Key, Reason: "is in the request twice", Code: kerr.InvalidRequest}
		}
		seen[op.Key] = true
	}
	for _, op := range ops {
		if op.Kind != OpDelete && op.Value == nil {
			return &Error{Key: op.Key, Reason: "null is not a value", Code: kerr.InvalidRequest}
		}
	}
	return nil
}

// applyOps returns the settings after the operations; only lists are checked yet.
func applyOps(current map[string]string, ops []Op, key func(string) *Key) (map[string]string, error) {
	next := maps.Clone(current)
	if next == nil {
		next = map[string]string{}
	}
	for _, op := range ops {
		switch op.Kind {
		case OpSet:
			next[op.Key] = *op.Value
		case OpDelete:
			delete(next, op.Key)
		case OpAppend, OpSubtract:
			k := key(op.Key)
			if k == nil || k.Type != List {
				return nil, &Error{Key: op.Key, Reason: "is not a list", Code: kerr.InvalidConfig}
			}
			next[op.Key] = editList(k, next, op)
		default: // Apache Kafka 3.9 fails on it, and so answers with this code
			return nil, &Error{Key: op.Key, Reason: fmt.Sprintf("unknown operation %d", op.Kind), Code: kerr.UnknownServerError}
		}
	}
	return next, nil
}

// editList adds the missing values, or removes one of each. A list that is not set begins as its default.
func editList(k *Key, current map[string]string, op Op) string {
	text, ok := current[op.Key]
	if !ok {
		text, _ = k.Default()
		text = strings.TrimSuffix(text, null)
	}
	var items []string
	if text != "" {
		items = splitList(text)
	}
	for _, value := range splitList(*op.Value) {
		i := slices.Index(items, value)
		switch {
		case op.Kind == OpAppend && i < 0:
			items = append(items, value)
		case op.Kind == OpSubtract && i >= 0:
			items = slices.Delete(items, i, i+1)
		}
	}
	return strings.Join(items, ",")
}

// splitList splits a text at commas as Java does, where empty values at the end do not count.
func splitList(text string) []string {
	values := strings.TrimRight(text, ",")
	if values == "" && text != "" {
		return nil
	}
	return strings.Split(values, ",")
}

// validate checks the dynamic settings of one level, alone and as part of the whole configuration.
func (d *Dynamic) validate(settings map[string]string, at level) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := checkDynamic(name, settings[name], at); err != nil {
			return err
		}
	}
	now := d.state.Load()
	settings, err := now.resolveAll(settings)
	if err != nil {
		return err
	}
	cluster, broker := settings, now.broker
	if at == brokerLevel {
		cluster, broker = now.cluster, settings
	}
	next, err := now.merged.with(now.file, cluster, broker)
	if err != nil {
		return err
	}
	if err := checkStep(now.merged, next); err != nil {
		return err
	}
	if err := next.checkSecurity(); err != nil || d.refuse == nil {
		return err
	}
	return d.refuse(now.merged, next)
}

// resolveAll returns settings with the values of their variables.
func (l *layers) resolveAll(settings map[string]string) (map[string]string, error) {
	resolved := make(map[string]string, len(settings))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value, err := resolveDynamic(name, settings[name], l.file)
		if err != nil {
			return nil, err
		}
		resolved[name] = value
	}
	return resolved, nil
}

// steppedPools may at most double or halve in one step (DynamicThreadPool, 3.9).
var steppedPools = []string{"background.threads", "log.cleaner.threads", "num.io.threads", "num.network.threads",
	"num.recovery.threads.per.data.dir", "num.replica.fetchers"}

// checkStep compares a change with the current values.
func checkStep(now, next *Broker) error {
	for _, name := range steppedPools {
		was, is := now.Int(name), next.Int(name)
		if is == was {
			continue
		}
		if is < 1 || is < was/2 || is > 2*was {
			return &Error{Key: name, Value: strconv.Itoa(is), Reason: fmt.Sprintf("must be at least 1 and from half to double of %d in one step", was)}
		}
	}
	for _, l := range next.Listeners {
		for _, old := range now.Listeners {
			if old.Name == l.Name && old.Protocol != l.Protocol {
				return &Error{Key: "listener.security.protocol.map", Reason: l.Name + " exists, so its protocol cannot change while the broker runs"}
			}
		}
	}
	return checkLocalRetention(next)
}

// checkLocalRetention is checked only for dynamic changes (DynamicLogConfig, 3.9).
func checkLocalRetention(b *Broker) error {
	total := b.LogRetention.Milliseconds()
	if local := int64(b.Int("log.local.retention.ms")); total != -1 && local != -2 && (local == -1 || local > total) {
		return b.refuse("log.local.retention.ms", "must not exceed log.retention.ms=%d", total)
	}
	total = b.LogRetentionBytes
	if local := int64(b.Int("log.local.retention.bytes")); total > -1 && local != -2 && (local == -1 || local > total) {
		return b.refuse("log.local.retention.bytes", "must not exceed log.retention.bytes=%d", total)
	}
	return nil
}

// BrokerResource parses the name of a broker resource: empty for all brokers, otherwise an id, which must be this
// broker's.
func (b *Broker) BrokerResource(name string) (all bool, err error) {
	if name == "" {
		return true, nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return false, &Error{Reason: fmt.Sprintf("broker %q: not a number", name), Code: kerr.InvalidRequest}
	}
	if int(id) != b.BrokerID {
		return false, &Error{Reason: fmt.Sprintf("broker %d: this is broker %d", id, b.BrokerID), Code: kerr.InvalidRequest}
	}
	return false, nil
}
