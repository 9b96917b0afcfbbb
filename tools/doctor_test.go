package tools

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testport"
	"barnabas/internal/testwait"
	"barnabas/kafkatest"
	"barnabas/logstore/record"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// doctored is a cluster with a client, which the doctor examines.
type doctored struct {
	*kafkatest.Cluster
	t   *testing.T
	cl  *kgo.Client
	adm *kadm.Client
}

func doctorFor(t *testing.T, opts ...kafkatest.Option) *doctored {
	t.Helper()
	c := kafkatest.Run(t, opts...)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &doctored{c, t, cl, kadm.NewClient(cl)}
}

func (d *doctored) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// topic creates a topic with settings name, value, ...
func (d *doctored) topic(name string, partitions int32, replicas int16, settings ...string) {
	d.t.Helper()
	configs := make(map[string]*string)
	for i := 0; i+1 < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	_, err := d.adm.CreateTopic(d.t.Context(), partitions, replicas, configs, name)
	d.must(err)
}

// placed creates a topic of one partition on the given brokers.
func (d *doctored) placed(name string, replicas []int32, settings ...string) {
	d.t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: replicas}}
	for i := 0; i+1 < len(settings); i += 2 {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: settings[i], Value: &settings[i+1]})
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 10_000
	resp, err := req.RequestWith(d.t.Context(), d.cl)
	d.must(err)
	d.must(answered(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage))
}

func (d *doctored) produce(r *kgo.Record) {
	d.t.Helper()
	d.must(d.cl.ProduceSync(d.t.Context(), r).FirstErr())
}

// ask expects an exit code and all of the words from the doctor, and the same result as JSON.
func (d *doctored) ask(question string, code int, words ...string) {
	d.t.Helper()
	args := append(strings.Fields(question), "--bootstrap-server", d.Broker(0).Addr())
	out := runTool(d.t, d.t.Context(), "", "kafka-doctor", args...)
	if out.code != code {
		d.t.Errorf("%s: exit code %d, want %d:\n%s%s", question, out.code, code, out.stdout, out.stderr)
	}
	for _, w := range words {
		if !strings.Contains(out.stdout, w) {
			d.t.Errorf("%s: no %q in\n%s%s", question, w, out.stdout, out.stderr)
		}
	}
	var said diagnosis
	out = runTool(d.t, d.t.Context(), "", "kafka-doctor", append(args, "--json")...)
	if err := json.Unmarshal([]byte(out.stdout), &said); err != nil || said.Trouble != (code == 1) || said.Question != question || len(said.Findings) == 0 {
		d.t.Errorf("%s: %v: %s", question, err, out.stdout)
	}
}

// TestDoctorOnTopics asks about topics whose records are not deleted, and about others.
func TestDoctorOnTopics(t *testing.T) {
	t.Parallel()
	d := doctorFor(t, kafkatest.Setting("log.cleaner.backoff.ms", "3600000"))
	d.topic("fine", 1, 1, "retention.ms", "3600000")
	d.produce(&kgo.Record{Topic: "fine", Value: []byte("x")})
	d.ask("retention fine", 0, "the active one", "retention.ms=3600000", "is deleted after")

	d.topic("future", 1, 1, "segment.bytes", "1048576", "retention.ms", "1000", "message.timestamp.after.max.ms", "9223372036854775807")
	d.produce(&kgo.Record{Topic: "future", Value: make([]byte, 900_000), Timestamp: time.Now().Add(1000 * time.Hour)})
	d.produce(&kgo.Record{Topic: "future", Value: make([]byte, 900_000), Timestamp: time.Now().Add(-time.Hour)})
	d.ask("retention future", 1, "a timestamp in the future", "message.timestamp.after.max.ms", "is due but stays, since the earlier segment at 0")

	d.topic("ever", 1, 1, "retention.ms", "-1")
	d.produce(&kgo.Record{Topic: "ever", Value: []byte("x")})
	d.ask("retention ever", 0, "keeps records of any age")

	d.ask("cleaner fine", 1, "cleanup.policy=delete", "--add-config cleanup.policy=compact")
	d.topic("keyed", 1, 1, "cleanup.policy", "compact", "segment.bytes", "1048576")
	d.produce(&kgo.Record{Topic: "keyed", Key: []byte("k"), Value: make([]byte, 900_000)})
	d.ask("cleaner keyed", 0, "has only the active segment")
	d.produce(&kgo.Record{Topic: "keyed", Key: []byte("k"), Value: make([]byte, 900_000)})
	d.ask("cleaner keyed", 0, "100% of its closed segments are new")
}

