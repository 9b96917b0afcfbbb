package config

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
)

// Dynamic is a broker's configuration at run time: the values for this broker take precedence over those for all
// brokers, and these over the file (KIP-226). Each change creates a new Broker, which is published at once.
//
// SetCluster and SetBroker belong to one goroutine, the one that is notified of changes. Everything else is safe for
// concurrent use.
type Dynamic struct {
	log     *logrus.Entry
	changed []func(old, new *Broker)
	refuse  func(now, next *Broker) error // additional checks; may be nil
	state   atomic.Pointer[layers]
}

// layers is one immutable state of the configuration, with the values of variables.
type layers struct {
	file    map[string]string
	cluster map[string]string // for all brokers according to ZooKeeper, without what is invalid there
	broker  map[string]string // the same for this broker
	merged  *Broker

	clusterText, brokerText map[string]string // cluster and broker before their variables were replaced
	clusterNode, brokerNode string            // where they were read
}

// NewDynamic begins with the configuration of the file. The functions are called after each change, in order, on the
// goroutine that made it.
func NewDynamic(static *Broker, log *logrus.Entry, changed ...func(old, new *Broker)) *Dynamic {
	d := &Dynamic{log: log, changed: changed}
	d.state.Store(&layers{file: static.static, merged: static})
	return d
}

// RefuseWhen installs a check that refuses requests to alter settings for reasons that only the running broker knows.
// It must be called before there are any.
func (d *Dynamic) RefuseWhen(refuse func(now, next *Broker) error) { d.refuse = refuse }

// Current returns the current configuration.
func (d *Dynamic) Current() *Broker { return d.state.Load().merged }

// SetCluster applies the values for all brokers in ZooKeeper, read from znode. Invalid ones are logged and ignored. If
// the resulting configuration asks for protection that is not supported, nothing changes and the error says so.
func (d *Dynamic) SetCluster(stored map[string]string, znode string) error {
	next := *d.state.Load()
	next.clusterText, next.cluster = d.resolved(d.usable(stored, clusterLevel, znode), znode)
	next.clusterNode = znode
	return d.publish(&next, znode)
}

// SetBroker applies the values for this broker in ZooKeeper, like SetCluster.
func (d *Dynamic) SetBroker(stored map[string]string, znode string) error {
	next := *d.state.Load()
	next.brokerText, next.broker = d.resolved(d.usable(stored, brokerLevel, znode), znode)
	next.brokerNode = znode
	return d.publish(&next, znode)
}

// Origin returns the ZooKeeper node that a setting comes from, empty if it is from the file or not set.
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
	merged, err := old.with(next.file, next.cluster, next.broker)
	if err != nil {
		d.log.WithError(err).WithField(logx.Znode, znode).Error("dynamic settings are inconsistent, keeping the previous ones")
		d.state.Store(next)
		return nil
	}
	if err := merged.checkSecurity(); err != nil {
		return fmt.Errorf("settings of %s: %w", znode, err)
	}
	if maps.Equal(merged.given, old.given) {
		d.state.Store(next)
		return nil
	}
	merged = merged.withBrokerID(old.BrokerID)
	next.merged = merged
	d.state.Store(next)
	d.log.WithFields(logrus.Fields{logx.Znode: znode, logx.Settings: changes(old, merged)}).Info("the broker's settings have changed")
	for _, tell := range d.changed {
		tell(old, merged)
	}
	return nil
}

// with returns the configuration of the same broker from other layers.
func (b *Broker) with(file map[string]string, over ...map[string]string) (*Broker, error) {
	next, err := parse(merge(file, over...), file)
	if err == nil {
		next.logins = b.logins
	}
	return next, err
}

// merge applies layers in order of increasing precedence. A setting that can be given in several units replaces its
// other forms (DynamicBrokerConfig.overrideProps, 3.9).
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

// unitSynonyms returns the forms of a setting, in order of precedence.
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

// level is the scope of dynamic values: all brokers or one.
type level uint8

const (
	clusterLevel level = iota
	brokerLevel
)

// usable removes, with a log line, what is not allowed in ZooKeeper at this level, and decodes passwords
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

// resolved replaces the variables in settings, and removes from both results, with a log line, those whose variables have
// no value.
func (d *Dynamic) resolved(settings map[string]string, znode string) (text, values map[string]string) {
	file := d.state.Load().file
	values = make(map[string]string, len(settings))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value, err := resolveDynamic(name, settings[name], file)
		if err != nil {
			d.log.WithError(err).WithFields(logrus.Fields{logx.Setting: name, logx.Znode: znode}).Warn("dynamic setting ignored")
			delete(settings, name)
			continue
		}
		values[name] = value
	}
	return settings, values
}

// CheckDynamic refuses settings that cannot be changed at run time, for one broker or for all of them. They are checked
// one by one; only a broker can check them against its other settings.
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

// checkDynamic refuses a value that cannot be set at run time (DynamicBrokerConfig.validateConfigs, 3.9). Keys without
// a schema are allowed.
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

// checkWhileRunning refuses values that are allowed in a file but not as a change at run time.
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

// needsListenerPrefix are keys of TLS stores, which cannot be changed for all listeners at once (KIP-226).
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

// clusterWideOfListener are the keys that may have a listener's prefix at the level of all brokers.
var clusterWideOfListener = map[string]bool{
	"max.connections":              true,
	"max.connection.creation.rate": true,
	"num.network.threads":          true,
}
