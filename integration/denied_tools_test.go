package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExitCodesOfDeniedTools checks the exit codes of tools run by alice, who has no rights. They are those of Apache
// Kafka 3.9.2, except for three tools that exit with 0 there.
func TestExitCodesOfDeniedTools(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, zookeeper(t))
	if _, err := adminAt(t, g.addr).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	file := propertiesFile(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", `sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="pw";`)
	records := filepath.Join(t.TempDir(), "records.json")
	if err := os.WriteFile(records, []byte(`{"partitions":[{"topic":"t","partition":0,"offset":0}],"version":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const differs = " (Apache Kafka's with 0)"
	for _, test := range []struct {
		line string // AT and FILE are replaced by the address and a properties file
		code int
		note string
	}{
		{"topics AT --command-config FILE --list", 0, ""},
		{"topics AT --command-config FILE --describe", 0, ""},
		{"topics AT --command-config FILE --describe --topic t", 1, ""},
		{"topics AT --command-config FILE --create --topic u", 1, ""},
		{"topics AT --command-config FILE --delete --topic t", 1, ""},
		{"console-producer AT --producer.config FILE --topic t --sync", 1, ""},
		{"console-producer AT --producer.config FILE --topic t", 1, differs},
		{"console-consumer AT --consumer.config FILE --topic t --timeout-ms 3000", 1, differs},
		{"console-consumer AT --consumer.config FILE --topic nosuch --timeout-ms 3000", 1, differs},
		{"producer-perf-test --producer.config FILE --producer-props bootstrap.servers=ADDR --topic t --num-records 5 --record-size 10 --throughput -1", 1, differs},
		{"consumer-perf-test AT --consumer.config FILE --topic t --messages 5 --timeout 3000", 1, ""},
		{"verifiable-producer AT --producer.config FILE --topic t --max-messages 1", 0, ""},
		{"consumer-groups AT --command-config FILE --list", 0, ""},
		{"consumer-groups AT --command-config FILE --describe --group g", 0, ""},
		{"consumer-groups AT --command-config FILE --delete --group g", 0, ""},
		{"consumer-groups AT --command-config FILE --reset-offsets --group g --topic t --to-earliest --execute", 0, ""},
		{"configs AT --command-config FILE --describe --entity-type topics --entity-name t", 1, ""},
		{"configs AT --command-config FILE --alter --entity-type topics --entity-name t --add-config retention.ms=5", 1, ""},
		{"acls AT --command-config FILE --list", 1, ""},
		{"get-offsets AT --command-config FILE --topic t", 1, ""},
		{"delete-records AT --command-config FILE --offset-json-file RECORDS", 0, ""},
		{"log-dirs AT --command-config FILE --describe", 1, ""},
		{"leader-election AT --admin.config FILE --election-type preferred --topic t --partition 0", 1, ""},
		{"reassign-partitions AT --command-config FILE --list", 1, ""},
		{"transactions AT --command-config FILE list", 0, ""},
		{"broker-api-versions AT --command-config FILE", 0, ""},
	} {
		line := strings.NewReplacer("AT", "--bootstrap-server "+g.secure, "ADDR", g.secure, "FILE", file, "RECORDS", records).Replace(test.line)
		cmd := exec.Command(brokerBinary(t), strings.Fields(line)...)
		cmd.Stdin = strings.NewReader("one\n")
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != test.code {
			t.Errorf("%s: exit code %d, want %d%s: %s", test.line, got, test.code, test.note, out)
		}
	}
}