func TestDoctorOnTransactions(t *testing.T) {
	t.Parallel()
	d := doctorFor(t, kafkatest.Setting("transaction.partition.verification.enable", "false"))
	d.topic("known", 1, 1)
	d.topic("hangs", 1, 1)
	d.ask("transactions", 0, "none is open")
	openTransaction(t, d.Broker(0).Addr(), "known", true)
	d.ask("transactions", 0, "known-0", "transactional.id open-known", "at the latest")
	openTransaction(t, d.Broker(0).Addr(), "hangs", false)
	d.ask("transactions", 1, "no coordinator knows this transaction", "kafka-transactions.sh abort --topic hangs --partition 0 --start-offset 0")
}

func TestDoctorOnGroups(t *testing.T) {
	t.Parallel()
	d := doctorFor(t, kafkatest.Setting("offsets.topic.num.partitions", "3"))
	d.topic("t", 1, 1)
	d.ask("group nobody", 1, "there is no such group")
	consumer := func(id string) *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(d.Addrs()...), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ClientID(id), kgo.Balancers(kgo.RangeBalancer()))
		d.must(err)
		t.Cleanup(cl.Close)
		return cl
	}
	members := func(n int) {
		testwait.Until(t, fmt.Sprintf("the group has %d members", n), func() bool {
			g, err := d.adm.DescribeGroups(t.Context(), "g")
			return err == nil && g["g"].State == "Stable" && len(g["g"].Members) == n
		})
	}
	consumer("first")
	members(1)
	d.ask("group g", 0, "is Stable with 1 member;")
	second := consumer("second")
	members(2)
	d.ask("group g", 1, "members without a partition: 1 of 2", "second at 127.0.0.1 joined")
	second.Close()
	members(1)
	d.ask("group g", 0, "second at 127.0.0.1 left or was removed")
}

// TestDoctorOnBrokers: brokers are down, a reassignment is slow and then waits for one of them, and a deletion waits as
// well.
func TestDoctorOnBrokers(t *testing.T) {
	t.Parallel()
	d := doctorFor(t, kafkatest.Brokers(2), kafkatest.Setting("replica.fetch.max.bytes", "100000"), kafkatest.Setting("replica.fetch.response.max.bytes", "100000"))
	ctx := t.Context()
	d.ask("listeners", 0, "broker 0", "broker 1", "can be reached")
	d.ask("reassignment", 0, "none is under way")
	d.ask("zookeeper", 0, "are sound")

	d.placed("slow", []int32{0}, "leader.replication.throttled.replicas", "*")
	for range 20 {
		d.produce(&kgo.Record{Topic: "slow", Value: make([]byte, 90_000)})
	}
	for _, id := range []int32{0, 1} {
		_, err := d.adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: "leader.replication.throttled.rate", Value: kadm.StringPtr("1")}}, id)
		d.must(err)
	}
	testwait.Until(t, "the brokers have their throttles", func() bool {
		brokers, err := d.adm.DescribeBrokerConfigs(ctx, 0, 1)
		return err == nil && !slices.ContainsFunc(brokers, func(b kadm.ResourceConfig) bool {
			return !slices.ContainsFunc(b.Configs, func(c kadm.Config) bool {
				return c.Key == "leader.replication.throttled.rate" && c.MaybeValue() == "1"
			})
		})
	})
	d.ask("reassignment", 1, "leader.replication.throttled.rate=1 is left over")
	var move kadm.AlterPartitionAssignmentsReq
	move.Assign("slow", 0, []int32{0, 1})
	moved, err := d.adm.AlterPartitionAssignments(ctx, move)
	d.must(errors.Join(err, moved.Error()))
	d.ask("reassignment", 1, "slow-0 on broker 1", "leader.replication.throttled.rate=1, the rest takes")
	d.ask("zookeeper", 1, "a reassignment of partition 0 is under way")

	d.topic("going", 2, 2)
	d.ask("deletion going", 0, "its deletion has not been requested")
	d.Broker(1).Stop()
	if _, err := d.adm.DeleteTopic(ctx, "going"); err != nil {
		t.Logf("delete: %v", err)
	}
	d.ask("deletion going", 1, "broker 1 has replicas of going-0, going-1 and is not running")
	d.ask("zookeeper", 1, "/admin/delete_topics/going", "broker 1: has replicas of")
	d.ask("reassignment", 1, "broker 1, which is to get a replica, is not running")
}

