package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testport"
	"barnabas/zkcoord/zklogin"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The login that brokers have, and another one, in the forms for ZooKeeper and for its clients.
const (
	zkUser, zkPassword = "kafka", `se"c\ret ä`
	zkLogins           = `Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_kafka="se\"c\\ret ä"
  user_other="other";
};
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username="kafka"
  password="se\"c\\ret ä";
};
Other {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username="other"
  password="other";
};
Wrong {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username="kafka"
  password="wrong";
};
`
)

// securedEnsemble is a ZooKeeper that clients log in to, with SASL on one port and with a certificate on the other.
type securedEnsemble struct {
	addr, encrypted string
	logins          string // the JAAS file
}

func startSecuredZooKeeper(t *testing.T) securedEnsemble { return startSecuredZooKeeperBy(t, zkLogins) }

func startSecuredZooKeeperBy(t *testing.T, logins string, options ...string) securedEnsemble {
	t.Helper()
	classpath, err := exec.Command(peer(t), "classpath").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plain, encrypted := testport.Reserve(t), testport.Reserve(t)
	z := securedEnsemble{fmt.Sprintf("127.0.0.1:%d", plain), fmt.Sprintf("127.0.0.1:%d", encrypted), filepath.Join(dir, "logins.conf")}
	file := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nsecureClientPort=%d\nsecureClientPortAddress=127.0.0.1\n"+
		"tickTime=500\nadmin.enableServer=false\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"+
		"authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"+
		"ssl.keyStore.location=%s\nssl.keyStore.password=secret\nssl.trustStore.location=%s\nssl.trustStore.password=secret\n",
		dir, plain, encrypted, storeFile(t, "server.jks"), storeFile(t, "trust.jks"))
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(z.logins, []byte(logins), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("java", append(options, "-Xmx128m", "-Dfile.encoding=UTF-8", "-Dzookeeper.forceSync=no", "-Djava.security.auth.login.config="+z.logins,
		"-cp", strings.TrimSpace(string(classpath)), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)...)
	inBackground(t, cmd)
	untilListening(t, z.addr)
	untilListening(t, z.encrypted)
	return z
}

// inBackground runs a program until the end of the test, and logs its output if the test has failed.
func inBackground(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(output.String())
		}
	})
}

func untilListening(t *testing.T, addr string) {
	t.Helper()
	until(t, "somebody listens at "+addr, func(context.Context) bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// environment returns the environment of a process that logs in with a section of the file.
func (z securedEnsemble) environment(section string) []string {
	return append(os.Environ(), fmt.Sprintf("KAFKA_OPTS=-Djava.security.auth.login.config=%s -Dzookeeper.sasl.clientconfig=%s", z.logins, section))
}

// session returns a session of the brokers' user.
func (z securedEnsemble) session(t *testing.T) *zk.Conn {
	t.Helper()
	login := &zklogin.Login{Username: zkUser, Password: zkPassword}
	conn, _, err := zk.Connect([]string{z.addr}, 10*time.Second, zk.WithLogInfo(false),
		zk.WithDialer(func(network, addr string, timeout time.Duration) (net.Conn, error) {
			conn, err := net.DialTimeout(network, addr, timeout)
			if err != nil {
				return nil, err
			}
			return login.Over(conn, "", 10*time.Second, func(err error) {
				if err != nil {
					t.Error(err)
				}
			}), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

var sequences = regexp.MustCompile(`_\d{10}$`)

// nodeACLs returns the ACLs of all nodes below a chroot, and of the chroot as /.
func nodeACLs(t *testing.T, conn *zk.Conn, chroot string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	var look func(path string)
	look = func(path string) {
		acl, _, err := conn.GetACL(chroot + path)
		if err != nil {
			t.Fatal(chroot+path, err)
		}
		var texts []string
		for _, a := range acl {
			texts = append(texts, fmt.Sprintf("%s:%s:%d", a.Scheme, a.ID, a.Perms))
		}
		slices.Sort(texts)
		found[sequences.ReplaceAllString(path, "_n")] = strings.Join(texts, " ")
		children, _, err := conn.Children(chroot + path)
		if err != nil {
			t.Fatal(chroot+path, err)
		}
		for _, child := range children {
			look(path + "/" + child)
		}
	}
	look("")
	return found
}

// fillZooKeeper lets a broker create a node of each kind that populate does not create.
func fillZooKeeper(t *testing.T, addr string) {
	t.Helper()
	populate(t, addr)
	cl := newClient(t, kgo.SeedBrokers(addr))
	defer cl.Close()
	adm, ctx := kadm.NewClient(cl), t.Context()
	value := "123456"
	rights := func() *kadm.ACLBuilder { return kadm.NewACLs().Allow("User:a").AllowHosts("*").Operations(kadm.OpRead) }
	_, scram := adm.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: "a", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "b"}})
	_, settings := adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.cleaner.threads", Value: new("1")}, {Op: kadm.SetConfig, Name: "background.threads", Value: new("9")}}, 0)
	_, quotas := adm.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &value}},
		Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1e6}}}})
	_, literal := adm.CreateACLs(ctx, rights().Topics("plain"))
	_, prefixed := adm.CreateACLs(ctx, rights().Topics("p").ResourcePatternType(kadm.ACLPatternPrefixed))
	if err := errors.Join(scram, settings, quotas, literal, prefixed); err != nil {
		t.Fatal(err)
	}
}

