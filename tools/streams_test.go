package tools

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/kafkatest"
)

func toolNamed(t *testing.T, name string) Tool {
	t.Helper()
	i := slices.IndexFunc(All(), func(tool Tool) bool { return tool.Name == name })
	if i < 0 {
		t.Fatalf("there is no tool %s", name)
	}
	return All()[i]
}

// TestInterruptedProducerDeliversWhatItHasRead: an interrupt ends the console producer though its input goes on, and
// every complete line that it has read arrives.
func TestInterruptedProducerDeliversWhatItHasRead(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t).Broker(0).Addr()
	in, lines := io.Pipe()
	t.Cleanup(func() { lines.Close() })
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		_, _ = io.WriteString(lines, "one\ntwo\n")
		_, _ = io.WriteString(lines, "thr") // is read once the first lines have been dealt with
		interrupt()
	}()
	var stderr bytes.Buffer
	toolNamed(t, "kafka-console-producer").Run(ctx, &Env{Args: []string{"--bootstrap-server", addr, "--topic", "t"}, Stdin: in, Stdout: io.Discard, Stderr: &stderr})
	out := runTool(t, t.Context(), "", "kafka-console-consumer", "--bootstrap-server", addr, "--topic", "t", "--from-beginning", "--timeout-ms", "1000")
	if out.stdout != "one\ntwo\n" {
		t.Errorf("what arrived is %q; the producer said %q", out.stdout, stderr.String())
	}
}

// TestInterruptedDeliveryTellsWhatItWaitsFor: an interrupt while the last records are being delivered is answered, though
// it does not end the tool.
func TestInterruptedDeliveryTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Run(t, kafkatest.Brokers(2))
	addr := cluster.Broker(0).Addr()
	created := runTool(t, t.Context(), "", "kafka-topics", "--bootstrap-server", addr, "--create", "--topic", "t", "--replication-factor", "2", "--config", "min.insync.replicas=2")
	if created.code != 0 {
		t.Fatal(created)
	}
	cluster.Broker(1).Stop() // too few are in sync from now on
	ctx, interrupt := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, interrupt) // when the input has ended
	out := runTool(t, ctx, "one\n", "kafka-console-producer", "--bootstrap-server", addr, "--topic", "t", "--producer-property", "delivery.timeout.ms=3000")
	if !strings.Contains(out.stderr, "interrupted, waiting for the delivery of 1 records") {
		t.Errorf("the producer said %q", out.stderr)
	}
}

// TestInterruptedToolsSaySo: a tool that was interrupted does not speak of the contexts of Go.
func TestInterruptedToolsSaySo(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"kafka-topics --list", "kafka-configs --describe --topic t", "kafka-acls --list", "kafka-consumer-groups --list",
		"kafka-producer-perf-test --topic t --num-records 1 --record-size 1 --throughput -1", "kafka-get-offsets"} {
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, interrupt)
		words := append(strings.Fields(line), "--bootstrap-server", "127.0.0.1:1")
		if words[0] == "kafka-producer-perf-test" {
			words = append(strings.Fields(line), "--producer-props", "bootstrap.servers=127.0.0.1:1")
		}
		out := runTool(t, ctx, "", words[0], words[1:]...)
		if all := out.stdout + out.stderr; strings.Contains(all, "context") {
			t.Errorf("%s: %s", line, all)
		}
	}
}

// TestInterruptEndsAQuestion: nobody has to answer after an interrupt.
func TestInterruptEndsAQuestion(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Run(t)
	for _, line := range []string{
		"zookeeper-shell " + cluster.ZooKeeper(),
		"kafka-acls --authorizer-properties zookeeper.connect=" + cluster.ZooKeeper() + " --remove --topic t",
	} {
		in, answer := io.Pipe()
		t.Cleanup(func() { answer.Close() })
		ctx, interrupt := context.WithCancel(t.Context())
		go func() {
			_, _ = io.WriteString(answer, " ") // is read when the question has been asked
			interrupt()
		}()
		words := strings.Fields(line)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			toolNamed(t, words[0]).Run(ctx, &Env{Args: words[1:], Stdin: in, Stdout: io.Discard, Stderr: io.Discard})
		}()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Errorf("%s still waits", words[0])
		}
	}
}

// TestToolsEndWithoutAReader: a tool ends when nobody reads its output any more, which is no failure (| head -1).
func TestToolsEndWithoutAReader(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t).Broker(0).Addr()
	runTool(t, t.Context(), "one\ntwo\n", "kafka-console-producer", "--bootstrap-server", addr, "--topic", "t")
	for _, line := range []string{
		"kafka-topics --list", "kafka-configs --describe --topic t --all", "kafka-console-consumer --topic t --from-beginning", "kafka-console-consumer --topic t --from-beginning --group g",
	} {
		gone, stdout, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		gone.Close()
		words := strings.Fields(line)
		var stderr bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		code := toolNamed(t, words[0]).Run(ctx, &Env{Args: append(words[1:], "--bootstrap-server", addr), Stdin: strings.NewReader(""), Stdout: stdout, Stderr: &stderr})
		if code != 0 || ctx.Err() != nil || strings.Contains(stderr.String(), "pipe") {
			t.Errorf("%s: exit code %d, %v, %q", line, code, ctx.Err(), stderr.String())
		}
		cancel()
		stdout.Close()
	}
	if out := runTool(t, t.Context(), "", "kafka-consumer-groups", "--bootstrap-server", addr, "--describe", "--group", "g"); !strings.Contains(out.stdout, "\ng ") {
		t.Errorf("the group's offsets are %q", out.stdout)
	}
}
