package integration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testport"

	"github.com/Shopify/sarama"
	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// guardedBy returns the settings of a broker with ACLs. Clients of the PLAINTEXT listener, brokers among them, are
// super users; alice and bob log in on another listener.
func guardedBy(t *testing.T, port int) (secure string, settings []string) {
	secure = testport.Address(t)
	return secure, []string{
		"authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:ANONYMOUS",
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,SECURE://%s", port, secure), "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
		"inter.broker.listener.name=PLAINTEXT", "sasl.enabled.mechanisms=PLAIN", "offsets.topic.num.partitions=1",
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
		"listener.name.secure.plain.sasl.jaas.config=" + plainModule + ` required user_alice="pw" user_bob="pw";`,
	}
}

// guarded is a broker with ACLs, either ours or Apache Kafka's.
type guarded struct{ addr, secure string }

// startGuarded starts our broker, with settings that override those of guardedBy.
func startGuarded(t *testing.T, server string, more ...string) guarded {
	t.Helper()
	p := newProcess(t, 0, server)
	secure, settings := guardedBy(t, p.port)
	p.add(append(settings, more...)...)
	p.start()
	return guarded{p.addr(), secure}
}

func startGuardedPeer(t *testing.T, id int, server string, more ...string) guarded {
	t.Helper()
	p := newPeer(t, id, server)
	secure, settings := guardedBy(t, p.port)
	p.settings = append(settings, more...)
	p.start()
	return guarded{p.addr(), secure}
}

// asUser returns a client that logs in as a user.
func (g guarded) asUser(t *testing.T, user string) *kgo.Client {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(g.secure), kgo.SASL(plain.Auth{User: user, Pass: "pw"}.AsMechanism()))
	t.Cleanup(cl.Close)
	return cl
}

// TestAdminClientsChangeACLs: ACLs that Sarama and kafka-python create and delete apply to alice.
func TestAdminClientsChangeACLs(t *testing.T) {
	g := startGuarded(t, zookeeper(t))
	root := adminAt(t, g.addr)
	if _, err := root.CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	sees := func() bool { return !strings.Contains(permissions(t, g, []string{"t"}), "alice t=-29 ") }
	t.Run("Sarama", func(t *testing.T) { saramaACLs(t, g.addr, sees) })
	t.Run("kafka-python", func(t *testing.T) {
		need(t, "python3-kafka", exec.Command("/usr/bin/python3", "-c", "import kafka").Run() == nil)
		pythonACLs(t, g.addr, "create", "1")
		if !sees() {
			t.Error("an ACL created by kafka-python does not apply")
		}
		pythonACLs(t, g.addr, "describe", "User:alice * DESCRIBE ALLOW TOPIC t LITERAL")
		pythonACLs(t, g.addr, "delete", "1")
		if sees() {
			t.Error("an ACL deleted by kafka-python still applies")
		}
	})
}

func saramaACLs(t *testing.T, addr string, sees func() bool) {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V3_0_0_0
	adm, err := sarama.NewClusterAdmin([]string{addr}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = adm.Close() }()
	resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: "t", ResourcePatternType: sarama.AclPatternPrefixed}
	entry := sarama.Acl{Principal: "User:alice", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}
	if sees() {
		t.Error("alice sees a topic without an ACL")
	}
	if err := adm.CreateACL(resource, entry); err != nil {
		t.Fatal(err)
	}
	if !sees() {
		t.Error("an ACL created by Sarama does not apply")
	}
	filter := sarama.AclFilter{Version: 1, ResourceType: sarama.AclResourceTopic, ResourcePatternTypeFilter: sarama.AclPatternAny,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny}
	listed, err := adm.ListAcls(filter)
	if err != nil || len(listed) != 1 || listed[0].Resource != resource || len(listed[0].Acls) != 1 || *listed[0].Acls[0] != entry {
		t.Errorf("listed %+v, %v", listed, err)
	}
	deleted, err := adm.DeleteACL(filter, false)
	if err != nil || len(deleted) != 1 || deleted[0].Acl != entry {
		t.Errorf("deleted %+v, %v", deleted, err)
	}
	if sees() {
		t.Error("an ACL deleted by Sarama still applies")
	}
}

