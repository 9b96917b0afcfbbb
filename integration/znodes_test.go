package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// changesDir contains files that describe how the znodes of a cluster of Apache Kafka change, step by step.
const changesDir = "testdata/znodes"

// clusterMember is a broker of the cluster whose znodes are compared.
type clusterMember interface {
	start()
	stop()
	kill()
	send(syscall.Signal)
	pid() int
	addr() string
}

// znodes is a cluster of three brokers that goes through typical operations and failures.
type znodes struct {
	t       *testing.T
	conn    *zk.Conn
	members []clusterMember
	dirs    [2]string // log.dirs of broker 2
	client  *kgo.Client
	admin   *kadm.Client
	tree    map[string]string
	want    map[string]string // changes by step; nil: they are being recorded
	steps   strings.Builder
}

func newZnodes(t *testing.T, want map[string]string, cluster []string, broker func(id int, zookeeper string, settings ...string) clusterMember) *znodes {
	t.Helper()
	server := zookeeper(t)
	conn, _, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	z := &znodes{t: t, conn: conn, want: want, tree: make(map[string]string)}
	dirs, logDirs := twoDirs(t)
	z.dirs = dirs
	var addrs []string
	for id := range 3 {
		settings := append(slices.Clone(cluster), fmt.Sprintf("broker.rack=r%d", id),
			"auto.leader.rebalance.enable=false", "auto.create.topics.enable=false", "controlled.shutdown.retry.backoff.ms=100",
			"replica.high.watermark.checkpoint.interval.ms=500", "replica.fetch.max.bytes=20000", "offsets.topic.replication.factor=1")
		if id == 2 {
			settings = append(settings, logDirs)
		}
		m := broker(id, server, settings...)
		z.members, addrs = append(z.members, m), append(addrs, m.addr())
	}
	z.client, err = kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.MetadataMinAge(20*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DisableIdempotentWrite(), kgo.ProducerBatchMaxBytes(30000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.client.Close)
	z.admin = kadm.NewClient(z.client)
	return z
}

func (z *znodes) must(err error) {
	z.t.Helper()
	if err != nil {
		z.t.Fatal(err)
	}
}

// look compares the changes since the last look with those of Apache Kafka, and waits until they are the same.
func (z *znodes) look(step string) {
	z.t.Helper()
	if z.want == nil {
		z.record(step)
		return
	}
	want, known := z.want[step]
	if !known {
		z.t.Fatalf("%s has no file with a step %q", changesDir, step)
	}
	var now map[string]string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		now = z.read()
		if changes(z.tree, now) == want {
			z.tree = now
			return
		}
	}
	z.t.Errorf("%s: changes of Apache Kafka's znodes (-) and ours (+)\n%s", step, cmp.Diff(strings.Split(want, "\n"), strings.Split(changes(z.tree, now), "\n")))
	z.tree = now
}

// record records the changes once nothing has changed for a while.
func (z *znodes) record(step string) {
	now := z.read()
	for since := time.Now(); time.Since(since) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
		if next := z.read(); !maps.Equal(now, next) {
			now, since = next, time.Now()
		}
	}
	fmt.Fprintf(&z.steps, "== %s\n%s\n", step, changes(z.tree, now))
	z.tree = now
}

