package tools

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"barnabas/kafkatest"
)

// watched collects the output of a tool that does not end by itself, and ends the tool when a certain line appears.
type watched struct {
	mu  sync.Mutex
	buf bytes.Buffer
	end *regexp.Regexp
	run context.CancelFunc
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(b)
	if w.end.Match(w.buf.Bytes()) {
		w.run()
	}
	return len(b), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// await sets the line to watch for from now on, and what it ends.
func (w *watched) await(end string, run context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end, w.run = regexp.MustCompile(end), run
}

func replicaVerificationTool() Tool {
	return Tool{Name: "kafka-replica-verification", run: replicaVerification}
}

// verifyReplicas runs kafka-replica-verification until its standard output matches end.
func verifyReplicas(t *testing.T, end string, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out := &watched{end: regexp.MustCompile("(?m)" + end), run: cancel}
	var stderr bytes.Buffer
	code := replicaVerificationTool().Run(ctx, &Env{
		Args:   append([]string{"--max-wait-ms", "100", "--report-interval-ms", "1", "--time", "-2"}, args...),
		Stdout: out, Stderr: &stderr,
	})
	if !out.end.MatchString(out.String()) {
		t.Fatalf("exit code %d, no line matches %s in %q; standard error %q", code, end, out.String(), stderr.String())
	}
	return output{out.String(), stderr.String(), code}
}

// differing returns the lines of kafka-replica-verification except those about progress and those that only our tool
// prints, without times and checksums.
func differing(stdout string) string {
	var b strings.Builder
	for line := range strings.Lines(stdout) {
		line = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: `).ReplaceAllString(line, "TIME: ")
		line = regexp.MustCompile(`checksum \d+`).ReplaceAllString(line, "checksum SUM")
		if !strings.Contains(line, "max lag is") && !strings.Contains(line, "corrupt batch") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestReplicaVerification compares with lines that the original tool printed for two brokers, with replica 2 changed in
// the same way.
func TestReplicaVerification(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Run(t, kafkatest.Brokers(3))
	addr := cluster.Broker(0).Addr()
	tool := func(stdin, name string, args ...string) {
		t.Helper()
		if out := runTool(t, t.Context(), stdin, name, append(args, "--bootstrap-server", addr)...); out.code != 0 {
			t.Fatalf("%s: exit code %d: %s", name, out.code, out.stderr)
		}
	}
	tool("", "kafka-topics", "--create", "--topic", "t", "--replica-assignment", "1:2")
	tool("", "kafka-topics", "--create", "--topic", "u", "--replica-assignment", "0:1:2,1:2:0")
	for _, line := range []string{"a\n", "b\n", "c\n"} {
		tool(line, "kafka-console-producer", "--topic", "t")
	}
	tool("d\n", "kafka-console-producer", "--topic", "u")
	golden := make(map[string]goldenRun)
	for _, run := range readGolden(t, "testdata/replica-verification.txt") {
		golden[run.line] = run
	}
	check := func(what string, out output) {
		t.Helper()
		want, ok := golden[what]
		if !ok {
			t.Fatalf("nothing is recorded for %s", what)
		}
		diff(t, what, differing(want.stdout), differing(out.stdout))
		const warning = "WARN This tool is deprecated and may be removed in a future major release. (org.apache.kafka.tools.ReplicaVerificationTool)\n"
		if !strings.HasSuffix(strings.SplitAfter(out.stderr, "\n")[0], warning) || !strings.HasSuffix(strings.SplitAfter(want.stderr, "\n")[0], warning) {
			t.Errorf("%s: standard error %q, recorded %q", what, out.stderr, want.stderr)
		}
	}
	const reached = `: max lag is 0 for partition t-0 at offset 3 among 1 partitions$`
	check("equal", verifyReplicas(t, reached, "--broker-list", addr, "--topics-include", "t"))
	verifyReplicas(t, ` max lag is 0 for partition t-0 at offset 3 among 3 partitions$`, "--broker-list", addr, "--topic-white-list", "t|u")

	follower := cluster.Broker(2)
	file := filepath.Join(follower.LogDir(), "t-0", "00000000000000000000.log")
	whole := changeStopped(t, follower, file, func(log []byte) []byte {
		log[batchEnd(log)+17] ^= 1 // the checksum
		return log
	})
	out := verifyReplicas(t, reached, "--broker-list", addr, "--topics-include", "t")
	check("checksum", out)
	if !strings.Contains(out.stdout, "partition t-0 has a corrupt batch at offset 1; replica 2's content is not that of its checksum ") {
		t.Errorf("the corrupt batch is not reported: %q", out.stdout)
	}

	changeStopped(t, follower, file, func([]byte) []byte {
		first := batchEnd(whole)
		return append(whole[:first:first], whole[first+batchEnd(whole[first:]):]...)
	})
	out = verifyReplicas(t, `doesn't match`, "--broker-list", addr, "--topics-include", "t")
	check("offsets", out)
	if out.code != 1 {
		t.Errorf("exit code %d when offsets differ", out.code)
	}

	follower.Stop()
	if err := os.WriteFile(file, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	out = verifyReplicas(t, `max lag is 3 for partition t-0 at offset 0`, "--broker-list", addr, "--topics-include", "t")
	if n := strings.Count(out.stderr, "WARN broker 2: "); n != 1 {
		t.Errorf("that a broker is away was reported %d times: %q", n, out.stderr)
	}
}

func TestReplicaVerificationWaitsForABroker(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Run(t, kafkatest.Brokers(2))
	addr := cluster.Broker(0).Addr()
	for _, run := range [][]string{{"", "kafka-topics", "--create", "--topic", "t", "--replica-assignment", "0:1"}, {"a\n", "kafka-console-producer", "--topic", "t"}} {
		if out := runTool(t, t.Context(), run[0], run[1], append(run[2:], "--bootstrap-server", addr)...); out.code != 0 {
			t.Fatalf("%s: exit code %d: %s", run[1], out.code, out.stderr)
		}
	}
	away := cluster.Broker(1)
	away.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	waits, waiting := context.WithCancel(ctx)
	out := &watched{end: regexp.MustCompile(`max lag is 1 for partition t-0 at offset 0`), run: waiting}
	done := make(chan int)
	var stderr bytes.Buffer
	go func() {
		done <- replicaVerificationTool().Run(ctx, &Env{Stdout: out, Stderr: &stderr,
			Args: []string{"--bootstrap-server", addr, "--max-wait-ms", "100", "--report-interval-ms", "1", "--time", "-2"}})
	}()
	<-waits.Done()
	out.await(`max lag is 0 for partition t-0 at offset 1`, cancel)
	if err := away.Start(); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != 0 || !strings.Contains(out.String(), "max lag is 0 for partition t-0 at offset 1") {
		t.Errorf("exit code %d, printed %q and %q", code, out.String(), stderr.String())
	}
}

// changeStopped changes a file of a broker while the broker is stopped, and returns the previous content.
func changeStopped(t *testing.T, b *kafkatest.Broker, file string, change func([]byte) []byte) []byte {
	t.Helper()
	b.Stop()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, change(bytes.Clone(before)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	return before
}

// batchEnd returns the position where the first batch of a log ends.
func batchEnd(log []byte) int { return 12 + int(binary.BigEndian.Uint32(log[8:])) }

func TestReplicaVerificationRefusesOptions(t *testing.T) {
	for args, want := range map[string]string{
		"--time -1":                   `missing required argument "broker-list"`,
		"--broker-list h:1 --time -3": "invalid value -3 of --time",
		"--broker-list h:1 --topics-include a --topic-white-list b": `option "topics-include" can't be used with option "topic-white-list"`,
		"--broker-list h:1 --fetch-size x":                          "cannot parse argument 'x' of option fetch-size",
		"--broker-list h --topics-include a":                        "invalid url in bootstrap.servers: h",
	} {
		out := runTool(t, t.Context(), "", "kafka-replica-verification", strings.Fields(args)...)
		if out.code != 1 || !strings.Contains(out.stderr, want) {
			t.Errorf("%s: exit code %d, standard error %q", args, out.code, out.stderr)
		}
	}
}