// aclScript does one thing with the ACL of alice on t, and prints the result.
const aclScript = `
import sys
from kafka.admin import *
adm = KafkaAdminClient(bootstrap_servers=sys.argv[1])
acl = ACL(principal="User:alice", host="*", operation=ACLOperation.DESCRIBE, permission_type=ACLPermissionType.ALLOW,
          resource_pattern=ResourcePattern(ResourceType.TOPIC, "t"))
any_acl = ACLFilter(principal=None, host=None, operation=ACLOperation.ANY, permission_type=ACLPermissionType.ANY,
                    resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY))
if sys.argv[2] == "create":
    print(len(adm.create_acls([acl])["succeeded"]))
elif sys.argv[2] == "describe":
    for a in adm.describe_acls(any_acl)[0]:
        print(a.principal, a.host, a.operation.name, a.permission_type.name, a.resource_pattern.resource_type.name,
              a.resource_pattern.resource_name, a.resource_pattern.pattern_type.name)
else:
    print(sum(len(r[1]) for r in adm.delete_acls([any_acl])))
`

func pythonACLs(t *testing.T, addr, what, want string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-W", "ignore", "-c", aclScript, addr, what).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != want {
		t.Errorf("%s: %v, %q, want %q", what, err, got, want)
	}
}

// TestACLsOfMixedBrokers: in a cluster of both kinds of brokers each applies the ACLs that the other has written or
// removed, and reports the same authorized operations.
func TestACLsOfMixedBrokers(t *testing.T) {
	peer(t)
	server := zookeeper(t)
	ours := startGuarded(t, server)
	theirs := startGuardedPeer(t, 1, server)
	brokers := map[string]guarded{"ours": ours, "Apache Kafka's": theirs}
	root := adminAt(t, ours.addr)
	names := []string{"a", "ab", "abc", "b"}
	if _, err := root.CreateTopics(t.Context(), 1, 1, nil, names...); err != nil {
		t.Fatal(err)
	}
	builders := []*kadm.ACLBuilder{
		kadm.NewACLs().Topics("a").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpRead, kadm.OpWrite).Allow("User:alice").AllowHosts("*"),
		kadm.NewACLs().Topics("abc").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite).Deny("User:alice").DenyHosts("127.0.0.1"),
		kadm.NewACLs().Topics("*").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDescribeConfigs).Allow("User:*").AllowHosts("*"),
		kadm.NewACLs().Topics("b").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpAll).Allow("User:bob").AllowHosts("*"),
	}
	written := make(map[string]map[string]string)
	for writer, w := range brokers {
		adm := adminAt(t, w.addr)
		for i, b := range builders {
			created, err := adm.CreateACLs(t.Context(), b)
			for _, c := range created {
				err = errors.Join(err, c.Err)
			}
			if err != nil {
				t.Fatalf("%s, %d: %v", writer, i, err)
			}
			agree(t, fmt.Sprintf("after %d ACLs written by %s", i+1, writer), brokers, names)
		}
		want := permissions(t, w, names)
		if !strings.Contains(want, "alice ab=1304 ") || !strings.Contains(want, "alice abc=1288 ") || !strings.Contains(want, "bob b=3576 ") {
			t.Errorf("%s reports %s", writer, want)
		}
		nodes := aclNodes(t, server)
		if len(nodes) != 4 {
			t.Errorf("%s has written %v", writer, nodes)
		}
		written[writer] = nodes
		for i, b := range builders {
			if _, err := adm.DeleteACLs(t.Context(), b); err != nil {
				t.Fatalf("%s, %d: %v", writer, i, err)
			}
			agree(t, fmt.Sprintf("after %d ACLs removed by %s", i+1, writer), brokers, names)
		}
		if nodes := aclNodes(t, server); len(nodes) != 0 {
			t.Errorf("%s leaves %v", writer, nodes)
		}
	}
	for path, theirs := range written["Apache Kafka's"] { // several entries have no defined order
		if ours := written["ours"][path]; strings.Count(theirs, "principal") == 1 && ours != theirs {
			t.Errorf("%s: %s, Apache Kafka writes %s", path, ours, theirs)
		}
	}
}

