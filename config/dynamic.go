package config

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
)

// Dynamic is a broker's configuration while it runs: the file, over it the values for all
// brokers, over these the values for this one (KIP-226). Each change makes a new Broker, which
// is published at once.
//
// SetCluster and SetBroker belong to one goroutine, the one that hears of changes. Everything
// else is safe for concurrent use.
type Dynamic struct {
	log     *logrus.Entry
	changed []func(old, new *Broker)
	refuse  func(now, next *Broker) error // nil: nothing more is checked
	state   atomic.Pointer[layers]
}

// layers is one immutable state of the configuration.
type layers struct {
	file    map[string]string
	cluster map[string]string // what ZooKeeper has for all brokers, without what is not valid there
	broker  map[string]string // the same for this broker
	merged  *Broker

	clusterNode, brokerNode string // where they were read
}

// NewDynamic starts with the configuration of the file. The functions are called after each
// change, in order, by the goroutine that brought it.
func NewDynamic(static *Broker, log *logrus.Entry, changed ...func(old, new *Broker)) *Dynamic {
	d := &Dynamic{log: log, changed: changed}
	d.state.Store(&layers{file: static.static, merged: static})
	return d
}

// RefuseWhen has requests to alter settings refused for what only the running broker knows. It is to be called before
// there are any.
func (d *Dynamic) RefuseWhen(refuse func(now, next *Broker) error) { d.refuse = refuse }

// Current returns the configuration that counts now.
func (d *Dynamic) Current() *Broker { return d.state.Load().merged }

// SetCluster takes the values that ZooKeeper has for all brokers, and where it has them. What is not valid there is
// logged and ignored. When the whole then asks for protection that there is none of, nothing changes, and the error says so.
func (d *Dynamic) SetCluster(stored map[string]string, znode string) error {
	next := *d.state.Load()
	next.cluster, next.clusterNode = d.usable(stored, clusterLevel, znode), znode
	return d.publish(&next, znode)
}

// SetBroker takes the values that ZooKeeper has for this broker, like SetCluster.
func (d *Dynamic) SetBroker(stored map[string]string, znode string) error {
	next := *d.state.Load()
	next.broker, next.brokerNode = d.usable(stored, brokerLevel, znode), znode
	return d.publish(&next, znode)
}

// Origin is the node in ZooKeeper that a setting comes from, empty when it is the file's or not set.
func (d *Dynamic) Origin(name string) (znode string) {
	now := d.state.Load()
	if _, ok := now.broker[name]; ok {
		return now.brokerNode
	}
	if _, ok := now.cluster[name]; ok {
		return now.clusterNode
	}
	return ""
}

func (d *Dynamic) publish(next *layers, znode string) error {
	old := next.merged
	merged, err := parse(merge(next.file, next.cluster, next.broker), next.file)
	if err != nil {
		d.log.WithError(err).WithField(logx.Znode, znode).Error("dynamic settings do not fit together, the ones before stay")
		d.state.Store(next)
		return nil
	}
	if err := merged.CheckProtocols(); err != nil {
		return fmt.Errorf("settings of %s: %w", znode, err)
	}
	if maps.Equal(merged.given, old.given) {
		d.state.Store(next)
		return nil
	}
	merged = merged.WithBrokerID(old.BrokerID)
	next.merged = merged
	d.state.Store(next)
	d.log.WithFields(logrus.Fields{logx.Znode: znode, logx.Settings: changes(old, merged)}).Info("settings of the broker changed")
	for _, tell := range d.changed {
		tell(old, merged)
	}
	return nil
}

// merge lays the later layers over the earlier ones. A setting that can be given in several
// units replaces its other forms (DynamicBrokerConfig.overrideProps, 3.9).
func merge(base map[string]string, over ...map[string]string) map[string]string {
	merged := maps.Clone(base)
	for _, layer := range over {
		for name := range layer {
			for _, synonym := range unitSynonyms(name) {
				delete(merged, synonym)
			}
		}
		maps.Copy(merged, layer)
	}
	return merged
}