func (z *znodes) read() map[string]string {
	tree := make(map[string]string)
	var walk func(path string) error
	walk = func(path string) error {
		data, stat, err := z.conn.Get(path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		kind := "persistent"
		if stat.EphemeralOwner != 0 {
			kind = "ephemeral"
		}
		tree[path] = kind + " " + maskCluster(path, data)
		children, _, err := z.conn.Children(path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		for _, child := range children {
			err = errors.Join(err, walk(strings.TrimSuffix(path, "/")+"/"+child))
		}
		return err
	}
	z.must(walk("/"))
	maps.DeleteFunc(tree, func(path, _ string) bool { return path == "/" || strings.HasPrefix(path, "/zookeeper") })
	return tree
}

var secrets = regexp.MustCompile(`(salt|stored_key|server_key)=[^,"]*`)

// maskCluster is maskNode for a cluster, in which it is random who the controller is.
func maskCluster(path string, data []byte) string {
	if path == "/controller" {
		return "who is the controller"
	}
	return secrets.ReplaceAllString(maskNode(data), "$1=masked")
}

// changes lists new, changed and removed nodes.
func changes(before, after map[string]string) string {
	var lines []string
	for path, data := range after {
		switch was, known := before[path]; {
		case !known:
			lines = append(lines, path+" new "+data)
		case was != data:
			lines = append(lines, path+" now "+data)
		}
	}
	for path := range before {
		if _, there := after[path]; !there {
			lines = append(lines, path+" gone")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// readChanges reads a file of changesDir.
func readChanges(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps := make(map[string]string)
	for section := range strings.SplitSeq(string(text), "== ") {
		if name, lines, found := strings.Cut(section, "\n"); found {
			steps[name] = strings.TrimSuffix(lines, "\n")
		}
	}
	return steps
}

// create creates a topic with these replicas, by partition.
func (z *znodes) create(topic string, settings map[string]string, replicas ...[]int32) {
	z.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	for p, on := range replicas {
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(p), Replicas: on})
	}
	for key, value := range settings {
		rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: &value})
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(z.t.Context(), z.client)
	z.must(err)
	z.must(kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	until(z.t, topic+" is known to all", func(ctx context.Context) bool {
		for _, m := range z.members {
			req := kmsg.NewPtrMetadataRequest()
			req.Version = 9
			req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
			resp := dialWire(z.t, m.addr()).call(req).(*kmsg.MetadataResponse)
			if resp.Topics[0].ErrorCode != 0 || len(resp.Topics[0].Partitions) != len(replicas) {
				return false
			}
		}
		return true
	})
}

func (z *znodes) addPartition(topic string, count int32, replicas []int32) {
	z.t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 30_000
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, count
	rt.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: replicas}}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(z.t.Context(), z.client)
	z.must(err)
	z.must(kerr.ErrorForCode(resp.Topics[0].ErrorCode))
}

func (z *znodes) delete(topic string) {
	z.t.Helper()
	_, err := z.admin.DeleteTopic(z.t.Context(), topic)
	if !errors.Is(err, kerr.RequestTimedOut) { // expected while a replica's broker is away
		z.must(err)
	}
}

func (z *znodes) elect() {
	z.t.Helper()
	_, err := z.admin.ElectLeaders(z.t.Context(), kadm.ElectPreferredReplica, nil)
	z.must(err)
}

func (z *znodes) reassign(topic string, replicas ...int32) {
	z.t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 30_000
	rt, rp := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	rp.Replicas = replicas
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(z.t.Context(), z.client)
	z.must(err)
	z.must(kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
}

// alter sets a setting of a topic or broker, or removes it. An empty broker name means the default for all.
func (z *znodes) alter(kind kmsg.ConfigResourceType, name, key string, value *string) {
	z.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r, c := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	r.ResourceType, r.ResourceName = kind, name
	c.Name, c.Value = key, value
	if value == nil {
		c.Op = kmsg.IncrementalAlterConfigOpDelete
	}
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(z.t.Context(), z.client)
	z.must(err)
	z.must(kerr.ErrorForCode(resp.Resources[0].ErrorCode))
}

// quota sets a quota, or removes it if value is 0. kinds and names alternate in entity; an empty name means the
// default.
func (z *znodes) quota(key string, value float64, entity ...string) {
	z.t.Helper()
	entry := kadm.AlterClientQuotaEntry{Ops: []kadm.AlterClientQuotaOp{{Key: key, Value: value, Remove: value == 0}}}
	for i := 0; i < len(entity); i += 2 {
		c := kadm.ClientQuotaEntityComponent{Type: entity[i]}
		if entity[i+1] != "" {
			c.Name = &entity[i+1]
		}
		entry.Entity = append(entry.Entity, c)
	}
	altered, err := z.admin.AlterClientQuotas(z.t.Context(), []kadm.AlterClientQuotaEntry{entry})
	z.must(err)
	z.must(altered[0].Err)
}

func (z *znodes) put(path, data string) {
	z.t.Helper()
	_, err := z.conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	z.must(err)
}

func (z *znodes) awaitNode(path string, there bool) {
	z.t.Helper()
	until(z.t, fmt.Sprintf("%s there: %v", path, there), func(context.Context) bool {
		now, _, err := z.conn.Exists(path)
		return err == nil && now == there
	})
}

// pause returns when all threads of a broker are stopped.
func (z *znodes) pause(id int) {
	z.t.Helper()
	z.members[id].send(syscall.SIGSTOP)
	until(z.t, fmt.Sprintf("broker %d is paused", id), func(context.Context) bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", z.members[id].pid()))
		z.must(err)
		return !slices.ContainsFunc(threads, func(file string) bool {
			stat, err := os.ReadFile(file)
			_, after, _ := strings.Cut(string(stat), ") ")
			return err != nil || !strings.HasPrefix(after, "T")
		})
	})
}

// gone waits until a broker's session has expired.
func (z *znodes) gone(id int) { z.awaitNode(fmt.Sprint("/brokers/ids/", id), false) }

// leader returns the leader of partition 0 of a topic.
func (z *znodes) leader(topic string) int32 {
	data, _, err := z.conn.Get("/brokers/topics/" + topic + "/partitions/0/state")
	var state struct {
		Leader int32 `json:"leader"`
	}
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	z.must(err)
	return state.Leader
}

// write returns when all in-sync replicas have the records: the high watermark is at the end, and no replica that has
// yet to fetch them is considered in sync.
func (z *znodes) write(topic string, partition int32, records int) {
	z.t.Helper()
	for range records {
		r := &kgo.Record{Topic: topic, Partition: partition, Key: []byte("k"), Value: make([]byte, 15000)}
		z.must(z.client.ProduceSync(z.t.Context(), r).FirstErr())
	}
}

// live is the sequence of operations and failures, with a comparison after each.
func (z *znodes) live() {
	z.begin()
	z.brokersComeAndGo()
	z.reassignments()
	z.settings()
	z.deletions()
	z.uncleanElection()
	z.directoryFails()
	z.controllers()
}

func (z *znodes) startAll() {
	z.members[0].start() // so it becomes the controller
	z.awaitNode("/controller", true)
	z.members[1].start()
	z.members[2].start()
	z.look("three brokers")
}

func (z *znodes) begin() {
	z.startAll()
	z.create("t", map[string]string{"cleanup.policy": "compact", "retention.ms": "1000000"}, []int32{0, 1, 2}, []int32{1, 2, 0}, []int32{2, 0, 1})
	z.create("solo", nil, []int32{2})
	z.create("pair", nil, []int32{1, 2})
	z.create("risky", nil, []int32{1, 2})
	z.create("doomed", nil, []int32{0, 1, 2})
	z.look("topics are created")
	z.addPartition("t", 4, []int32{2, 0, 1})
	z.look("a partition is added")
	z.create("short", nil, []int32{0, 1})
	z.delete("short")
	z.look("a topic came and went")
}

func (z *znodes) brokersComeAndGo() {
	z.members[2].kill()
	z.gone(2)
	z.look("broker 2 was killed")
	z.members[2].start()
	z.look("broker 2 is back")
	z.members[1].stop()
	z.look("broker 1 has stopped")
	z.members[1].start()
	z.look("broker 1 is back")
	z.elect()
	z.look("preferred leaders were elected")
	z.pause(1)
	z.gone(1)
	z.look("broker 1 is paused past its session")
	z.members[1].send(syscall.SIGCONT)
	z.look("broker 1 goes on")
	z.put("/admin/preferred_replica_election", `{"version":1,"partitions":[{"topic":"t","partition":1},{"topic":"t","partition":9},{"topic":"pair","partition":0}]}`)
	z.look("a znode asked for preferred leaders")
	z.elect()
	z.look("the others were elected, too")
}

func (z *znodes) reassignments() {
	throttle := func(value *string) {
		for _, key := range []string{"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"} {
			all := new("*")
			if value == nil {
				all = nil
			}
			z.alter(kmsg.ConfigResourceTypeTopic, "pair", key, all)
		}
		for _, broker := range []string{"0", "1", "2"} {
			z.alter(kmsg.ConfigResourceTypeBroker, broker, "follower.replication.throttled.rate", value)
		}
	}
	z.write("pair", 0, 20)
	throttle(new("100"))
	for id := range int32(3) { // brokers are told of changes in order: where this one is known, so are the others
		until(z.t, fmt.Sprintf("broker %d is throttled", id), func(ctx context.Context) bool {
			found, err := z.admin.DescribeBrokerConfigs(ctx, id)
			return err == nil && slices.ContainsFunc(found[0].Configs, func(c kadm.Config) bool {
				return c.Key == "follower.replication.throttled.rate" && c.MaybeValue() == "100"
			})
		})
	}
	z.look("replication is throttled")
	z.reassign("pair", 1, 0)
	z.look("a reassignment runs")
	z.reassign("pair")
	z.look("it was cancelled")
	z.reassign("pair", 0, 1)
	z.look("a reassignment to another leader runs")
	z.reassign("pair", 0, 2)
	z.look("it has another target")
	throttle(nil)
	until(z.t, "broker 0 leads", func(context.Context) bool { return z.leader("pair") == 0 })
	z.look("it has come to its end")
	z.put("/admin/reassign_partitions", `{"version":1,"partitions":[{"topic":"solo","partition":0,"replicas":[1]}]}`)
	z.awaitNode("/admin/reassign_partitions", false)
	z.look("a znode asked for a reassignment")
	z.put("/admin/reassign_partitions", `{"version":1,"partitions":[{"topic":"unknown","partition":0,"replicas":[1]}]}`)
	z.awaitNode("/admin/reassign_partitions", false)
	z.look("a znode asked for one of an unknown topic")
	z.reassign("pair", 2, 0)
	z.look("the order of replicas has changed")
}

func (z *znodes) settings() {
	z.alter(kmsg.ConfigResourceTypeTopic, "t", "retention.ms", new("2000000"))
	z.alter(kmsg.ConfigResourceTypeBroker, "1", "log.cleaner.threads", new("2"))
	z.alter(kmsg.ConfigResourceTypeBroker, "", "log.cleaner.threads", new("1"))
	z.look("settings were altered")
	z.alter(kmsg.ConfigResourceTypeTopic, "t", "retention.ms", nil)
	z.alter(kmsg.ConfigResourceTypeBroker, "1", "log.cleaner.threads", nil)
	z.alter(kmsg.ConfigResourceTypeBroker, "", "log.cleaner.threads", nil)
	z.look("settings were removed")
	odd := "CN=bob,O=a/b &% é*"
	z.quota("producer_byte_rate", 1024, "user", odd)
	z.quota("consumer_byte_rate", 2048, "user", "")
	z.quota("request_percentage", 50.5, "client-id", "c1")
	z.quota("producer_byte_rate", 10, "client-id", "")
	z.quota("controller_mutation_rate", 3, "user", odd, "client-id", "c1")
	z.quota("producer_byte_rate", 11, "user", "", "client-id", "")
	z.quota("connection_creation_rate", 1000, "ip", "127.0.0.1")
	z.quota("connection_creation_rate", 2000, "ip", "")
	z.look("quotas were set")
	z.quota("producer_byte_rate", 0, "user", odd)
	z.quota("controller_mutation_rate", 0, "user", odd, "client-id", "c1")
	z.quota("consumer_byte_rate", 0, "user", "")
	z.quota("connection_creation_rate", 0, "ip", "127.0.0.1")
	z.look("quotas were removed")
	scram := kadm.UpsertSCRAM{User: "alice", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret"}
	_, err := z.admin.AlterUserSCRAMs(z.t.Context(), nil, []kadm.UpsertSCRAM{scram})
	z.must(err)
	z.look("a user has a password")
	_, err = z.admin.AlterUserSCRAMs(z.t.Context(), []kadm.DeleteSCRAM{{User: "alice", Mechanism: kadm.ScramSha256}}, nil)
	z.must(err)
	z.look("the user has none any more")
	until(z.t, "a producer id", func(context.Context) bool {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionTimeoutMillis = 4, 1000
		return dialWire(z.t, z.members[1].addr()).call(req).(*kmsg.InitProducerIDResponse).ErrorCode == 0
	})
	z.look("a producer has got an id")
}

func (z *znodes) deletions() {
	z.members[2].stop()
	z.look("broker 2 has stopped")
	z.delete("doomed")
	z.look("a topic is deleted while a replica is away")
	z.members[2].start()
	z.look("the replica's broker is back")
	if ours, ok := z.members[2].(*process); ok && strings.Contains(ours.log(), "has not told of the cluster yet") {
		z.t.Error("the broker waited for the metadata of a topic that was deleted meanwhile")
	}
}

func (z *znodes) uncleanElection() {
	z.members[2].stop()
	z.members[1].stop()
	z.look("the last replica in sync has left")
	z.members[2].start()
	z.look("a replica out of sync is back")
	z.alter(kmsg.ConfigResourceTypeTopic, "risky", "unclean.leader.election.enable", new("true"))
	z.look("unclean election is allowed")
	z.members[1].start()
	z.look("the replica that had been in sync is back")
}

// directoryFails moves one partition of broker 2 alone into a directory, and makes that read-only.
func (z *znodes) directoryFails() {
	z.create("elsewhere", nil, []int32{2, 1, 0})
	z.look("one more topic")
	z.elect()
	z.look("preferred leaders again")
	found, err := z.admin.DescribeBrokerLogDirs(z.t.Context(), 2, nil)
	z.must(err)
	moves := make(kadm.AlterReplicaLogDirsReq)
	for _, d := range found {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			to := z.dirs[0]
			if p.Topic == "elsewhere" {
				to = z.dirs[1]
			}
			moves.Add(to, kadm.TopicsSet{p.Topic: {p.Partition: {}}})
		})
	}
	_, err = z.admin.AlterBrokerReplicaLogDirs(z.t.Context(), 2, moves)
	z.must(err)
	until(z.t, "the replicas are where they shall be", func(ctx context.Context) bool {
		found, err := z.admin.DescribeBrokerLogDirs(ctx, 2, nil)
		return err == nil && len(found[z.dirs[1]].Topics) == 1 && len(found[z.dirs[0]].Topics) == len(moves[z.dirs[0]])
	})
	z.look("replicas moved between directories")
	undo := readOnly(z.t, z.dirs[1])
	until(z.t, "another leads", func(context.Context) bool { return z.leader("elsewhere") == 1 })
	z.look("a directory has failed")
	z.members[2].stop()
	undo()
	z.members[2].start()
	z.look("the directory is back")
}

