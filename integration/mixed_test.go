package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const guest = 3 // id of Apache Kafka's broker in our cluster

// TestApacheKafkaJoinsOurCluster as a fourth broker: it gets replicas by reassignment, follows, leads, becomes the
// controller, sees one of our brokers killed and others leave and return, and leaves. Meanwhile an idempotent producer
// continues with acks=all: in the end every acknowledged record is there, once and in order. The long run
// (CHAOS_SECONDS) repeats it with the protocol of a release in which leaders wrote the ISR themselves and followers
// requested epochs before they fetched, and of one in which followers did not send their brokers' epochs.
func TestApacheKafkaJoinsOurCluster(t *testing.T) {
	peer(t)
	protocols := []string{"3.9"}
	if os.Getenv("CHAOS_SECONDS") != "" {
		protocols = append(protocols, "2.6", "3.3")
	}
	for _, protocol := range protocols {
		t.Run("protocol "+protocol, func(t *testing.T) { joinOurCluster(t, "inter.broker.protocol.version="+protocol) })
	}
}

func joinOurCluster(t *testing.T, protocol string) {
	server := zookeeper(t)
	m := &mixed{t: t, zk: server, protocol: protocol}
	for id := range 3 {
		p := newProcess(t, id, server, protocol, "min.insync.replicas=2", "controlled.shutdown.retry.backoff.ms=100", "offsets.topic.replication.factor=3")
		p.start()
		m.ours = append(m.ours, p)
		m.addrs = append(m.addrs, p.addr())
	}
	cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(m.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(20000),
		kgo.RecordRetries(1<<30), kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.ProduceRequestTimeout(5*time.Second), kgo.RetryTimeout(5*time.Minute))
	defer cl.Close()
	m.admin = kadm.NewClient(cl)
	if _, err := m.admin.CreateTopic(t.Context(), chaosPartitions, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	acked := produceDuring(t, cl, m.visit)
	total := 0
	for partition, want := range acked {
		checkPartition(t, m.addrs, int32(partition), want, nil)
		total += len(want)
	}
	awaitInSync(t, cl)
	for _, b := range m.ours {
		b.stop()
	}
	for partition := range chaosPartitions {
		compareReplicas(t, m.ours, partition)
	}
	t.Logf("%d records were acknowledged", total)
}

// mixed is a cluster of our brokers with one of Apache Kafka.
type mixed struct {
	t        *testing.T
	zk       string
	protocol string // the setting inter.broker.protocol.version
	ours     []*process
	addrs    []string
	admin    *kadm.Client
}

// visit is everything that happens while the guest is in the cluster.
func (m *mixed) visit() {
	t := m.t
	addr, logs, leave := startPeer(t, guest, m.zk, m.protocol, "min.insync.replicas=2", "offsets.topic.replication.factor=3")
	m.until("our brokers know the guest", func(ctx context.Context) bool {
		brokers, err := m.admin.ListBrokers(ctx)
		return err == nil && len(brokers) == 4
	})
	m.work("beside-guest", m.addrs[0])
	m.move(guest, 0, 1)
	m.elect()
	m.until("the guest leads", m.leads(guest))

	m.makeController()
	m.work("with-guest", addr)
	m.ours[0].kill()
	m.until("a killed broker leaves the ISR", m.inSync(2))
	m.ours[0].start()
	m.until("it returns to the ISR", m.inSync(3))
	for _, b := range m.ours[1:] {
		b.stop()
		b.start()
	}
	m.until("all are in the ISR after a restart in turn", m.inSync(3))

	m.move(0, 1, 2)
	m.elect()
	m.until("one of ours leads", m.leads(0))
	leave()
	m.until("one of ours is the controller", func(context.Context) bool { return m.controller() < guest })
	m.work("without-guest", m.addrs[0])
	m.askGuest(filepath.Join(filepath.Dir(logs), "server.log"))

}

// noComplaints are entries at ERROR that Apache Kafka also logs in a cluster of its own kind: as the controller, about
// a broker that stopped while a request to it was pending; and about a request of the previous controller.
var noComplaints = []string{"fails to send a request to broker", "org.apache.kafka.common.errors.ControllerMovedException"}

// askGuest checks that nothing in the guest's log shows that it has misunderstood our brokers.
func (m *mixed) askGuest(log string) {
	m.t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, entry := range strings.Split(string(text), "\n[") { // an entry includes its stack trace
		head, trace, _ := strings.Cut(entry, "\n")
		bad := strings.Contains(head, " ERROR ") || strings.Contains(head, " FATAL ")
		if bad && !slices.ContainsFunc(noComplaints, func(usual string) bool { return strings.Contains(entry, usual) }) {
			m.t.Errorf("Apache Kafka complains: %.500s\n%.500s", head, trace)
		}
	}
}

// move reassigns every partition and waits until that is complete.
func (m *mixed) move(replicas ...int32) {
	m.t.Helper()
	var req kadm.AlterPartitionAssignmentsReq
	for p := range int32(chaosPartitions) {
		req.Assign("t", p, replicas)
	}
	if _, err := m.admin.AlterPartitionAssignments(m.t.Context(), req); err != nil {
		m.t.Fatal(err)
	}
	m.until(fmt.Sprintf("the replicas are %v", replicas), func(ctx context.Context) bool {
		return m.every(ctx, func(p kadm.PartitionDetail) bool {
			return slices.Equal(p.Replicas, replicas) && len(p.ISR) == len(replicas)
		})
	})
}

func (m *mixed) elect() {
	m.t.Helper()
	m.until("preferred leaders are elected", func(ctx context.Context) bool {
		_, err := m.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{"t": {0: {}, 1: {}, 2: {}, 3: {}}})
		return err == nil
	})
}

