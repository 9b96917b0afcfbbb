package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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

// TestNothingMovesWithoutAWayBack: on a full disk, the current assignment cannot be saved.
func TestNothingMovesWithoutAWayBack(t *testing.T) {
	t.Parallel()
	broker := []string{"--bootstrap-server", kafkatest.Run(t, kafkatest.Brokers(2)).Broker(0).Addr()}
	runTool(t, t.Context(), "", "kafka-topics", append(broker, "--create", "--topic", "t", "--replica-assignment", "0")...)
	plan := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(plan, []byte(`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	tool := Tool{Name: "kafka-reassign-partitions", run: reassignPartitions}
	code := tool.Run(t.Context(), &Env{Args: append(broker, "--execute", "--reassignment-json-file", plan), Stdin: strings.NewReader(""), Stdout: &fullDisk{left: 10}, Stderr: &stderr})
	if code != 1 || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
	if out := runTool(t, t.Context(), "", "kafka-topics", append(broker, "--describe", "--topic", "t")...); !strings.Contains(out.stdout, "Replicas: 0\t") {
		t.Errorf("it moves: %s", out.stdout)
	}
}

// TestCancelledReassignments: a cancellation ends moves between brokers and between directories, and removes the
// throttles of all the plan's topics. Throttles of moves beside each other do not overwrite each other.
func TestCancelledReassignments(t *testing.T) {
	t.Parallel()
	second := t.TempDir()
	cluster := kafkatest.Run(t, kafkatest.Brokers(2), kafkatest.Setting("replica.fetch.response.max.bytes", "10000"), kafkatest.Setting("replica.fetch.max.bytes", "10000"),
		kafkatest.PerBroker(func(id int) map[string]string {
			return map[string]string{"log.dirs": filepath.Join(second, strconv.Itoa(id), "a") + "," + filepath.Join(second, strconv.Itoa(id), "b")}
		}))
	broker := []string{"--bootstrap-server", cluster.Broker(0).Addr()}
	tool := func(stdin, name string, args ...string) string {
		t.Helper()
		out := runTool(t, t.Context(), stdin, name, append(args, broker...)...)
		if out.code != 0 {
			t.Fatalf("%s %v: exit code %d: %s%s", name, args, out.code, out.stdout, out.stderr)
		}
		return out.stdout
	}
	says := func(got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%q is not in %s", w, got)
			}
		}
	}
	plan := func(content string) string {
		path := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(path, []byte(`{"version":1,"partitions":[`+content+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	reassign := func(what, content string, more ...string) string {
		t.Helper()
		return tool("", "kafka-reassign-partitions", append([]string{what, "--reassignment-json-file", plan(content)}, more...)...)
	}
	tool("", "kafka-topics", "--create", "--topic", "t", "--replica-assignment", "0,0,0")
	tool("", "kafka-topics", "--create", "--topic", "empty", "--replica-assignment", "0")
	for id := range 2 { // in force before anything moves, so that nothing arrives
		tool("", "kafka-configs", "--alter", "--broker", strconv.Itoa(id), "--add-config", "leader.replication.throttled.rate=1,follower.replication.throttled.rate=1,replica.alter.log.dirs.io.max.bytes.per.second=1")
	}
	var lines strings.Builder
	for key := range 300 { // in all partitions more than a throttled fetch returns at once
		fmt.Fprintf(&lines, "%d\t%s\n", key, strings.Repeat("x", 1000))
	}
	tool(lines.String(), "kafka-console-producer", "--topic", "t", "--sync", "--property", "parse.key=true")

	moving := func() bool {
		return strings.Contains(tool("", "kafka-log-dirs", "--describe", "--broker-list", "0", "--topic-list", "t"), `"isFuture":true`)
	}
	for _, dir := range []string{"a", "b"} { // the replica is in one of them
		content := `{"topic":"t","partition":2,"replicas":[0],"log_dirs":["` + filepath.Join(second, "0", dir) + `"]}`
		reassign("--execute", content, "--replica-alter-log-dirs-throttle", "1")
		if !moving() {
			continue
		}
		says(reassign("--cancel", content, "--preserve-throttles"), "Successfully started moving log directory to ")
		if moving() {
			t.Error("the move between directories goes on")
		}
	}

	const first, other, done = `{"topic":"t","partition":0,"replicas":[1]}`, `{"topic":"t","partition":1,"replicas":[1]}`, `{"topic":"empty","partition":0,"replicas":[1]}`
	reassign("--execute", done)
	for strings.Contains(tool("", "kafka-reassign-partitions", "--list"), "empty-0") && t.Context().Err() == nil {
	}
	tool("", "kafka-configs", "--alter", "--topic", "empty", "--add-config", "leader.replication.throttled.replicas=*")
	reassign("--execute", first, "--throttle", "1")
	reassign("--execute", other, "--throttle", "1", "--additional")
	says(tool("", "kafka-configs", "--describe", "--topic", "t"), "leader.replication.throttled.replicas=1:0,0:0 ", "follower.replication.throttled.replicas=1:1,0:1 ")
	says(reassign("--cancel", first+","+other+","+done), "Successfully cancelled partition reassignments for: t-0,t-1\n", "None of the specified partition moves are active.",
		"Clearing topic-level throttles on topics empty,t\n")
	for _, topic := range []string{"t", "empty"} {
		if described := tool("", "kafka-configs", "--describe", "--topic", topic); strings.Contains(described, "throttled") {
			t.Errorf("a throttle remains: %s", described)
		}
	}
	says(reassign("--cancel", ""), "None of the specified partition reassignments are active.\n")
}
