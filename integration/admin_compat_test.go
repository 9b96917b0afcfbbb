//go:build compat

package integration

import (
	"os/exec"
	"strings"
	"testing"

	"barnabas/kafkatest"

	"github.com/google/go-cmp/cmp"
)

// adminPrograms make every call of an admin client and print what came of it.
var adminPrograms = map[string]func(t *testing.T, addr string) *exec.Cmd{
	"kafka-python":    pythonAdmin("kafka-python"),
	"confluent-kafka": pythonAdmin("confluent-kafka"),
	"Java 3.9":        javaAdmin("3.9.2"),
	"Java 4.1":        javaAdmin("4.1.1"),
}

func pythonAdmin(library string) func(*testing.T, string) *exec.Cmd {
	return func(t *testing.T, addr string) *exec.Cmd {
		return exec.Command(installed(t, library, "python", "bin", "python"), "-W", "ignore", "compat/admin.py", library, addr)
	}
}

func javaAdmin(release string) func(*testing.T, string) *exec.Cmd {
	return func(t *testing.T, addr string) *exec.Cmd { return java(t, release, "AdminCalls", "bootstrap="+addr) }
}

// TestAdminClientsOfOtherLanguages is TestAdminClients with the clients that compat/install installs.
func TestAdminClientsOfOtherLanguages(t *testing.T) {
	theirs, _, _ := startPeer(t, 0, zookeeper(t)+"/peer", "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1")
	ours := kafkatest.Run(t, kafkatest.Setting("transaction.state.log.min.isr", "1")).Broker(0).Addr()
	for name, program := range adminPrograms {
		t.Run(name, func(t *testing.T) {
			var said [2][]string
			for i, addr := range []string{theirs, ours} {
				out, err := program(t, addr).Output()
				if err != nil {
					t.Fatalf("%s: %v", addr, err)
				}
				said[i] = strings.Split(maskedAnswers(string(out), addr), "\n")
			}
			if d := cmp.Diff(said[0], said[1]); d != "" {
				t.Errorf("-Apache Kafka +ours\n%s", d)
			}
		})
	}
}

func maskedAnswers(text, addr string) string {
	_, port, _ := strings.Cut(addr, ":")
	return strings.ReplaceAll(strings.ReplaceAll(text, addr, "ADDRESS"), port, "PORT")
}