// TestBrokersNeedNotBeSuperUsers: with ACLs that exist before the first broker starts, brokers replicate and lead, and
// continue after one of them was down.
func TestBrokersNeedNotBeSuperUsers(t *testing.T) {
	server := zookeeper(t)
	for _, right := range [][]string{{"--operation", "ClusterAction", "--cluster"}, {"--operation", "Describe", "--topic", "*"}} {
		ourTool(t, "", "acls", append([]string{"--authorizer-properties", "zookeeper.connect=" + server, "--add", "--allow-principal", "User:admin"}, right...)...)
	}
	setPasswords(t, server, "admin=between")
	var brokers []*process
	var pages []string
	for id := range 3 {
		pages = append(pages, testport.Address(t))
		p, _ := newSecured(t, id, server, "authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:ANONYMOUS", "metrics.listener="+pages[id])
		p.start()
		brokers = append(brokers, p)
	}
	cl := newClient(t, kgo.SeedBrokers(brokers[0].addr(), brokers[1].addr()), kgo.DefaultProduceTopic("t"), kgo.RequiredAcks(kgo.AllISRAcks()))
	defer cl.Close()
	minISR := "2"
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 3, 3, map[string]*string{"min.insync.replicas": &minISR}, "t"); err != nil {
		t.Fatal(err)
	}
	produce := func() {
		t.Helper()
		for range 20 {
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	produce()
	brokers[2].kill()
	produce()
	brokers[2].start()
	awaitInSync(t, cl)
	produce()
	// The status page needs more rights than brokers do, and says which ones are missing.
	informed := func() (n int) {
		for _, page := range pages {
			if _, told := scrape(t, page, "/status.json"); !strings.Contains(told, "--operation Describe --cluster") {
				n++
			}
		}
		return n
	}
	if n := informed(); n != 1 {
		t.Errorf("%d brokers show reassignments although they have no right to list them", n)
	}
	if _, err := kadm.NewClient(cl).CreateACLs(t.Context(), kadm.NewACLs().Clusters().Allow("User:admin").AllowHosts("*").Operations(kadm.OpDescribe)); err != nil {
		t.Fatal(err)
	}
	until(t, "all brokers know of reassignments", func(context.Context) bool { return informed() == len(brokers) })
}

// agree waits until the brokers report the same authorized operations.
func agree(t *testing.T, when string, brokers map[string]guarded, names []string) {
	t.Helper()
	await(t, when, func(context.Context) (string, bool) {
		var said []string
		for _, g := range brokers {
			said = append(said, permissions(t, g, names))
		}
		return cmp.Diff(said[0], said[1]), said[0] == said[1]
	})
}

// permissions returns the authorized operations that a broker reports to two users for topics, as bits.
func permissions(t *testing.T, g guarded, names []string) string {
	t.Helper()
	var b strings.Builder
	for _, user := range []string{"alice", "bob"} {
		req := kmsg.NewPtrMetadataRequest()
		req.IncludeTopicAuthorizedOperations = true
		for _, name := range names {
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = &name
			req.Topics = append(req.Topics, topic)
		}
		// Sent to the broker in question, not to any broker of the cluster.
		resp, err := g.asUser(t, user).SeedBrokers()[0].RetriableRequest(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		topics := resp.(*kmsg.MetadataResponse).Topics
		slices.SortFunc(topics, func(a, b kmsg.MetadataResponseTopic) int { return strings.Compare(*a.Topic, *b.Topic) })
		for _, topic := range topics {
			if topic.ErrorCode != 0 {
				topic.AuthorizedOperations = int32(-topic.ErrorCode)
			}
			fmt.Fprintf(&b, "%s %s=%d ", user, *topic.Topic, topic.AuthorizedOperations)
		}
	}
	return b.String()
}

// aclNodes returns the znodes with ACLs of topics, and their content.
func aclNodes(t *testing.T, server string) map[string]string {
	t.Helper()
	conn, _, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all := make(map[string]string)
	for _, parent := range []string{"/kafka-acl/Topic", "/kafka-acl-extended/prefixed/Topic"} {
		names, _, err := conn.Children(parent)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, _, err := conn.Get(parent + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			all[parent+"/"+name] = string(data)
		}
	}
	return all
}
