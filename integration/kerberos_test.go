package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testport"
	"barnabas/network/kerberos"
)

const krb5Module = "com.sun.security.auth.module.Krb5LoginModule"

// kdc is a Kerberos server of MIT for the realm EXAMPLE.COM, with the keys of brokers and of alice in one keytab.
type kdc struct {
	t            *testing.T
	dir          string
	conf, keytab string
	port         int
	cmd          *exec.Cmd // environment of its process
}

func startKDC(t *testing.T) *kdc {
	t.Helper()
	need(t, "krb5-kdc", hasProgram("krb5kdc") && hasProgram("kadmin.local"))
	dir := t.TempDir()
	port := testport.Reserve(t)
	k := &kdc{t: t, dir: dir, conf: filepath.Join(dir, "krb5.conf"), keytab: filepath.Join(dir, "keytab"), port: port}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("krb5.conf", fmt.Sprintf("[libdefaults]\n default_realm = EXAMPLE.COM\n dns_lookup_kdc = false\n dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"+
		" udp_preference_limit = 1\n[realms]\n EXAMPLE.COM = {\n  kdc = 127.0.0.1:%d\n }\n", port))
	write("kdc.conf", fmt.Sprintf("[kdcdefaults]\n kdc_listen = 127.0.0.1:%[1]d\n kdc_tcp_listen = 127.0.0.1:%[1]d\n[realms]\n EXAMPLE.COM = {\n  database_name = %[2]s/principal\n"+
		"  key_stash_file = %[2]s/stash\n  acl_file = %[2]s/acl\n  max_life = 1h\n }\n", port, dir))
	k.run("kdb5_util", "create", "-s", "-r", "EXAMPLE.COM", "-P", "master")
	for _, principal := range []string{"kafka/localhost", "kafka/127.0.0.1", "alice", "bob/admin", "keeper/localhost"} {
		k.run("kadmin.local", "-q", "addprinc -randkey "+principal)
		k.run("kadmin.local", "-q", "ktadd -k "+k.keytab+" "+principal)
	}
	k.start()
	return k
}

func (k *kdc) start() {
	k.t.Helper()
	k.cmd = exec.Command("krb5kdc", "-n")
	k.cmd.Env = k.environment()
	inBackground(k.t, k.cmd)
	untilListening(k.t, fmt.Sprintf("127.0.0.1:%d", k.port))
}

func (k *kdc) stop() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}

func (k *kdc) environment() []string {
	return append(os.Environ(), "KRB5_CONFIG="+k.conf, "KRB5_KDC_PROFILE="+filepath.Join(k.dir, "kdc.conf"), "KRB5CCNAME="+filepath.Join(k.dir, "cache"))
}

