//go:build compat

package integration

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"barnabas/kafkatest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
)

// adminPrograms make every call of an admin client and print the results. With arguments for it they log in.
var adminPrograms = map[string]func(t *testing.T, addr string, login ...string) *exec.Cmd{
	"kafka-python":    pythonAdmin("kafka-python"),
	"confluent-kafka": pythonAdmin("confluent-kafka"),
	"Java 3.9":        javaAdmin("3.9.2"),
	"Java 4.1":        javaAdmin("4.1.1"),
}

func pythonAdmin(library string) func(*testing.T, string, ...string) *exec.Cmd {
	return func(t *testing.T, addr string, login ...string) *exec.Cmd {
		args := append([]string{"-W", "ignore", "compat/admin.py", library, addr}, login...)
		return exec.Command(installed(t, library, "python", "bin", "python"), args...)
	}
}

func javaAdmin(release string) func(*testing.T, string, ...string) *exec.Cmd {
	return func(t *testing.T, addr string, login ...string) *exec.Cmd {
		return java(t, release, append([]string{"AdminCalls", addr}, login...)...)
	}
}

// TestAdminClientsOfOtherLanguages is TestAdminClients for the clients that compat/install installs.
func TestAdminClientsOfOtherLanguages(t *testing.T) {
	theirs, _, _ := startPeer(t, 0, zookeeper(t)+"/peer", "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1")
	ours := kafkatest.Run(t, kafkatest.Setting("transaction.state.log.min.isr", "1")).Broker(0).Addr()
	for name := range adminPrograms {
		t.Run(name, func(t *testing.T) { compareAdminCalls(t, name, theirs, ours) })
	}
}

// compareAdminCalls runs a program with both brokers and compares what it prints.
func compareAdminCalls(t *testing.T, program, theirs, ours string, login ...string) {
	t.Helper()
	var said [2][]string
	for i, addr := range []string{theirs, ours} {
		out, err := adminPrograms[program](t, addr, login...).Output()
		if err != nil {
			t.Fatalf("%s: %v after\n%s", addr, err, out)
		}
		said[i] = strings.Split(maskedAnswers(string(out), addr), "\n")
	}
	if d := cmp.Diff(said[0], said[1]); d != "" {
		t.Errorf("-Apache Kafka +ours\n%s", d)
	}
}

func maskedAnswers(text, addr string) string {
	_, port, _ := strings.Cut(addr, ":")
	return strings.ReplaceAll(strings.ReplaceAll(text, addr, "ADDRESS"), port, "PORT")
}

// TestAdminClientsOfOtherLanguagesWithAnAuthorizer makes the same calls to brokers with ACLs: as root, who may do
// everything and logs in with PLAIN, and as alice, who has few rights and logs in with SCRAM.
func TestAdminClientsOfOtherLanguagesWithAnAuthorizer(t *testing.T) {
	var brokers [2]guarded
	for i, start := range []func(server string) guarded{
		func(server string) guarded { return startGuardedPeer(t, 0, server, administered()...) },
		func(server string) guarded { return startGuarded(t, server, administered()...) },
	} {
		server := zookeeper(t)
		setPasswords(t, server, "alice=secret")
		brokers[i] = start(server)
	}
	for name := range adminPrograms {
		t.Run("root, "+name, func(t *testing.T) {
			compareAdminCalls(t, name, brokers[0].secure, brokers[1].secure, "PLAIN", "root", "pw")
		})
	}
	for _, g := range brokers {
		allowAlice(t, g)
	}
	for name := range adminPrograms {
		t.Run("alice, "+name, func(t *testing.T) {
			compareAdminCalls(t, name, brokers[0].secure, brokers[1].secure, "SCRAM-SHA-256", "alice", "secret")
		})
	}
}

// allowAlice creates the programs' topics and a few ACLs: alice may do what users typically may.
func allowAlice(t *testing.T, g guarded) {
	t.Helper()
	root := adminAt(t, g.addr)
	if _, err := root.CreateTopics(t.Context(), 3, 1, nil, "pt", "ct", "jt"); err != nil {
		t.Fatal(err)
	}
	allow := func() *kadm.ACLBuilder {
		return kadm.NewACLs().Allow("User:alice").AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral)
	}
	for _, acl := range []*kadm.ACLBuilder{
		allow().Topics("pt", "ct", "jt").Operations(kadm.OpRead, kadm.OpWrite, kadm.OpDescribeConfigs),
		allow().Groups("pg", "cg", "jg").Operations(kadm.OpRead),
	} {
		made, err := root.CreateACLs(t.Context(), acl)
		if err != nil || slices.ContainsFunc(made, func(m kadm.CreateACLsResult) bool { return m.Err != nil }) {
			t.Fatalf("%v %+v", err, made)
		}
	}
}
