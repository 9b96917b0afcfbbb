//go:build compat

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"barnabas/internal/testport"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMirrorMaker copies a cluster, Apache Kafka's or ours, to one of each kind at the same time: topics with their
// settings and partitions, also when they change, records, ACLs and groups' offsets. The result must be the same in
// both. MirrorMaker is killed meanwhile and started again; no record is copied twice.
func TestMirrorMaker(t *testing.T) {
	t.Parallel()
	server := zookeeper(t)
	settings := []string{"authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:ANONYMOUS",
		"offsets.topic.replication.factor=1", "offsets.topic.num.partitions=5", "transaction.state.log.replication.factor=1",
		"transaction.state.log.num.partitions=5", "transaction.state.log.min.isr=1", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000"}
	theirs := func(name string) string {
		addr, _, _ := startPeer(t, 0, server+"/"+name, settings...)
		return addr
	}
	ours := func(name string) string {
		p := newProcess(t, 0, server+"/"+name, settings...)
		p.start()
		return p.addr()
	}
	targets := map[string]*mirrorTarget{"theirs": newMirrorTarget(t, theirs("theirs")), "ours": newMirrorTarget(t, ours("ours"))}
	for _, source := range []struct {
		name, addr string
		mirrored   func(topic string) string
		settings   []string
	}{
		{"Apache Kafka's", theirs("theirsource"), func(topic string) string { return topic },
			[]string{"replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy", "topics=plain.*,compacted", "groups=readers"}},
		{"ours", ours("oursource"), func(topic string) string { return "source." + topic },
			[]string{"use.incremental.alter.configs=never", "topics=.*", "groups=.*"}},
	} {
		t.Run("from "+source.name, func(t *testing.T) {
			m := &mirroring{t: t, source: source.addr, targets: targets, mirrored: source.mirrored}
			m.run(source.settings...)
		})
	}
}

// mirrorTarget is a target cluster of one broker.
type mirrorTarget struct {
	addr  string
	cl    *kgo.Client
	admin *kadm.Client
}

func newMirrorTarget(t *testing.T, addr string) *mirrorTarget {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(addr))
	t.Cleanup(cl.Close)
	return &mirrorTarget{addr, cl, kadm.NewClient(cl)}
}

// mirroring is a source cluster that is copied to several targets.
type mirroring struct {
	t        *testing.T
	source   string
	targets  map[string]*mirrorTarget // by name
	mirrored func(topic string) string
	maker    *platform
	written  int // number of records in each of two topics
}

func (m *mirroring) run(settings ...string) {
	adm := adminAt(m.t, m.source)
	m.fill(adm)
	m.maker = newPlatform(m.t, "org.apache.kafka.connect.mirror.MirrorMaker", append(m.properties(), settings...)...)
	m.maker.start()
	m.awaitCopies("the first records")
	m.change(adm)
	m.maker.kill()
	m.write(500)
	m.maker.start()
	m.awaitCopies("the records after a restart")
	m.awaitSame()
	m.write(10) // when a task restarts it forgets the last offsets by which a group's could be translated
	m.awaitCopies("the last records")
	m.awaitOffsets(adm)
}

// properties returns MirrorMaker's settings that all runs have in common. It writes exactly once and looks for changes
// every second.
func (m *mirroring) properties() []string {
	lines := []string{
		"clusters=source," + strings.Join(slices.Sorted(maps.Keys(m.targets)), ","), "source.bootstrap.servers=" + m.source,
		"replication.factor=1", "checkpoints.topic.replication.factor=1", "heartbeats.topic.replication.factor=1", "offset-syncs.topic.replication.factor=1",
		"config.storage.replication.factor=1", "offset.storage.replication.factor=1", "status.storage.replication.factor=1", "offset.storage.partitions=5",
		"refresh.topics.interval.seconds=1", "sync.topic.configs.interval.seconds=1", "sync.topic.acls.interval.seconds=1", "refresh.groups.interval.seconds=1",
		"emit.checkpoints.interval.seconds=1", "sync.group.offsets.enabled=true", "sync.group.offsets.interval.seconds=1", "offset.lag.max=0",
		"offset.flush.interval.ms=500", "scheduled.rebalance.max.delay.ms=0", "session.timeout.ms=6000", "heartbeat.interval.ms=1000",
		"dedicated.mode.enable.internal.rest=true", "listeners=http://" + testport.Address(m.t), "plugin.discovery=service_load",
		"producer.transaction.timeout.ms=10000", // a transaction that a kill leaves open blocks the next start
	}
	for name, target := range m.targets {
		lines = append(lines, name+".bootstrap.servers="+target.addr, name+".exactly.once.source.support=enabled", "source->"+name+".enabled=true")
		for other := range m.targets { // heartbeats show that a task runs
			lines = append(lines, name+"->source.emit.heartbeats.enabled=false", name+"->"+other+".emit.heartbeats.enabled=false")
		}
	}
	return lines
}