func TestDoctorFindsStrays(t *testing.T) {
	t.Parallel()
	d := doctorFor(t)
	d.topic("t", 1, 1)
	shell := func(command ...string) {
		if out := runTool(t, t.Context(), "", "zookeeper-shell", append([]string{d.ZooKeeper()}, command...)...); out.code != 0 {
			t.Fatal(out)
		}
	}
	d.ask("zookeeper", 0, "broker 0 is the controller", "are sound")
	shell("create", "/config/topics/ghost", `{"version":1,"config":{}}`)
	d.ask("zookeeper", 0, "/config/topics/ghost: holds settings of a topic that does not exist")
	d.ask("deletion ghost", 0, "its settings are still in ZooKeeper")
	out := runTool(t, t.Context(), "", "kafka-doctor", "zookeeper", "--zookeeper", d.ZooKeeper())
	if out.code != 0 || !strings.Contains(out.stdout, "WARNING /config/topics/ghost") {
		t.Errorf("without a broker: %+v", out)
	}
	if out = runTool(t, t.Context(), "", "kafka-doctor", "zookeeper", "--zookeeper", d.ZooKeeper()+"/nowhere"); out.code != 2 || !strings.Contains(out.stderr, "holds no cluster") {
		t.Errorf("a wrong chroot: %+v", out)
	}
}

// TestDoctorTellsWhatItMayNotRead: a node in ZooKeeper can only be read by another user.
func TestDoctorTellsWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	d := doctorFor(t)
	conn, _, err := zk.Connect([]string{d.ZooKeeper()}, 10*time.Second, zk.WithLogInfo(false))
	d.must(err)
	defer conn.Close()
	_, err = conn.Create("/config/users/alice", []byte(`{"version":1,"config":{}}`), 0, zk.DigestACL(zk.PermAll, "broker", "secret"))
	d.must(err)
	d.ask("zookeeper", 0, "are sound", "/config/users/alice: was not checked")
}

