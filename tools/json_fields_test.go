package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"barnabas/kafkatest"
)

// TestFieldsThatAreMissing: a forgotten field does not stand for partition 0 or offset 0. A list without partitions is
// complete.
func TestFieldsThatAreMissing(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t).Broker(0).Addr()
	runTool(t, t.Context(), "1\n2\n3\n", "kafka-console-producer", "--bootstrap-server", addr, "--topic", "t")
	for _, test := range []struct {
		line, content, missing string
		code                   int
	}{
		{"kafka-delete-records --offset-json-file", `{"partitions":[{"topic":"t","offset":2}]}`, "partition", 1},
		{"kafka-delete-records --offset-json-file", `{"partitions":[{"topic":"t","partition":0}]}`, "offset", 1},
		{"kafka-delete-records --offset-json-file", `{"partitions":[{"partition":0,"offset":2}]}`, "topic", 1},
		{"kafka-delete-records --offset-json-file", `{"partitions":[]}`, "", 0},
		{"kafka-leader-election --election-type unclean --path-to-json-file", `{"partitions":[{"topic":"t"}]}`, "partition", 1},
		{"kafka-leader-election --election-type unclean --path-to-json-file", `{"partitions":[{"partition":0}]}`, "topic", 1},
		{"kafka-leader-election --election-type unclean --path-to-json-file", `{"partitions":[]}`, "", 0},
		{"kafka-leader-election --election-type unclean --path-to-json-file", `{}`, "", 1},
		{"kafka-reassign-partitions --execute --reassignment-json-file", `{"partitions":[{"topic":"t","replicas":[0]}]}`, "partition", 1},
		{"kafka-reassign-partitions --verify --reassignment-json-file", `{"partitions":[{"topic":"t","partition":0}]}`, "replicas", 1},
		{"kafka-reassign-partitions --execute --reassignment-json-file", `{"partitions":[]}`, "", 1},
		{"kafka-reassign-partitions --verify --reassignment-json-file", `{"partitions":[]}`, "", 0},
		{"kafka-reassign-partitions --cancel --reassignment-json-file", `{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}`, "", 0},
	} {
		file := filepath.Join(t.TempDir(), "file.json")
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		words := append(strings.Fields(test.line), file, "--bootstrap-server", addr)
		out := runTool(t, t.Context(), "", words[0], words[1:]...)
		if out.code != test.code || test.missing != "" && !strings.Contains(out.stdout+out.stderr, "no such field exists: `"+test.missing+"`") {
			t.Errorf("%s %s: exit code %d, %q, %q", test.line, test.content, out.code, out.stdout, out.stderr)
		}
	}
	if out := runTool(t, t.Context(), "", "kafka-get-offsets", "--bootstrap-server", addr, "--topic", "t", "--time", "-2"); out.stdout != "t:0:0\n" {
		t.Errorf("the log starts at %q", out.stdout)
	}
}