// fill creates topics, ACLs and a group in the source.
func (m *mirroring) fill(adm *kadm.Client) {
	t := m.t
	t.Helper()
	value := func(v string) *string { return &v }
	for topic, settings := range map[string]map[string]*string{
		"plain": {"retention.ms": value("86400000"), "max.message.bytes": value("2000000"), "min.insync.replicas": value("1")},
		"plain2": {"message.timestamp.type": value("LogAppendTime"), "unclean.leader.election.enable": value("true"), "compression.type": value("zstd"),
			"follower.replication.throttled.replicas": value("*"), "message.format.version": value("2.8"), "message.timestamp.difference.max.ms": value("90000000000")},
		"compacted": {"cleanup.policy": value("compact"), "min.cleanable.dirty.ratio": value("0.2"), "segment.bytes": value("2000000")},
	} {
		if made, err := adm.CreateTopic(t.Context(), 2, 1, settings, topic); err != nil {
			t.Fatal(err, made.ErrMessage)
		}
	}
	for _, acl := range []*kadm.ACLBuilder{
		kadm.NewACLs().Allow("User:alice").AllowHosts("*").Topics("plain").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe),
		kadm.NewACLs().Allow("User:bob").AllowHosts("127.0.0.1").Topics("plain", "compacted").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpAll),
		kadm.NewACLs().Deny("User:carol").DenyHosts("*").Topics("plain2").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpAlterConfigs),
		kadm.NewACLs().Allow("User:dave").AllowHosts("*").Topics("pla").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpRead),
	} {
		if _, err := adm.CreateACLs(t.Context(), acl); err != nil {
			t.Fatal(err)
		}
	}
	m.write(500)
}

