package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"barnabas/kafkatest"
)

// TestReassignMovesPartitions moves a topic to other brokers under a throttle and removes the throttle again.
func TestReassignMovesPartitions(t *testing.T) {
	t.Parallel()
	broker := []string{"--bootstrap-server", kafkatest.Run(t, kafkatest.Brokers(3)).Broker(0).Addr()}
	tool := func(name string, args ...string) string {
		t.Helper()
		out := runTool(t, t.Context(), "a\nb\n", name, append(args, broker...)...)
		if out.code != 0 {
			t.Fatalf("%s %v: exit code %d: %s%s", name, args, out.code, out.stdout, out.stderr)
		}
		return out.stdout
	}
	file := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tool("kafka-topics", "--create", "--topic", "t", "--replica-assignment", "0:1,0:1")
	tool("kafka-console-producer", "--topic", "t")
	plan := file("plan.json", `{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]},{"topic":"t","partition":1,"replicas":[1,2]}]}`)
	started := tool("kafka-reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "10000000")
	for _, want := range []string{`"partition":0,"replicas":[0,1],"log_dirs":["any","any"]`, "throttle limit was set to 10000000 B/s",
		"Successfully started partition reassignments for t-0,t-1"} {
		if !strings.Contains(started, want) {
			t.Errorf("--execute does not print %q: %s", want, started)
		}
	}
	for t.Context().Err() == nil {
		if !strings.Contains(tool("kafka-reassign-partitions", "--list"), "replicas:") {
			break
		}
	}
	verified := tool("kafka-reassign-partitions", "--verify", "--reassignment-json-file", plan)
	for strings.Contains(verified, "There is no active reassignment") && t.Context().Err() == nil { // the broker learns of it a moment later
		verified = tool("kafka-reassign-partitions", "--verify", "--reassignment-json-file", plan)
	}
	for _, want := range []string{"Reassignment of partition t-0 is completed.", "Reassignment of partition t-1 is completed.", "Clearing broker-level throttles on brokers 0,1,2"} {
		if !strings.Contains(verified, want) {
			t.Errorf("--verify does not print %q: %s", want, verified)
		}
	}
	described := tool("kafka-topics", "--describe", "--topic", "t")
	moved := func() bool {
		return strings.Contains(described, "Replicas: 2,1\t") && strings.Contains(described, "Replicas: 1,2\t")
	}
	for !moved() && t.Context().Err() == nil { // another broker than the one that answered --verify may learn of it a moment later
		described = tool("kafka-topics", "--describe", "--topic", "t")
	}
	for p, replicas := range []string{"2,1", "1,2"} {
		line := strings.Split(described, "\n")[1+p]
		if !strings.Contains(line, "Replicas: "+replicas+"\t") {
			t.Errorf("partition %d should be on %s: %s", p, replicas, line)
		}
	}
	if strings.Contains(described, "throttled") {
		t.Errorf("a throttle remains: %s", described)
	}
	topics := file("topics.json", `{"version":1,"topics":[{"topic":"t"}]}`)
	proposed := tool("kafka-reassign-partitions", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "0,2")
	if _, after, _ := strings.Cut(proposed, "Proposed"); !strings.Contains(after, `"replicas":[0,2]`) || !strings.Contains(after, `"replicas":[2,0]`) {
		t.Errorf("--generate proposes %s", proposed)
	}
}