// TestDoctorOnListeners tries addresses that brokers may advertise to clients.
func TestDoctorOnListeners(t *testing.T) {
	t.Parallel()
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Close() })
	for _, test := range []struct {
		name    string
		host    string
		port    int32
		local   bool
		trouble bool
		says    string
	}{
		{"reached", "127.0.0.1", int32(open.Addr().(*net.TCPAddr).Port), true, false, "can be reached"},
		{"nobody there", "127.0.0.1", int32(testport.Reserve(t)), true, true, "connection refused"},
		{"no such name", "broker.invalid", 9092, true, true, "cannot be resolved"},
		{"the client's own machine", "localhost", int32(open.Addr().(*net.TCPAddr).Port), false, true, "the client's own machine"},
	} {
		d := &doctor{}
		d.listener(t.Context(), kmsg.MetadataResponseBroker{NodeID: 1, Host: test.host, Port: test.port}, test.local)
		if f := d.diagnosis.Findings[0]; f.Trouble != test.trouble || !strings.Contains(f.Says, test.says) || f.Trouble != (f.Do != "") {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
	if allLoopback([]string{"localhost:1", "10.0.0.1:2"}) || !allLoopback([]string{"localhost:1", "[::1]:2"}) {
		t.Error("allLoopback must hold only if all of the addresses are loopback")
	}
}

func TestFates(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	old, young := now.Add(-2*time.Hour).UnixMilli(), now.Add(-time.Minute).UnixMilli()
	k := retentionPolicy{ms: time.Hour.Milliseconds(), bytes: -1, check: 5 * time.Minute}
	expired := now.Add(-time.Hour - time.Minute).UnixMilli()
	for _, test := range []struct {
		name     string
		segments []segmentSeen
		keep     retentionPolicy
		want     []string // the words of each segment, beginning with ! for trouble
	}{
		{"young", []segmentSeen{{0, 10, young}}, k, []string{"is deleted after"}},
		{"due", []segmentSeen{{0, 10, expired}, {5, 0, 0}}, k, []string{"is deleted at the next check", "is empty"}},
		{"overdue", []segmentSeen{{0, 10, old}}, k, []string{"!should have been deleted"}},
		{"behind a young one", []segmentSeen{{0, 10, young}, {5, 10, old}}, k, []string{"is deleted after", "is due but stays, since the earlier segment at 0"}},
		{"the future", []segmentSeen{{0, 10, now.UnixMilli() + 1}, {5, 10, old}}, k, []string{"!a timestamp in the future", "is due but stays"}},
		{"any age", []segmentSeen{{0, 10, old}}, retentionPolicy{ms: -1, bytes: -1}, []string{"stays: retention.ms=-1"}},
		{"too much", []segmentSeen{{0, 10, young}, {5, 10, young}}, retentionPolicy{ms: -1, bytes: 10}, []string{"exceeds retention.bytes=10", "stays"}},
	} {
		for i, f := range retentionOutcomes(test.segments, test.keep, now) {
			words, trouble := strings.CutPrefix(test.want[i], "!")
			if !strings.Contains(f.says, words) || f.trouble != trouble || f.trouble != (f.do != "") {
				t.Errorf("%s, segment %d: %+v", test.name, i, f)
			}
		}
	}
}

// What a file has behind its last batch does not count: preallocated space, or the beginning of a batch that is longer.
func TestSegmentThatIsWrittenTo(t *testing.T) {
	const newest = 1_500_000_000_000
	w := record.NewBuilder()
	w.Add(newest, nil, []byte("v"))
	data := w.MustBuild()
	size := int64(len(data))
	begun := binary.BigEndian.AppendUint32(make([]byte, 8), 1<<30)
	for _, behind := range [][]byte{nil, make([]byte, 5000), append(begun, make([]byte, 5000)...), begun} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "00000000000000000000.log"), append(data, behind...), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readSegments(dir)
		if want := []segmentSeen{{0, size, newest}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("with %d bytes behind: %+v, %v; want %+v", len(behind), got, err, want)
		}
	}
}