func (z *znodes) controllers() {
	z.members[0].kill()
	z.gone(0)
	z.look("the controller was killed")
	z.members[0].start()
	z.look("the former controller is back")
	z.must(z.conn.Delete("/controller", -1))
	z.awaitNode("/controller", true)
	z.look("the controller's znode was deleted")
}

// lag lets a follower fall behind and catch up. Records are acknowledged once the follower has left the ISR.
func (z *znodes) lag() {
	z.beginLag()
	z.followerLags()
}

func (z *znodes) beginLag() {
	z.startAll()
	z.create("t", nil, []int32{0, 1, 2})
	z.create("pair", nil, []int32{1, 2})
	z.look("topics are created")
	z.write("t", 0, 1) // from now on the client knows the leaders, and asks no paused broker
	z.write("pair", 0, 1)
}

func (z *znodes) followerLags() {
	z.pause(2)
	z.write("t", 0, 1)
	z.write("pair", 0, 1)
	z.look("broker 2 lags behind")
	z.members[2].send(syscall.SIGCONT)
	z.look("it has caught up")
}

// lagUnseen is lag where leaders write the ISR to ZooKeeper themselves, even while the controller is not listening.
func (z *znodes) lagUnseen() {
	z.beginLag()
	z.followerLags()
	z.pause(0)
	z.pause(2)
	z.write("pair", 0, 1)
	until(z.t, "the controller is told", func(context.Context) bool {
		told, _, err := z.conn.Children("/isr_change_notification")
		return err == nil && len(told) > 0
	})
	z.look("broker 2 lags behind while the controller is paused")
	z.members[0].send(syscall.SIGCONT)
	z.look("the controller goes on")
	z.members[2].send(syscall.SIGCONT)
	z.look("broker 2 has caught up again")
}