// TestSecuredZooKeeper: a broker of each kind logs in to ZooKeeper and restricts its nodes to that user
// (zookeeper.set.acl), and the tool of each kind opens the nodes and restricts them again: the ACLs must be the same.
// Then both brokers form one cluster.
func TestSecuredZooKeeper(t *testing.T) {
	t.Parallel()
	z := startSecuredZooKeeper(t)
	conn := z.session(t)
	both := []string{"authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:ANONYMOUS", "delegation.token.secret.key=abc"}
	ours := newProcess(t, 0, z.addr+"/ours", append(both, "zookeeper.set.acl=true", "java.security.auth.login.config="+z.logins)...)
	ours.start()
	theirs := newPeer(t, 0, z.addr+"/theirs", append(both, "zookeeper.set.acl=true")...)
	theirs.options = "-Djava.security.auth.login.config=" + z.logins
	theirs.start()
	fillZooKeeper(t, ours.addr())
	fillZooKeeper(t, theirs.addr())
	same := func(what string) {
		t.Helper()
		if diff := cmp.Diff(nodeACLs(t, conn, "/theirs"), nodeACLs(t, conn, "/ours")); diff != "" {
			t.Errorf("%s: Apache Kafka's ACLs (-) and ours (+)\n%s", what, diff)
		}
	}
	until(t, "topics are deleted", func(context.Context) bool {
		a, _, errA := conn.Children("/ours/admin/delete_topics")
		b, _, errB := conn.Children("/theirs/admin/delete_topics")
		return errA == nil && errB == nil && len(a)+len(b) == 0
	})
	same("what brokers make")

	stranger, _, err := zk.Connect([]string{z.addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, _, err := stranger.Get("/ours/config/users/a"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("another user can read passwords: %v", err)
	}
	if err := stranger.Delete("/ours/brokers/ids/0", -1); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("another user can remove a broker: %v", err)
	}

	for _, kind := range []string{"unsecure", "secure"} {
		z.migrate(t, kind, "/ours", "/theirs") // each tool on its own broker's nodes
		same(kind)
		want := "sasl:kafka:31"
		if kind == "unsecure" {
			want = "world:anyone:31"
		}
		if got := nodeACLs(t, conn, "/ours")["/config/users/a"]; got != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
	z.migrate(t, "unsecure", "/theirs", "/ours") // and the other way round
	z.migrate(t, "secure", "/theirs", "/ours")
	same("each by the other's tool")

	guest := newProcess(t, 1, z.addr+"/theirs", append(both, "zookeeper.set.acl=true", "java.security.auth.login.config="+z.logins)...)
	guest.start()
	ourTool(t, "", "topics", "--bootstrap-server", guest.addr(), "--create", "--topic", "of-both", "--replica-assignment", "1:0,0:1")
	until(t, "both brokers are one cluster", func(context.Context) bool {
		out, err := exec.Command(brokerBinary(t), "topics", "--bootstrap-server", theirs.addr(), "--describe", "--topic", "of-both").Output()
		return err == nil && strings.Contains(string(out), "Isr: 1,0")
	})
}

// migrate runs our zookeeper-security-migration on one chroot, and Apache Kafka's on another.
func (z securedEnsemble) migrate(t *testing.T, kind, byOurs, byTheirs string) {
	t.Helper()
	cmd := exec.Command(brokerBinary(t), "zookeeper-security-migration", "--zookeeper.acl="+kind, "--zookeeper.connect="+z.addr+byOurs)
	cmd.Env = z.environment("Client")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd = exec.Command(peer(t), "tool", "kafka.admin.ZkSecurityMigrator", "--zookeeper.acl="+kind, "--zookeeper.connect="+z.addr+byTheirs)
	cmd.Env = append(os.Environ(), "PEER_OPTS=-Djava.security.auth.login.config="+z.logins)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestBareTreeIsSecured lets the tool of each kind work on an almost empty tree: missing nodes are created, except
// those whose existence has a meaning.
func TestBareTreeIsSecured(t *testing.T) {
	t.Parallel()
	z := startSecuredZooKeeper(t)
	conn := z.session(t)
	for _, path := range []string{"/ours", "/theirs", "/ours/migration", "/theirs/migration", "/ours2", "/theirs2"} {
		if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	for _, which := range []string{"", "2"} {
		z.migrate(t, "secure", "/ours"+which, "/theirs"+which)
		if diff := cmp.Diff(nodeACLs(t, conn, "/theirs"+which), nodeACLs(t, conn, "/ours"+which)); diff != "" {
			t.Errorf("Apache Kafka's ACLs (-) and ours (+)\n%s", diff)
		}
	}
	run := func(section string, args ...string) string {
		cmd := exec.Command(brokerBinary(t), append([]string{"zookeeper-security-migration", "--zookeeper.connect", z.addr + "/none"}, args...)...)
		cmd.Env = z.environment(section)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s %v is accepted", section, args)
		}
		return string(out)
	}
	for _, test := range []struct {
		section string
		args    []string
		want    string
	}{
		{"Client", []string{"--zookeeper.acl=secured"}, "--zookeeper.acl must be secure or unsecure"},
		{"Nobody", []string{"--zookeeper.acl=secure"}, "ZooKeeper would not know this user"},
		{"Wrong", []string{"--zookeeper.acl=secure"}, "the server refuses the user or the password"},
		{"Client", []string{"--zookeeper.acl=secure", "--enable.path.check"}, "Exit the command."},
	} {
		if got := run(test.section, test.args...); !strings.Contains(got, test.want) {
			t.Errorf("%s %v: %s", test.section, test.args, got)
		}
	}
	if there, _, err := conn.Exists("/none/brokers"); there || err != nil {
		t.Errorf("nodes were created where the path check fails: %v", err)
	}
}

// TestZooKeeperByCertificate is TestSecuredZooKeeper with a TLS certificate instead of a login.
func TestZooKeeperByCertificate(t *testing.T) {
	t.Parallel()
	z := startSecuredZooKeeper(t)
	settings := []string{"zookeeper.set.acl=true", "zookeeper.ssl.client.enable=true", "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
		"zookeeper.ssl.keystore.location=" + storeFile(t, "server.jks"), "zookeeper.ssl.keystore.password=secret", "zookeeper.ssl.keystore.type=JKS",
		"zookeeper.ssl.truststore.location=" + storeFile(t, "trust.jks"), "zookeeper.ssl.truststore.password=secret", "zookeeper.ssl.truststore.type=JKS"}
	ours := newProcess(t, 0, z.encrypted+"/ours", settings...)
	ours.start()
	theirs := newPeer(t, 0, z.encrypted+"/theirs", settings...)
	theirs.start()
	populate(t, ours.addr())
	populate(t, theirs.addr())
	file := propertiesFile(t, settings[1:]...)
	acl := func(path string) string {
		return ourTool(t, "", "zookeeper-shell", z.encrypted, "-zk-tls-config-file", file, "getAcl", path)
	}
	for _, path := range []string{"", "/brokers/ids/0", "/brokers/topics/plain/partitions/0/state", "/config/topics/plain", "/controller", "/config/users", "/config/brokers", "/consumers"} {
		our, their := acl("/ours"+path), acl("/theirs"+path)
		if our != their || !strings.Contains(our, "'x509,'") && path != "/consumers" {
			t.Errorf("%s: Apache Kafka's %s, ours %s", path, their, our)
		}
	}
	ourTool(t, "", "zookeeper-security-migration", "--zookeeper.acl", "unsecure", "--zookeeper.connect", z.encrypted+"/ours", "--zk-tls-config-file", file)
	if got := acl("/ours/config/users"); !strings.Contains(got, "'world,'anyone\n: cdrwa") {
		t.Errorf("opened: %s", got)
	}
}

// TestLoginToZooKeeperIsRefused: the start fails with the reason, and the broker has written nothing to ZooKeeper.
func TestLoginToZooKeeperIsRefused(t *testing.T) {
	t.Parallel()
	z := startSecuredZooKeeper(t)
	p := newProcess(t, 0, z.addr+"/refused", "java.security.auth.login.config="+z.logins, "zookeeper.sasl.clientconfig=Wrong")
	out, err := exec.Command(brokerBinary(t), "server-start", filepath.Join(p.dir, "server.properties")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "log in as kafka to ZooKeeper at "+z.addr+": the server refuses the user or the password") {
		t.Errorf("%v: %s", err, out)
	}
	if there, _, err := z.session(t).Exists("/refused"); there || err != nil {
		t.Errorf("the broker has registered: %v", err)
	}

	// A server that does not support logins is acceptable unless nodes have to be restricted.
	open := newProcess(t, 0, zookeeper(t)+"/open", "java.security.auth.login.config="+z.logins)
	open.start()
	if log := open.log(); !strings.Contains(log, "no login to ZooKeeper") || strings.Count(log, "no login to ZooKeeper") > 2 {
		t.Errorf("the failed login was not logged: %s", log)
	}
	open.stop()
	open.add("zookeeper.set.acl=true")
	out, err = exec.Command(brokerBinary(t), "server-start", filepath.Join(open.dir, "server.properties")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the server does not ask for logins") {
		t.Errorf("%v: %s", err, out)
	}
}