// TestSegmentOfOldMessages reads the timestamps of messages as brokers do, also of the last one, which is shorter than the
// header of a batch.
func TestSegmentOfOldMessages(t *testing.T) {
	const newest = 1_500_000_000_000
	data := record.AppendMessage(nil, 1, 0, newest-1, nil, bytes.Repeat([]byte("v"), 100))
	data = record.AppendMessage(data, 1, 1, newest, nil, nil)
	size := int64(len(data))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "00000000000000000000.log"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readSegments(dir)
	if want := []segmentSeen{{0, size, newest}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestUncompacted(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	segments := []segmentSeen{{0, 100, now.UnixMilli() - 5000}, {10, 100, now.UnixMilli() - 1000}, {20, 100, now.UnixMilli()}}
	for _, test := range []struct {
		name     string
		segments []segmentSeen
		c        compacting
		want     string
	}{
		{"one segment", segments[2:], compacting{0.5, 0, -1}, "has only the active segment"},
		{"never", segments, compacting{0.5, 0, -1}, "as soon as a cleaner thread is free"},
		{"half", segments, compacting{0.5, 0, 10}, "waits for more"},
		{"all", segments, compacting{0.5, 0, 20}, "has been compacted"},
		{"young", segments, compacting{0.5, time.Minute, -1}, "the segment at 0 and those after it have records younger than min.compaction.lag.ms=60000"},
		{"in part young", segments, compacting{0.5, 2 * time.Second, -1}, "as soon as a cleaner thread is free"},
	} {
		if got := uncompacted(test.segments, test.c, now); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}

// soundTree has a broker, a topic and its ACLs.
func soundTree() znodes {
	z := make(znodes)
	for path, data := range map[string]string{
		"/brokers": "", "/brokers/ids/1": `{"version":5,"endpoints":["PLAINTEXT://a:1"]}`, "/controller": `{"brokerid":1,"kraftControllerEpoch":-1}`,
		"/controller_epoch": "3", "/brokers/topics/t": `{"topic_id":"AAAAAAAAQACAAAAAAAAAAQ","partitions":{"0":[1]},"version":3}`, "/config/topics/t": `{"version":1,"config":{}}`, "/config/brokers/1": "", "/latest_producer_id_block": "",
		"/config/changes/config_change_0000000000": `{"version":1,"entity_type":"topics","entity_name":"t"}`, "/brokers/topics/t/partitions/0": "",
		"/brokers/topics/t/partitions/0/state": `{"controller_epoch":3,"leader":1,"leader_epoch":0,"isr":[1]}`,
		"/kafka-acl":                           "", "/kafka-acl/Group": "", "/kafka-acl/Group/*": `{"acls":[{"principal":"User:a","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}`,
		"/kafka-acl-changes/acl_changes_0000000000":          "GROUP:*",
		"/kafka-acl-extended-changes/acl_changes_0000000000": `{"version":1,"resourceType":"TOPIC","name":"pre-","patternType":"PREFIXED"}`,
	} {
		z[path] = znode{data: []byte(data), stat: &zk.Stat{}}
	}
	return z
}

const partitionState = "/brokers/topics/t/partitions/0/state"

// treeFault is a node that is wrong, and what is said about it.
type treeFault struct{ name, path, data, want string }

const missingNode = "-" // in place of data

// said examines a tree with the fault. trouble tells whether it is reported as such.
func (f treeFault) said() (text string, trouble bool) {
	z := soundTree()
	z[f.path] = znode{data: []byte(f.data), stat: &zk.Stat{}}
	if f.data == missingNode {
		delete(z, f.path)
	}
	d := &doctor{now: time.UnixMilli(1_790_000_000_000)}
	d.examineTree(z)
	return fmt.Sprint(d.diagnosis.Findings), d.diagnosis.Trouble
}

func TestSoundTree(t *testing.T) {
	d := &doctor{now: time.UnixMilli(1_790_000_000_000)}
	d.examineTree(soundTree())
	if said := fmt.Sprint(d.diagnosis.Findings); d.diagnosis.Trouble || !strings.Contains(said, "1 broker, 1 topic and 1 partition are sound") {
		t.Error(said)
	}
}

// TestHarmlessFault: what Apache Kafka itself leaves behind is mentioned, but not as trouble.
func TestHarmlessFault(t *testing.T) {
	f := treeFault{"settings of no topic", "/config/topics/u", "{}", "a topic that does not exist"}
	if said, trouble := f.said(); trouble || !strings.Contains(said, f.want) {
		t.Error(said)
	}
}

// TestTrees examines trees with one fault each.
func TestTrees(t *testing.T) {
	for group, faults := range map[string][]treeFault{
		"the controller": {
			{"no controller", "/controller", missingNode, "there is no controller"},
			{"a controller that is gone", "/controller", `{"brokerid":7}`, "broker 7 is the controller but is not registered"},
			{"a KRaft controller", "/controller", `{"brokerid":3000,"kraftControllerEpoch":4}`, "a migration is under way"},
			{"no epoch", "/controller_epoch", "x", "is not a number"},
			{"an epoch set back", "/controller_epoch", "2", "above /controller_epoch 2"},
			{"no controller epoch", "/controller_epoch", missingNode, "is missing"},
			{"a broken controller", "/controller", "{}", "brokerid is missing"},
		},
		"registrations": {
			{"a broken registration", "/brokers/ids/1", `{"endpoints":["PLAINTEXT://a:1"]}`, "version is missing"},
			{"a broken endpoint", "/brokers/ids/1", `{"version":5,"endpoints":["a:1"]}`, `"a:1" has no listener name`},
			{"a registration of nobody", "/brokers/ids/x", `{"version":5,"endpoints":["A://a:1"]}`, `"x" is not a number`},
			{"an old registration", "/brokers/ids/1", `{"version":4,"endpoints":["PLAINTEXT://a:1"]}`, "is registered in format 4"},
		},
		"topics and partitions": {
			{"a broken topic", "/brokers/topics/t", "{", "cannot be read"},
			{"a topic without id", "/brokers/topics/t", `{"partitions":{"0":[1]}}`, "1 topic without a topic_id"},
			{"a broker that is not there", "/brokers/topics/t", `{"topic_id":"AAAAAAAAQACAAAAAAAAAAQ","partitions":{"0":[1,9]}}`, "has replicas of 1 topic and is not registered"},
			{"a move", "/brokers/topics/t", `{"topic_id":"AAAAAAAAQACAAAAAAAAAAQ","partitions":{"0":[1]},"adding_replicas":{"0":[1]}}`, "a reassignment of partition 0"},
			{"no state", partitionState, missingNode, "is missing"},
			{"a broken state", partitionState, "[", "cannot be read"},
			{"no leader", partitionState, `{"controller_epoch":3,"leader":-1,"leader_epoch":0,"isr":[1]}`, "has no leader"},
			{"a leader that is gone", partitionState, `{"controller_epoch":3,"leader":8,"leader_epoch":0,"isr":[1]}`, "its leader 8 is not registered"},
			{"a leader out of sync", partitionState, `{"controller_epoch":3,"leader":1,"leader_epoch":0,"isr":[]}`, "is not in the ISR"},
			{"a stranger in sync", partitionState, `{"controller_epoch":3,"leader":1,"leader_epoch":0,"isr":[1,5]}`, "has 5 in the ISR"},
			{"a state without its ISR", partitionState, `{"controller_epoch":3,"leader":1,"leader_epoch":0}`, "isr is missing"},
			{"a topic with a broken id", "/brokers/topics/t", `{"topic_id":"x","partitions":{"0":[1]}}`, "not a UUID"},
			{"a topic without partitions", "/brokers/topics/t", `{"topic_id":"AAAAAAAAQACAAAAAAAAAAQ"}`, "partitions is missing"},
			{"a partition that is not a number", "/brokers/topics/t", `{"topic_id":"AAAAAAAAQACAAAAAAAAAAQ","partitions":{"a":[1]}}`, `not a partition: "a"`},
			{"a partition without replicas", "/brokers/topics/t", `{"topic_id":"AAAAAAAAQACAAAAAAAAAAQ","partitions":{"0":[]}}`, "partition 0 has no replica"},
			{"a node beside the partitions", "/brokers/topics/t/partitions/x", "", `"x" is not a number`},
			{"a partition too many", "/brokers/topics/t/partitions/7", "", "is not a partition of the topic"},
		},
		"requests of administrators": {
			{"a deletion", "/admin/delete_topics/t", "", "is to be deleted but still exists"},
			{"a deletion of nothing", "/admin/delete_topics/u", "", "the topic does not exist"},
			{"an old request", "/admin/reassign_partitions", `{"version":1}`, "is a legacy request"},
			{"a broken old request", "/admin/reassign_partitions", "x", "cannot be read"},
			{"a broken old election", "/admin/preferred_replica_election", "", "it is empty"},
		},
		"settings, quotas and passwords": {
			{"broken settings of a topic", "/config/topics/t", "{", "/config/topics/t true cannot be read"},
			{"a setting that is no text", "/config/topics/t", `{"version":1,"config":{"retention.ms":5}}`, "cannot be read"},
			{"broken settings of a broker", "/config/brokers/1", "[]", "cannot be read"},
			{"broken settings of all brokers", "/config/brokers/<default>", `{"config":7}`, "cannot be read"},
			{"settings of no broker", "/config/brokers/one", `{"version":1,"config":{}}`, `"one" is not a number`},
			{"a setting that brokers ignore", "/config/brokers/1", `{"version":1,"config":{"num.partitions":"3"}}`, "brokers ignore a setting"},
			{"broken settings of a user", "/config/users/alice", "x", "cannot be read"},
			{"a broken password of a user", "/config/users/alice", `{"version":1,"config":{"SCRAM-SHA-256":"salt=x"}}`, "nobody can log in with SCRAM-SHA-256"},
			{"broken quotas of a user's client", "/config/users/alice/clients/c", "x", "cannot be read"},
			{"broken quotas of a client", "/config/clients/c", "x", "cannot be read"},
			{"broken quotas of an address", "/config/ips/10.0.0.1", "x", "cannot be read"},
		},
		"delegation tokens": {
			{"a broken token", "/delegation_token/tokens/x", `{"version":9}`, "version 9 is not known"},
			{"a note of a token of another name", "/delegation_token/token_changes/x", "x", "its name is not token_change_ followed by a number"},
		},
		"ACLs": {
			{"broken ACLs", "/kafka-acl/Topic/t", `{"version":1,`, "cannot be read"},
			{"ACLs of an operation that there is not", "/kafka-acl/Topic/*", `{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","host":"*","operation":"Fly"}]}`,
				`operation "Fly" is not known`},
			{"broken ACLs of a prefix", "/kafka-acl-extended/prefixed/Topic/p", `{"version":2,"acls":[]}`, "version 2 is not known"},
			{"a broken change of ACLs", "/kafka-acl-changes/acl_changes_0000000001", "t", "is not TYPE:NAME"},
			{"a broken change of ACLs of a prefix", "/kafka-acl-extended-changes/acl_changes_0000000001", "TOPIC:t", "cannot be read"},
			{"a change of ACLs of another name", "/kafka-acl-changes/x", "TOPIC:t", "its name is not acl_changes_ followed by a number"},
		},
		"notifications": {
			{"a notification", "/isr_change_notification/isr_change_0000000001", "", "has not been handled"},
			{"a broken change", "/config/changes/config_change_0000000001", `{"version":2}`, "it names no settings"},
			{"a change of another name", "/config/changes/x", `{"version":2,"entity_path":"topics/t"}`, "its name is not config_change_ followed by a number"},
			{"a change of a version to come", "/config/changes/config_change_0000000001", `{"version":3,"entity_path":"topics/t"}`, "version 3 is not known"},
			{"a broken notification", "/isr_change_notification/isr_change_0000000001", "x", "cannot be read"},
			{"a broken event", "/log_dir_event_notification/log_dir_event_0000000001", "{}", "broker is missing"},
		},
		"the cluster as a whole": {
			{"a broken cluster id", "/cluster/id", "x", "cannot be read"},
			{"broken features", "/feature", "x", "cannot be read"},
			{"broken producer ids", "/latest_producer_id_block", `{"block_start":"0","block_end":"x"}`, `not a whole number: "x"`},
			{"a migration", "/migration", "{}", "a migration has begun"},
		},
	} {
		t.Run(group, func(t *testing.T) {
			for _, f := range faults {
				if said, trouble := f.said(); !trouble || !strings.Contains(said, f.want) {
					t.Errorf("%s: %s", f.name, said)
				}
			}
		})
	}
}

func TestDoctorThatCannotAsk(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(file, []byte("default.api.timeout.ms=300\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		code int
	}{
		{"", 2}, {"--help", 0}, {"--version", 0}, {"health", 2}, {"retention", 2}, {"listeners", 2}, {"group a b", 2},
		{"listeners --bootstrap-server 127.0.0.1:1 --command-config " + file, 2},
	} {
		if out := runTool(t, t.Context(), "", "kafka-doctor", strings.Fields(test.args)...); out.code != test.code {
			t.Errorf("%q: %+v", test.args, out)
		}
	}
}

// TestDoctorOnDeadBrokers: a broker that is still registered but does not answer is reported, and does not keep the
// doctor from its other findings.
func TestDoctorOnDeadBrokers(t *testing.T) {
	t.Parallel()
	d := doctorFor(t, kafkatest.Setting("offsets.topic.num.partitions", "1"))
	host, port, err := net.SplitHostPort(testport.Address(t))
	d.must(err)
	registration := fmt.Sprintf(`{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://%s:%s"],"jmx_port":-1,"features":{},"host":"%s","timestamp":"1","port":%s,"version":5}`,
		host, port, host, port)
	if out := runTool(t, t.Context(), "", "zookeeper-shell", d.ZooKeeper(), "create", "/brokers/ids/9", registration); out.code != 0 {
		t.Fatal(out.stderr)
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		meta, err := fetchMetadata(t.Context(), d.cl)
		d.must(err)
		if alive(meta, 9) {
			break
		}
	}
	d.placed("__consumer_offsets", []int32{9})
	d.ask("reassignment", 1, "broker 9: is registered but cannot be reached", "none is under way")
	d.ask("listeners", 1, "broker 9: clients are told to connect to")
	d.ask("group g", 1, "its coordinator cannot be reached")
}
