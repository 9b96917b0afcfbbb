package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// check checks the settings against each other, as KafkaConfig.validateValues does (3.9).
func (b *Broker) check() error {
	for _, rule := range []func() error{b.checkMode, b.checkIdentity, b.checkLogs, b.checkFetching,
		b.checkListeners, b.checkVersions, b.checkConnections, b.checkSASL, b.checkAuthorizer} {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

// refuse returns an error about a setting, with its original value.
func (b *Broker) refuse(key, reason string, args ...any) error {
	value := b.given[key]
	if k := brokerKey(key); k != nil {
		value = k.show(value)
	}
	return &Error{Key: key, Value: value, Reason: fmt.Sprintf(reason, args...)}
}

// checkSecurity refuses what would let other clients in at a listener than its settings say, or none at all.
func (b *Broker) checkSecurity() error {
	if err := b.checkCertificates(); err != nil {
		return err
	}
	return b.checkLogins()
}

// checkCertificates refuses classes that would decide about certificates. They cannot be loaded, and without them other
// clients would be accepted, or under other names.
func (b *Broker) checkCertificates() error {
	for _, l := range b.Listeners {
		if !l.Protocol.TLS() {
			continue
		}
		if as, value, _ := b.ListenerSetting(l, "ssl.engine.factory.class"); value != "" {
			return &Error{Key: as, Value: value, Reason: "no class can be loaded here, and without it others might connect than it lets in"}
		}
		const builder = "principal.builder.class"
		if given, usual := b.String(builder), brokerKey(builder); !usual.isDefault(given) {
			return b.refuse(builder, "no class can be loaded here, and without it the clients of listener %s would have other names", l.Name)
		}
	}
	return nil
}

// checkMode refuses KRaft mode, which is not supported.
func (b *Broker) checkMode() error {
	switch {
	case len(b.List("process.roles")) > 0:
		return b.refuse("process.roles", "KRaft mode is not supported; remove it and set zookeeper.connect")
	case b.Bool("zookeeper.metadata.migration.enable"):
		return b.refuse("zookeeper.metadata.migration.enable", "migration to KRaft is not supported")
	case b.String("controller.listener.names") != "":
		return b.refuse("controller.listener.names", "must be empty outside of KRaft mode")
	}
	protocols := b.List("group.coordinator.rebalance.protocols")
	if !slices.Contains(protocols, "classic") || slices.Contains(protocols, "consumer") {
		return b.refuse("group.coordinator.rebalance.protocols", "must contain classic and not consumer in ZooKeeper mode")
	}
	return nil
}

func (b *Broker) checkIdentity() error {
	switch {
	case b.BrokerID != b.Int("node.id"):
		return b.refuse("node.id", "must equal broker.id=%d", b.BrokerID)
	case b.null("zookeeper.connect"):
		return &Error{Key: "zookeeper.connect", Reason: "must be set"}
	case b.BrokerIDGeneration && (b.BrokerID < -1 || b.BrokerID > b.ReservedBrokerMaxID):
		return b.refuse("broker.id", "must be from -1 to reserved.broker.max.id=%d while broker.id.generation.enable=true",
			b.ReservedBrokerMaxID)
	case !b.BrokerIDGeneration && b.BrokerID < 0:
		return b.refuse("broker.id", "must be at least 0 while broker.id.generation.enable=false")
	}
	return nil
}

func (b *Broker) checkLogs() error {
	switch {
	case b.LogRoll < time.Millisecond:
		return b.refuse(b.firstSet("log.roll.ms", "log.roll.hours"), "must be at least 1")
	case b.LogRollJitter < 0:
		return b.refuse(b.firstSet("log.roll.jitter.ms", "log.roll.jitter.hours"), "must be at least 0")
	case b.LogRetention == 0:
		return b.refuse(b.firstSet("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
			"must be at least 1, or negative for no limit")
	case len(b.LogDirs) == 0:
		return b.refuse(b.firstSet("log.dirs", "log.dir"), "must name at least one directory")
	case b.LogCleanerThreads < 1:
		return b.refuse("log.cleaner.threads", "must be at least 1")
	case b.LogCleanerDedupeBufferBytes/int64(b.LogCleanerThreads) <= 1<<20:
		return b.refuse("log.cleaner.dedupe.buffer.size", "must be more than 1 MiB for each of the %d cleaner threads", b.LogCleanerThreads)
	}
	return nil
}

// firstSet returns the first key that is set, otherwise the last one, whose default applies.
func (b *Broker) firstSet(keys ...string) string {
	for _, key := range keys {
		if b.Set(key) {
			return key
		}
	}
	return keys[len(keys)-1]
}

func (b *Broker) checkFetching() error {
	switch {
	case b.ReplicaFetchWaitMax > b.ReplicaSocketTimeout:
		return b.refuse("replica.fetch.wait.max.ms", "must not exceed replica.socket.timeout.ms=%d", b.ReplicaSocketTimeout.Milliseconds())
	case b.ReplicaFetchWaitMax > b.ReplicaLagTimeMax:
		return b.refuse("replica.fetch.wait.max.ms", "must not exceed replica.lag.time.max.ms=%d", b.ReplicaLagTimeMax.Milliseconds())
	}
	return nil
}

func (b *Broker) checkListeners() error {
	has := func(listeners []Listener, name string) bool {
		return slices.ContainsFunc(listeners, func(l Listener) bool { return l.Name == name })
	}
	if len(b.AdvertisedListeners) == 0 {
		return b.refuse(b.firstSet("advertised.listeners", "listeners"), "must name at least one listener")
	}
	if !has(b.AdvertisedListeners, b.InterBrokerListener) {
		return b.refuse(b.firstSet("security.inter.broker.protocol", "inter.broker.listener.name"),
			"the listener between brokers, %s, must be one of the advertised: %s", b.InterBrokerListener, names(b.AdvertisedListeners))
	}
	for _, l := range b.AdvertisedListeners {
		if !has(b.Listeners, l.Name) {
			return b.refuse("advertised.listeners", "%s is not one of listeners: %s", l.Name, names(b.Listeners))
		}
		if l.Host == "0.0.0.0" {
			return b.refuse(b.firstSet("advertised.listeners", "listeners"),
				"cannot advertise 0.0.0.0: no client can connect to it; set advertised.listeners")
		}
	}
	switch control := b.ControlPlaneListener; {
	case control == "":
	case !has(b.AdvertisedListeners, control):
		return b.refuse("control.plane.listener.name", "must be one of the advertised listeners: %s", names(b.AdvertisedListeners))
	case control == b.InterBrokerListener:
		return b.refuse("control.plane.listener.name", "must differ from the listener between brokers")
	}
	return nil
}

func names(listeners []Listener) string {
	list := make([]string, len(listeners))
	for i, l := range listeners {
		list[i] = l.Name
	}
	return strings.Join(list, ", ")
}

func (b *Broker) checkVersions() error {
	protocol := b.InterBrokerProtocolVersion
	if b.MessageFormatVersion.RecordVersion() > protocol.RecordVersion() {
		return b.refuse("log.message.format.version", "%s needs a newer inter.broker.protocol.version than %s",
			b.MessageFormatVersion, protocol)
	}
	switch codec := b.OffsetsTopicCompressionCodec; {
	case codec < 0 || codec > 4:
		return b.refuse("offsets.topic.compression.codec", "must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)")
	case codec == 4 && protocol.RecordVersion() < 2:
		return b.refuse("offsets.topic.compression.codec", "zstd needs a newer inter.broker.protocol.version than %s", protocol)
	}
	return nil
}

func (b *Broker) checkConnections() error {
	switch {
	case b.QueuedMaxRequestBytes > 0 && b.QueuedMaxRequestBytes < int64(b.SocketRequestMaxBytes):
		return b.refuse("queued.max.request.bytes", "must be at least socket.request.max.bytes=%d", b.SocketRequestMaxBytes)
	case b.MaxConnectionsPerIP == 0 && len(b.MaxConnectionsPerIPOverride) == 0:
		return b.refuse("max.connections.per.ip", "can be 0 only together with max.connections.per.ip.overrides")
	case b.ConnectionsMaxIdle >= 0 && b.FailedAuthenticationDelay >= b.ConnectionsMaxIdle:
		return b.refuse("connections.max.idle.ms", "must exceed connection.failed.authentication.delay.ms=%d",
			b.FailedAuthenticationDelay.Milliseconds())
	}
	return nil
}

func (b *Broker) checkSASL() error {
	if !b.InterBrokerProtocol.SASL() {
		return nil
	}
	mechanism := b.String(betweenKey)
	if b.InterBrokerProtocolVersion < IBP0100IV1 && mechanism != "GSSAPI" {
		return b.refuse(betweenKey, "must be GSSAPI while inter.broker.protocol.version=%s", b.InterBrokerProtocolVersion)
	}
	_, enabled := b.listenerText(Listener{Name: b.InterBrokerListener}, "", mechanismsKey)
	if !slices.Contains(parseList(enabled), mechanism) {
		return b.refuse(betweenKey, "must be one of sasl.enabled.mechanisms")
	}
	return nil
}