// steady is for histories in which no follower leaves the ISR and brokers' sessions expire soon.
var steady = []string{"replica.lag.time.max.ms=60000", "zookeeper.session.timeout.ms=6000"}

// impatient is for histories in which followers leave the ISR, and brokers are paused for less than their sessions
// last.
var impatient = []string{"replica.lag.time.max.ms=4000", "zookeeper.session.timeout.ms=30000"}

const protocol26 = "inter.broker.protocol.version=2.6"

// TestZnodesOfACluster compares the znodes of three of our brokers, and how they change from step to step, with those
// of Apache Kafka, except for ids and times. ZNODES=peer runs three brokers of Apache Kafka instead, and ZNODES=record
// records what they do.
func TestZnodesOfACluster(t *testing.T) {
	mode := os.Getenv("ZNODES")
	if mode == "" {
		t.Parallel() // three brokers of Apache Kafka at a time are enough
	}
	for _, history := range []struct {
		name     string
		settings []string
		live     func(*znodes)
	}{
		{"life", steady, (*znodes).live},
		{"lag", impatient, (*znodes).lag},
		{"life-2.6", append([]string{protocol26}, steady...), (*znodes).live},
		{"lag-2.6", append([]string{protocol26}, impatient...), (*znodes).lagUnseen},
	} {
		t.Run(history.name, func(t *testing.T) {
			if mode == "" {
				t.Parallel()
			}
			file := filepath.Join(changesDir, history.name+".txt")
			var want map[string]string
			if mode != "record" {
				want = readChanges(t, file)
			}
			z := newZnodes(t, want, history.settings, func(id int, zookeeper string, settings ...string) clusterMember {
				if mode != "" {
					return newPeer(t, id, zookeeper, settings...)
				}
				return newProcess(t, id, zookeeper, settings...)
			})
			history.live(z)
			if mode == "record" {
				z.must(os.MkdirAll(changesDir, 0o755))
				z.must(os.WriteFile(file, []byte(z.steps.String()), 0o644))
			}
		})
	}
}