// write writes records to topics of the source.
func (m *mirroring) write(count int) {
	m.t.Helper()
	cl := newClient(m.t, kgo.SeedBrokers(m.source), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer cl.Close()
	for range count {
		value := fmt.Appendf(nil, "record %d", m.written)
		m.written++
		header := kgo.RecordHeader{Key: "h", Value: value}
		for _, topic := range []string{"plain", "compacted"} {
			cl.Produce(m.t.Context(), &kgo.Record{Topic: topic, Key: value, Value: value, Headers: []kgo.RecordHeader{header}}, nil)
		}
	}
	if err := cl.Flush(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// change changes the source while it is copied: settings are changed and removed, partitions added, ACLs deleted and
// created.
func (m *mirroring) change(adm *kadm.Client) {
	t := m.t
	t.Helper()
	longer := "172800000"
	alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &longer}, {Op: kadm.DeleteConfig, Name: "max.message.bytes"}}
	if _, err := adm.AlterTopicConfigs(t.Context(), alter, "plain"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.UpdatePartitions(t.Context(), 3, "compacted"); err != nil {
		t.Fatal(err)
	}
	gone := kadm.NewACLs().Allow("User:alice").AllowHosts("*").Topics("plain").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDescribe)
	if _, err := adm.DeleteACLs(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	more := kadm.NewACLs().Allow("User:erin").AllowHosts("*").Topics("compacted").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead)
	if _, err := adm.CreateACLs(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	until(t, "the new partition is copied", func(ctx context.Context) bool {
		for _, target := range m.targets {
			topics, err := target.admin.ListTopics(ctx, m.mirrored("compacted"))
			if err != nil || len(topics[m.mirrored("compacted")].Partitions) < 3 {
				return false
			}
		}
		return true
	})
}

// awaitCopies waits until the targets have all records. A failed task stays failed until MirrorMaker is restarted.
func (m *mirroring) awaitCopies(what string) {
	m.t.Helper()
	for name, target := range m.targets {
		await(m.t, what+" are in "+name, func(ctx context.Context) (string, bool) {
			if m.maker.hasLogged("will not recover until manually restarted") {
				m.t.Log("a task of MirrorMaker's has failed")
				m.maker.kill()
				m.maker.start()
			}
			topics, err := target.admin.ListTopics(ctx, m.mirrored("plain"), m.mirrored("compacted"))
			if err != nil || topics.Error() != nil {
				return fmt.Sprint(err, topics.Error()), false
			}
			plain, compacted := len(m.copied(target, "plain")), len(m.copied(target, "compacted"))
			return fmt.Sprintf("%d and %d of %d records", plain, compacted, m.written), min(plain, compacted) >= m.written
		})
	}
}

// copied returns the records of a topic's copy, in the order of partitions and offsets.
func (m *mirroring) copied(target *mirrorTarget, topic string) []string {
	m.t.Helper()
	return recordLines(readRecords(m.t, []string{target.addr}, m.mirrored(topic), kgo.ReadCommitted()))
}

func recordLines(records []*kgo.Record) []string {
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	lines := make([]string, len(records))
	for i, r := range records {
		lines[i] = fmt.Sprintf("%d %s=%s %s %d", r.Partition, r.Key, r.Value, r.Headers, r.Timestamp.UnixMilli())
	}
	return lines
}

// awaitSame waits until the targets are the same, and compares records with those of the source.
func (m *mirroring) awaitSame() {
	t := m.t
	t.Helper()
	var differ string
	await(t, "the targets are the same", func(ctx context.Context) (string, bool) {
		differ = cmp.Diff(m.targets["theirs"].arrived(ctx), m.targets["ours"].arrived(ctx))
		return "at Apache Kafka (-) and ours (+)\n" + differ, differ == ""
	})
	for _, topic := range []string{"plain", "compacted"} {
		want := recordLines(readRecords(t, []string{m.source}, topic, kgo.ReadCommitted()))
		for name, target := range m.targets {
			if d := cmp.Diff(want, m.copied(target, topic)); d != "" {
				t.Errorf("records of %s in the source (-) and in %s (+)\n%s", topic, name, d)
			}
		}
	}
}

// arrived describes the content of a target: topics with their partitions and settings, and ACLs.
func (m *mirrorTarget) arrived(ctx context.Context) []string {
	topics, err := m.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for name, topic := range topics {
		lines = append(lines, fmt.Sprintf("topic %s, %d partitions, internal: %v", name, len(topic.Partitions), topic.IsInternal))
	}
	settings, err := m.admin.DescribeTopicConfigs(ctx, topics.Names()...)
	if err != nil {
		return []string{err.Error()}
	}
	for _, topic := range settings {
		for _, c := range topic.Configs {
			lines = append(lines, fmt.Sprintf("setting %s %s=%s %s", topic.Name, c.Key, c.MaybeValue(), c.Source))
		}
	}
	acls := kmsg.NewPtrDescribeACLsRequest()
	acls.ResourceType, acls.ResourcePatternType, acls.Operation, acls.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	described, err := acls.RequestWith(ctx, m.cl)
	if err != nil {
		return []string{err.Error()}
	}
	for _, r := range described.Resources {
		for _, acl := range r.ACLs {
			lines = append(lines, fmt.Sprintf("ACL %v %s %v: %+v", r.ResourceType, r.ResourceName, r.ResourcePatternType, acl))
		}
	}
	slices.Sort(lines)
	return lines
}

// awaitOffsets lets a group read all of a topic in the source, and waits until its translated offsets are after the
// last record.
func (m *mirroring) awaitOffsets(adm *kadm.Client) {
	t := m.t
	t.Helper()
	ends := endOffsets(t, adm, "plain")
	if _, err := adm.CommitOffsets(t.Context(), "readers", ends.Offsets()); err != nil {
		t.Fatal(err)
	}
	for name, target := range m.targets {
		await(t, "the group's offsets are in "+name, func(ctx context.Context) (string, bool) {
			committed, err := target.admin.FetchOffsets(ctx, "readers")
			if err != nil {
				return err.Error(), false
			}
			for p := range int32(2) {
				at, ok := committed.Lookup(m.mirrored("plain"), p)
				if !ok || !m.behindAll(target, p, at.At) {
					return fmt.Sprintf("partition %d at %d", p, at.At), false
				}
			}
			return "", true
		})
	}
}

// behindAll reports whether a consumer that starts at an offset finds no records, and at most transaction markers.
func (m *mirroring) behindAll(target *mirrorTarget, partition int32, offset int64) bool {
	last := int64(-1)
	for _, r := range readRecords(m.t, []string{target.addr}, m.mirrored("plain"), kgo.ReadCommitted()) {
		if r.Partition == partition {
			last = max(last, r.Offset)
		}
	}
	return offset > last
}