// unitSynonyms are the forms of one setting, the strongest first.
func unitSynonyms(name string) []string {
	switch name {
	case "log.roll.ms", "log.roll.hours":
		return []string{"log.roll.ms", "log.roll.hours"}
	case "log.roll.jitter.ms", "log.roll.jitter.hours":
		return []string{"log.roll.jitter.ms", "log.roll.jitter.hours"}
	case "log.retention.ms", "log.retention.minutes", "log.retention.hours":
		return []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"}
	case "log.flush.interval.ms":
		return []string{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"}
	}
	return []string{name}
}

// level says for whom dynamic values are: for all brokers or for one.
type level uint8

const (
	clusterLevel level = iota
	brokerLevel
)

// usable drops what must not stand in ZooKeeper at this level, with a line in the log, and decodes passwords
// (DynamicBrokerConfig.fromPersistentProps, 3.9).
func (d *Dynamic) usable(stored map[string]string, at level, znode string) map[string]string {
	kept := make(map[string]string, len(stored))
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		value, err := stored[name], checkDynamic(name, stored[name], at)
		if err == nil && IsDynamicPassword(name) {
			value, err = d.Current().decode(name, value)
		}
		if err != nil {
			d.log.WithError(err).WithFields(logrus.Fields{logx.Setting: name, logx.Znode: znode}).Warn("dynamic setting ignored")
			continue
		}
		kept[name] = value
	}
	return kept
}

// CheckDynamic refuses settings that can't be set while brokers run: for one broker, or for all of them. They are looked at
// one by one; only a broker can tell whether they go together with its others.
func CheckDynamic(settings map[string]string, all bool) error {
	at := brokerLevel
	if all {
		at = clusterLevel
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := checkDynamic(name, settings[name], at); err != nil {
			return err
		}
	}
	return nil
}

// checkDynamic refuses a value that cannot be set while a broker runs
// (DynamicBrokerConfig.validateConfigs, 3.9). Keys without a schema are let through.
func checkDynamic(name, value string, at level) error {
	base, prefixed := listenerBase(name)
	if !prefixed {
		base = name
	}
	k := brokerSchema.byName[base]
	switch {
	case k == nil && prefixed && at == clusterLevel:
		return &Error{Key: name, Reason: "can be changed only for one broker, not for all"}
	case k == nil:
		return nil
	case !prefixed && k.Update == ReadOnly:
		return &Error{Key: name, Reason: "cannot be changed while the broker runs"}
	case !prefixed && needsListenerPrefix[name]:
		return &Error{Key: name, Reason: "can be changed only for one listener, with listener.name.NAME. before it"}
	case at == clusterLevel && (k.Update == PerBroker || prefixed && !clusterWideOfListener[base]):
		return &Error{Key: name, Reason: "can be changed only for one broker, not for all"}
	}
	if _, err := k.parse(value); err != nil {
		return err
	}
	return checkWhileRunning(k, name, value)
}

// checkWhileRunning refuses values that a file may have, but that can't be changed to.
func checkWhileRunning(k *Key, name, value string) error {
	missing, _ := k.Default()
	switch {
	case k.Type == Class && value != missing, name == "metric.reporters" && value != "":
		return &Error{Key: name, Value: value, Reason: "no class can be loaded here"}
	case (name == "max.connections" || name == "max.connection.creation.rate") && value == "0":
		return &Error{Key: name, Value: value, Reason: "must be at least 1 while the broker runs"}
	}
	return nil
}

// needsListenerPrefix are the keys of TLS stores: changing them for all listeners at once is
// not possible (KIP-226).
var needsListenerPrefix = map[string]bool{
	"ssl.key.password":               true,
	"ssl.keystore.certificate.chain": true,
	"ssl.keystore.key":               true,
	"ssl.keystore.location":          true,
	"ssl.keystore.password":          true,
	"ssl.keystore.type":              true,
	"ssl.truststore.certificates":    true,
	"ssl.truststore.location":        true,
	"ssl.truststore.password":        true,
	"ssl.truststore.type":            true,
}

// clusterWideOfListener are the keys that may carry a listener's prefix at the level of all brokers.
var clusterWideOfListener = map[string]bool{
	"max.connections":              true,
	"max.connection.creation.rate": true,
	"num.network.threads":          true,
}
