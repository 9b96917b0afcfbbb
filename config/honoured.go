package config

import (
	"maps"
	"slices"
)

// notHonoured are the keys that are parsed and described but have no effect. When one is implemented, it must be
// removed here and in testdata/not_honoured.txt.
var notHonoured = buildNotHonoured()

func buildNotHonoured() map[string]bool {
	set := map[string]bool{}
	for _, keys := range [][]Key{kraftKeys, tieredKeys} { // other modes: these remain without effect
		for _, k := range keys {
			set[k.Name] = true
		}
	}
	for _, name := range noCounterpart {
		set[name] = true
	}
	return set
}

// noCounterpart are about things that do not exist here: loadable classes, thread pools, purgatories, the JVM, kinit.
var noCounterpart = []string{
	"alter.config.policy.class.name",
	"alter.config.policy.kraft.compatibility.enable",
	"auto.include.jmx.reporter",
	"background.threads",
	"client.quota.callback.class",
	"create.topic.policy.class.name",
	"delete.records.purgatory.purge.interval.requests",
	"fetch.purgatory.purge.interval.requests",
	"group.consumer.migration.policy",
	"group.coordinator.new.enable",
	"group.share.enable",
	"kafka.metrics.polling.interval.secs",
	"kafka.metrics.reporters",
	"log.initial.task.delay.ms",
	"metadata.log.segment.min.bytes",
	"metric.reporters",
	"metrics.num.samples",
	"metrics.recording.level",
	"metrics.sample.window.ms",
	"num.io.threads",
	"num.network.threads",
	"principal.builder.class",
	"producer.purgatory.purge.interval.requests",
	"queued.max.requests",
	"remote.log.manager.task.retry.backoff.max.ms",
	"remote.log.manager.task.retry.backoff.ms",
	"remote.log.manager.task.retry.jitter",
	"sasl.kerberos.kinit.cmd",
	"sasl.kerberos.min.time.before.relogin",
	"sasl.kerberos.ticket.renew.jitter",
	"sasl.kerberos.ticket.renew.window.factor",
	"security.providers",
	"server.max.startup.time.ms",
	"zookeeper.server.realm",
	"ssl.engine.factory.class",
	"ssl.keymanager.algorithm",
	"ssl.provider",
	"ssl.secure.random.implementation",
	"ssl.trustmanager.algorithm",
	"unclean.leader.election.interval.ms",
	"unstable.api.versions.enable",
	"unstable.feature.versions.enable",
	"zookeeper.clientCnxnSocket",
	"zookeeper.metadata.migration.min.batch.size",
}

// NotHonoured returns the keys that were set but have no effect, sorted; the start lists them in one warning. A
// listener's own setting counts by its base key, and a login configuration without its mechanism has no effect either.
func (b *Broker) NotHonoured() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(b.given)) {
		base, prefixed := listenerBase(name)
		if notHonoured[name] || prefixed && notHonoured[base] || jaasWithoutMechanism(name) {
			names = append(names, name)
		}
	}
	return names
}
