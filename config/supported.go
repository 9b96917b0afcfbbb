package config

import "slices"

// RackAwareSelector is the replica.selector.class that directs consumers to a replica in their rack (KIP-392).
const RackAwareSelector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

// missing lists settings for features that are missing and must not be ignored silently: protection, limits, or data
// that only another broker could read.
var missing = []struct{ key, why string }{
	{"create.topic.policy.class.name", "no class can be loaded here, and without it topics would be created that it forbids"},
	{"alter.config.policy.class.name", "no class can be loaded here, and without it settings would be changed that it guards"},
	{"client.quota.callback.class", "no class can be loaded here, and without it clients would have other quotas"},
	{"remote.log.storage.system.enable", "there is no tiered storage here, and records that are in one could not be read"},
}

// Unsupported returns every reason why a broker refuses to start with these settings although they are valid, since
// running without what they require would be worse. Each is one line that names the setting and its value.
func (b *Broker) Unsupported() (reasons []error) {
	add := func(err error) {
		if err != nil {
			reasons = append(reasons, err)
		}
	}
	for _, m := range missing {
		if value := b.Text(m.key); value != "" && value != "false" {
			add(b.refuse(m.key, "%s", m.why))
		}
	}
	if b.InterBrokerProtocolVersion < IBP0110IV0 {
		add(b.refuse("inter.broker.protocol.version", "must be at least 0.11.0: brokers of earlier releases exchange older message formats"))
	}
	if class := b.ReplicaSelectorClass; class != "" && class != RackAwareSelector {
		add(b.refuse("replica.selector.class", "no class can be loaded here, only %s is available", RackAwareSelector))
	}
	for i, dir := range b.LogDirs {
		if slices.Contains(b.LogDirs[:i], dir) {
			add(b.refuse(b.firstSet("log.dirs", "log.dir"), "names %s twice", dir))
		}
	}
	add(b.checkSecurity())
	return reasons
}