func (k *kdc) run(name string, args ...string) {
	k.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = k.environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// login returns a login module's configuration with a principal's keys.
func (k *kdc) login(principal string) string {
	return fmt.Sprintf("%s required useKeyTab=true storeKey=true keyTab=%q principal=%q serviceName=kafka;", krb5Module, k.keytab, principal)
}

// settings add a GSSAPI listener SECURE, which brokers use too, to the PLAINTEXT one.
func (k *kdc) settings(clients, secure int) []string {
	return []string{
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,SECURE://localhost:%d", clients, secure),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT", "inter.broker.listener.name=SECURE",
		"sasl.enabled.mechanisms=GSSAPI", "sasl.mechanism.inter.broker.protocol=GSSAPI", "sasl.kerberos.service.name=kafka",
		"sasl.kerberos.principal.to.local.rules=RULE:[2:$1-$2](bob-.*)s/bob/robert/U,DEFAULT",
		"listener.name.secure.gssapi.sasl.jaas.config=" + k.login("kafka/localhost@EXAMPLE.COM"),
		"authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:kafka;User:ANONYMOUS;User:alice",
	}
}

// TestKerberos runs a cluster with a broker of each kind, which log in to each other with tickets, and clients of each
// kind at both of them.
func TestKerberos(t *testing.T) {
	t.Parallel()
	k, zk := startKDC(t), zookeeper(t)
	ours := newProcess(t, 0, zk)
	ourPort, theirPort := testport.Reserve(t), testport.Reserve(t)
	ours.add(append(k.settings(ours.port, ourPort), "java.security.krb5.conf="+k.conf)...)
	ours.start()
	theirs := newPeer(t, 1, zk)
	theirs.settings = k.settings(theirs.port, theirPort)
	theirs.options = "-Djava.security.krb5.conf=" + k.conf
	theirs.start()

	ourTool(t, "", "topics", "--bootstrap-server", ours.addr(), "--create", "--topic", "t", "--replica-assignment", "0:1,1:0", "--config", "min.insync.replicas=2")
	for _, broker := range []struct {
		kind string
		port int
	}{{"ours", ourPort}, {"Apache Kafka", theirPort}} {
		addr := fmt.Sprintf("localhost:%d", broker.port)
		for _, principal := range []string{"alice@EXAMPLE.COM", "alice"} {
			file := propertiesFile(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=GSSAPI", "sasl.jaas.config="+k.login(principal))
			cmd := exec.Command(brokerBinary(t), "console-producer", "--bootstrap-server", addr, "--producer.config", file, "--topic", "t", "--producer-property", "acks=all")
			cmd.Stdin, cmd.Env = strings.NewReader("hello\n"), append(k.environment(), "KAFKA_OPTS=-Djava.security.krb5.conf="+k.conf)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("our producer, %s, as %s: %v: %s", broker.kind, principal, err, out)
			}
		}
		k.run("kcat", "-L", "-b", addr, "-m", "10", "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanisms=GSSAPI", "-X", "sasl.kerberos.service.name=kafka",
			"-X", "sasl.kerberos.keytab="+k.keytab, "-X", "sasl.kerberos.principal=alice")
		cmd := exec.Command(peer(t), "tool", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", addr, "--list", "--command-config",
			propertiesFile(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=GSSAPI", "sasl.jaas.config="+k.login("alice@EXAMPLE.COM")))
		cmd.Env = append(k.environment(), "PEER_OPTS=-Djava.security.krb5.conf="+k.conf)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "t\n") {
			t.Errorf("Java, %s: %v: %s", broker.kind, err, out)
		}
	}
}

// TestKerberosAtZooKeeper: a broker of each kind logs in to ZooKeeper with tickets and restricts access to its nodes.
// The service does not have the default name.
func TestKerberosAtZooKeeper(t *testing.T) {
	t.Parallel()
	k := startKDC(t)
	section := func(name, principal string) string {
		return fmt.Sprintf("%s { %s required useKeyTab=true storeKey=true keyTab=%q principal=%q; };\n", name, krb5Module, k.keytab, principal+"@EXAMPLE.COM")
	}
	java := "-Djava.security.krb5.conf=" + k.conf + " -Dzookeeper.sasl.client.username=keeper"
	z := startSecuredZooKeeperBy(t, section("Server", "keeper/localhost")+section("Client", "kafka/localhost"), "-Djava.security.krb5.conf="+k.conf,
		"-Dzookeeper.kerberos.removeHostFromPrincipal=true", "-Dzookeeper.kerberos.removeRealmFromPrincipal=true")
	_, port, _ := net.SplitHostPort(z.addr)
	addr := "localhost:" + port
	ours := newProcess(t, 0, addr+"/kerberos", "zookeeper.set.acl=true", "java.security.auth.login.config="+z.logins, "java.security.krb5.conf="+k.conf,
		"zookeeper.sasl.client.username=keeper")
	ours.start()
	theirs := newPeer(t, 1, addr+"/kerberos", "zookeeper.set.acl=true")
	theirs.options = java + " -Djava.security.auth.login.config=" + z.logins
	theirs.start()
	ourTool(t, "", "topics", "--bootstrap-server", ours.addr(), "--create", "--topic", "t", "--replica-assignment", "0:1,1:0")
	for _, path := range []string{"/kerberos/brokers/ids/0", "/kerberos/brokers/ids/1", "/kerberos/brokers/topics/t", "/kerberos/config/users"} {
		cmd := exec.Command(brokerBinary(t), "zookeeper-shell", addr, "getAcl", path)
		cmd.Env = append(os.Environ(), "KAFKA_OPTS="+java+" -Djava.security.auth.login.config="+z.logins)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "'sasl,'kafka") {
			t.Errorf("%s: %v: %s", path, err, out)
		}
	}
	until(t, "both brokers replicate", func(context.Context) bool {
		out, err := exec.Command(brokerBinary(t), "topics", "--bootstrap-server", theirs.addr(), "--describe", "--topic", "t").Output()
		return err == nil && strings.Contains(string(out), "Isr: 0,1")
	})
}

// TestKerberosKeysThatChange changes the keys of the brokers' principal while a broker runs, which clients also reach
// by its IP address.
func TestKerberosKeysThatChange(t *testing.T) {
	t.Parallel()
	k := startKDC(t)
	b := newProcess(t, 0, zookeeper(t))
	secure := testport.Reserve(t)
	b.add(append(k.settings(b.port, secure), "java.security.krb5.conf="+k.conf)...)
	b.start()
	file := propertiesFile(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=GSSAPI", "sasl.jaas.config="+k.login("alice"))
	list := func(host string) {
		t.Helper()
		cmd := exec.Command(brokerBinary(t), "topics", "--bootstrap-server", fmt.Sprintf("%s:%d", host, secure), "--command-config", file, "--list")
		cmd.Env = append(k.environment(), "KAFKA_OPTS=-Djava.security.krb5.conf="+k.conf)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", host, err, out)
		}
	}
	list("localhost")
	k.run("kadmin.local", "-q", "ktadd -k "+k.keytab+" kafka/localhost")
	list("localhost")
	list("127.0.0.1")
}

// TestKDCIsAway: the KDC is down for longer than tickets are valid and renewable; a program with a keytab then obtains
// new ones.
func TestKDCIsAway(t *testing.T) {
	t.Parallel()
	k := startKDC(t)
	text, err := os.ReadFile(k.conf)
	if err == nil { // the KDC and the program share one clock
		err = os.WriteFile(k.conf, []byte(strings.Replace(string(text), "rdns = false\n", "rdns = false\n clockskew = 1\n renew_lifetime = 1d\n", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	k.stop()
	k.start()
	for _, principal := range []string{"krbtgt/EXAMPLE.COM", "alice", "kafka/localhost"} {
		k.run("kadmin.local", "-q", `modprinc -maxlife "3 sec" -maxrenewlife "1 day" `+principal)
	}
	user, err := kerberos.OpenKeytab(kerberos.Source{File: k.conf}, k.keytab, "alice", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	ticket := func(ctx context.Context) bool {
		_, err := user.Start(ctx, "kafka", "localhost")
		return err == nil
	}
	until(t, "there is a ticket", ticket)
	k.stop()
	until(t, "the ticket has ended", func(ctx context.Context) bool { return !ticket(ctx) })
	time.Sleep(5 * time.Second) // and can no longer be renewed
	k.start()
	until(t, "there is a ticket again", ticket)
}
