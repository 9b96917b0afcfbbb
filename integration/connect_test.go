//go:build compat

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testport"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// platform is a program of Kafka Connect that runs as a process: a worker, or MirrorMaker.
type platform struct {
	t     *testing.T
	class string
	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
	began int64 // size of its log when it was last started, in bytes
}

// newPlatform prepares a platform with a properties file; start starts it, also after kill.
func newPlatform(t *testing.T, class string, settings ...string) *platform {
	t.Helper()
	p := &platform{t: t, class: class, dir: t.TempDir()}
	if err := os.WriteFile(p.path("properties"), []byte(strings.Join(settings, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if log, err := os.ReadFile(p.path("log")); err == nil {
			tell(t, class, strings.Split(string(log), "\n"))
		}
	})
	return p
}

func (p *platform) path(name string) string { return filepath.Join(p.dir, name) }

func (p *platform) start() {
	p.t.Helper()
	libs := installed(p.t, "Kafka Connect", "connect", "libs")
	log, err := os.OpenFile(p.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	config, err := filepath.Abs("compat/connect/log4j.properties")
	if err != nil {
		p.t.Fatal(err)
	}
	options := []string{"-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j.configuration=file:" + config, "-cp", libs + "/*"}
	p.cmd = exec.Command("java", append(options, p.class, p.path("properties"))...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if now, err := log.Stat(); err == nil {
		p.began = now.Size()
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
}

func (p *platform) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	p.cmd = nil
}

// hasLogged reports whether its log contains a text since it was last started.
func (p *platform) hasLogged(text string) bool {
	log, err := os.ReadFile(p.path("log"))
	return err == nil && bytes.Contains(log[p.began:], []byte(text))
}

// worker is a worker of Kafka Connect in distributed mode, which is controlled over HTTP.
type worker struct {
	*platform
	url string
}

// newWorker prepares a worker of the group `connect`. It converts text. When it is gone its tasks are moved at once,
// and its sources write exactly once.
func newWorker(t *testing.T, addrs []string, replicas int, settings ...string) *worker {
	t.Helper()
	url := "http://" + testport.Address(t)
	return &worker{newPlatform(t, "org.apache.kafka.connect.cli.ConnectDistributed", append([]string{
		"bootstrap.servers=" + strings.Join(addrs, ","), "group.id=connect", "listeners=" + url,
		"config.storage.topic=connect-configs", "offset.storage.topic=connect-offsets", "status.storage.topic=connect-status",
		fmt.Sprint("config.storage.replication.factor=", replicas), fmt.Sprint("offset.storage.replication.factor=", replicas),
		fmt.Sprint("status.storage.replication.factor=", replicas), "offset.storage.partitions=5",
		"key.converter=org.apache.kafka.connect.storage.StringConverter", "value.converter=org.apache.kafka.connect.storage.StringConverter",
		"offset.flush.interval.ms=500", "scheduled.rebalance.max.delay.ms=0", "session.timeout.ms=6000", "heartbeat.interval.ms=1000",
		"exactly.once.source.support=enabled", "connector.client.config.override.policy=All", "plugin.discovery=service_load",
		"consumer.session.timeout.ms=6000", "consumer.metadata.max.age.ms=2000",
		"producer.transaction.timeout.ms=10000", // a transaction that a kill leaves open blocks the next start
	}, settings...)...), url}
}

// ask sends a request and returns the response's status and body.
func (w *worker) ask(ctx context.Context, method, path string, body any) (status int, answer string, err error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, "", err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, content)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// must repeats a request until it succeeds: a worker that is starting or rebalancing refuses requests.
func (w *worker) must(method, path string, body any) (answer string) {
	w.t.Helper()
	await(w.t, method+" "+path, func(ctx context.Context) (string, bool) {
		var status int
		var err error
		status, answer, err = w.ask(ctx, method, path, body)
		return fmt.Sprint(status, " ", answer, " ", err), err == nil && status/100 == 2
	})
	return answer
}

// connectorStatus is a connector's status as Kafka Connect reports it.
type connectorStatus struct {
	Connector connectorState
	Tasks     []connectorState
}

type connectorState struct{ State, Trace string }

// awaitRunning waits until a connector and its task run.
func (w *worker) awaitRunning(connector string) {
	w.t.Helper()
	await(w.t, connector+" runs", func(ctx context.Context) (string, bool) {
		is, answer := w.status(ctx, connector)
		return answer, is.Connector.State == "RUNNING" && len(is.Tasks) == 1 && is.Tasks[0].State == "RUNNING"
	})
}

// status requests a connector's status. A task that failed because the leading worker had just started or was just
// killed would not run again by itself, so it is restarted.
func (w *worker) status(ctx context.Context, connector string) (is connectorStatus, answer string) {
	status, answer, err := w.ask(ctx, http.MethodGet, "/connectors/"+connector+"/status", nil)
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal([]byte(answer), &is)
	}
	if len(is.Tasks) == 1 && (strings.Contains(is.Tasks[0].Trace, "not been able to read a session key") ||
		strings.Contains(is.Tasks[0].Trace, "IO Error trying to forward REST request")) {
		_, _, _ = w.ask(ctx, http.MethodPost, "/connectors/"+connector+"/restart?includeTasks=true&onlyFailed=true", nil)
	}
	return is, fmt.Sprint(status, " ", answer, " ", err)
}

// fileCopies are pairs of connectors, each of which copies the lines of a file to a topic and from there to another
// file.
type fileCopies struct {
	t     *testing.T
	dir   string
	lines [][]string // written to each source's file
}

func newFileCopies(t *testing.T, pairs int) *fileCopies {
	t.Helper()
	c := &fileCopies{t: t, dir: t.TempDir(), lines: make([][]string, pairs)}
	c.feed(1)
	return c
}

func (c *fileCopies) source(i int) string { return filepath.Join(c.dir, fmt.Sprint("source-", i)) }
func (c *fileCopies) sink(i int) string   { return filepath.Join(c.dir, fmt.Sprint("sink-", i)) }

// feed appends lines to every source's file, a few at a time.
func (c *fileCopies) feed(count int) {
	c.t.Helper()
	const atOnce = 50
	for ; count > 0; count -= atOnce {
		c.add(min(count, atOnce))
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *fileCopies) add(count int) {
	c.t.Helper()
	for i := range c.lines {
		var text strings.Builder
		for range count {
			line := fmt.Sprintf("line %d of source %d", len(c.lines[i]), i)
			c.lines[i] = append(c.lines[i], line)
			text.WriteString(line + "\n")
		}
		file, err := os.OpenFile(c.source(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			c.t.Fatal(err)
		}
		_, err = file.WriteString(text.String())
		_ = file.Close()
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// create creates the connectors. A source that has filled a batch holds further lines back until its file grows, so
// batches are large enough not to be filled.
func (c *fileCopies) create(w *worker) {
	c.t.Helper()
	for i := range c.lines {
		topic := fmt.Sprint("lines-", i)
		w.must(http.MethodPut, fmt.Sprintf("/connectors/source-%d/config", i), map[string]string{
			"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1",
			"file": c.source(i), "topic": topic, "batch.size": "1000000", "exactly.once.support": "required",
		})
		w.must(http.MethodPut, fmt.Sprintf("/connectors/sink-%d/config", i), map[string]string{
			"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1",
			"file": c.sink(i), "topics": topic, "consumer.override.isolation.level": "read_committed",
		})
	}
}

func (c *fileCopies) awaitRunning(w *worker) {
	c.t.Helper()
	for i := range c.lines {
		w.awaitRunning(fmt.Sprint("source-", i))
		w.awaitRunning(fmt.Sprint("sink-", i))
	}
}

// check waits until all lines have arrived in the files, and checks that the topics contain each of them once and in
// order.
func (c *fileCopies) check(w *worker, addrs []string) {
	c.t.Helper()
	for i := range c.lines {
		c.awaitLines(w, i)
		if d := cmp.Diff(c.lines[i], c.inTopic(addrs, i)); d != "" {
			c.t.Errorf("lines of source %d (-) and of its topic (+)\n%s", i, d)
		}
	}
}

func (c *fileCopies) awaitLines(w *worker, i int) {
	c.t.Helper()
	await(c.t, fmt.Sprint("the lines of source ", i, " are in its sink's file"), func(ctx context.Context) (string, bool) {
		missing := missingLines(c.sink(i), c.lines[i])
		if len(missing) == 0 {
			return "", true
		}
		_, source := w.status(ctx, fmt.Sprint("source-", i))
		_, sink := w.status(ctx, fmt.Sprint("sink-", i))
		return fmt.Sprintf("%d of %d lines are missing, the first is %q; %s %s", len(missing), len(c.lines[i]), missing[0], source, sink), false
	})
}

// inTopic returns the lines that a source has written.
func (c *fileCopies) inTopic(addrs []string, i int) (lines []string) {
	c.t.Helper()
	for _, r := range readRecords(c.t, addrs, fmt.Sprint("lines-", i), kgo.ReadCommitted()) {
		lines = append(lines, string(r.Value))
	}
	return lines
}

// again resets the offsets of a source or a sink (KIP-875) while it is stopped.
func (c *fileCopies) again(w *worker, connector string) {
	c.t.Helper()
	at := "/connectors/" + connector
	w.must(http.MethodPut, at+"/stop", nil)
	if offsets := w.must(http.MethodGet, at+"/offsets", nil); !strings.Contains(offsets, `"partition"`) {
		c.t.Errorf("%s has the offsets %s", connector, offsets)
	}
	w.must(http.MethodDelete, at+"/offsets", nil)
	if offsets := w.must(http.MethodGet, at+"/offsets", nil); strings.Contains(offsets, `"partition"`) {
		c.t.Errorf("%s has the offsets %s", connector, offsets)
	}
	w.must(http.MethodPut, at+"/resume", nil)
	w.awaitRunning(connector)
}

func missingLines(path string, lines []string) (missing []string) {
	data, _ := os.ReadFile(path) // a missing file counts as empty
	there := make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		there[strings.TrimSuffix(line, "\n")] = true
	}
	for _, line := range lines {
		if !there[line] {
			missing = append(missing, line)
		}
	}
	return missing
}

// TestKafkaConnect copies files through topics with two workers, while a worker and a broker are killed and started
// again: in the end no line is missing, and none is in a topic twice. Then a source and a sink start from the
// beginning.
func TestKafkaConnect(t *testing.T) {
	t.Parallel()
	server := zookeeper(t)
	var brokers []*process
	var addrs []string
	for id := range 3 {
		b := newProcess(t, id, server, "offsets.topic.replication.factor=3", "transaction.state.log.replication.factor=3",
			"transaction.state.log.min.isr=2", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000", "default.replication.factor=3", "min.insync.replicas=2")
		b.start()
		brokers, addrs = append(brokers, b), append(addrs, b.addr())
	}
	workers := []*worker{newWorker(t, addrs, 3), newWorker(t, addrs, 3)}
	for _, w := range workers {
		w.start()
	}
	copies := newFileCopies(t, 3)
	copies.create(workers[0])
	copies.awaitRunning(workers[1])
	for round := range 4 {
		copies.feed(2000)
		time.Sleep(time.Second) // they are busy by then
		if round%2 == 0 {
			workers[round/2].kill()
			copies.feed(2000)
			copies.awaitRunning(workers[1-round/2])
			workers[round/2].start()
		} else {
			brokers[round%3].kill()
			copies.feed(2000)
			brokers[round%3].start()
		}
	}
	copies.awaitRunning(workers[0])
	copies.check(workers[0], addrs)

	if err := os.Remove(copies.sink(0)); err != nil {
		t.Fatal(err)
	}
	copies.again(workers[0], "sink-0")
	copies.awaitLines(workers[0], 0)
	copies.again(workers[1], "source-1")
	copies.lines[1] = append(copies.lines[1], copies.lines[1]...)
	await(t, "the lines of source 1 are written once more", func(context.Context) (string, bool) {
		count := len(copies.inTopic(addrs, 1))
		return fmt.Sprint(count, " lines"), count >= len(copies.lines[1])
	})
	copies.check(workers[0], addrs)
}