func (m *mixed) leads(id int32) func(context.Context) bool {
	return func(ctx context.Context) bool {
		return m.every(ctx, func(p kadm.PartitionDetail) bool { return p.Leader == id })
	}
}

func (m *mixed) inSync(count int) func(context.Context) bool {
	return func(ctx context.Context) bool {
		return m.every(ctx, func(p kadm.PartitionDetail) bool { return len(p.ISR) == count })
	}
}

func (m *mixed) every(ctx context.Context, holds func(kadm.PartitionDetail) bool) bool {
	topics, err := m.admin.ListTopics(ctx, "t")
	if err != nil || len(topics["t"].Partitions) != chaosPartitions {
		return false
	}
	for _, p := range topics["t"].Partitions {
		if !holds(p) {
			return false
		}
	}
	return true
}

// work lets the controller create a topic, add partitions and delete it, and checks that all brokers see changed
// settings.
func (m *mixed) work(topic, addr string) {
	m.t.Helper()
	ctx := m.t.Context()
	cl := newClient(m.t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(addr))
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(ctx, 6, 3, nil, topic); err != nil {
		m.t.Fatal(err)
	}
	if _, err := adm.CreatePartitions(ctx, 3, topic); err != nil {
		m.t.Fatal(err)
	}
	retention := "3600000"
	if _, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}, topic); err != nil {
		m.t.Fatal(err)
	}
	m.until("all partitions of a new topic take records", func(ctx context.Context) bool {
		var records []*kgo.Record
		for i := range 90 {
			records = append(records, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: []byte("v")})
		}
		return cl.ProduceSync(ctx, records...).FirstErr() == nil
	})
	if _, err := adm.DeleteTopics(ctx, topic); err != nil {
		m.t.Fatal(err)
	}
	m.until("a deleted topic is gone", func(ctx context.Context) bool {
		topics, err := m.admin.ListTopics(ctx)
		return err == nil && !topics.Has(topic)
	})
	conn := m.dialZooKeeper()
	defer conn.Close()
	m.until("every broker has deleted its replicas", func(context.Context) bool {
		left, _, err := conn.Children("/admin/delete_topics")
		return err == nil && len(left) == 0
	})
}

// makeController deposes the controller while our brokers are stopped, for less than their sessions last: otherwise one
// of them would be elected first.
func (m *mixed) makeController() {
	m.t.Helper()
	conn := m.dialZooKeeper()
	defer conn.Close()
	signal := func(s syscall.Signal) {
		for _, b := range m.ours {
			_ = b.cmd.Process.Signal(s)
		}
	}
	m.until("the guest is the controller", func(context.Context) bool {
		signal(syscall.SIGSTOP)
		defer signal(syscall.SIGCONT)
		_ = conn.Delete("/controller", -1)
		for range 10 {
			if m.controller() == guest {
				return true
			}
			time.Sleep(100 * time.Millisecond)
		}
		return false
	})
}

// controller returns the id in /controller, -1 if there is none.
func (m *mixed) controller() int {
	m.t.Helper()
	conn := m.dialZooKeeper()
	defer conn.Close()
	data, _, err := conn.Get("/controller")
	var node struct {
		ID int `json:"brokerid"`
	}
	if err != nil || json.Unmarshal(data, &node) != nil {
		return -1
	}
	return node.ID
}

func (m *mixed) dialZooKeeper() *zk.Conn {
	m.t.Helper()
	conn, _, err := zk.Connect([]string{m.zk}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		m.t.Fatal(err)
	}
	return conn
}

func (m *mixed) until(what string, holds func(context.Context) bool) {
	m.t.Helper()
	until(m.t, what, holds)
	m.t.Logf("%s", what)
}
