package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testport"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// peer returns the launcher of Apache Kafka, or skips the test.
func peer(t testing.TB) string {
	t.Helper()
	launcher := os.Getenv("PEER")
	need(t, "PEER, a launcher of Apache Kafka,", launcher != "")
	return launcher
}

// peerBroker is a broker of Apache Kafka.
type peerBroker struct {
	t        testing.TB
	launcher string
	dir      string
	id, port int
	zk       string
	settings []string
	options  string // of the JVM
}

// newPeer prepares a broker; start starts it, also after kill or stop.
func newPeer(t testing.TB, id int, zookeeper string, settings ...string) *peerBroker {
	t.Helper()
	p := &peerBroker{t: t, launcher: peer(t), dir: t.TempDir(), id: id, port: testport.Reserve(t), zk: zookeeper, settings: settings}
	t.Cleanup(func() {
		p.kill()
		if log, err := os.ReadFile(filepath.Join(p.dir, "server.log")); err == nil {
			tell(t, p.addr(), strings.Split(string(log), "\n"))
		}
	})
	return p
}

func (p *peerBroker) addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

func (p *peerBroker) start() {
	p.t.Helper()
	args := append([]string{"broker", p.dir, strconv.Itoa(p.id), strconv.Itoa(p.port), p.zk}, p.settings...)
	cmd := exec.Command(p.launcher, args...)
	cmd.Env = append(os.Environ(), "PEER_HEAP=400m")
	if p.options != "" {
		cmd.Env = append(cmd.Env, "PEER_OPTS="+p.options)
	}
	// Not CombinedOutput: the broker keeps the launcher's pipes open.
	log, err := os.Create(filepath.Join(p.dir, "launcher.log"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(log.Name())
		p.t.Fatalf("Apache Kafka does not start: %v %s", err, text)
	}
	p.awaitController()
}

// awaitController waits until the broker, which already listens, knows the controller: until then it refuses requests
// for the controller. A broker without a plaintext listener is not asked.
func (p *peerBroker) awaitController() {
	p.t.Helper()
	cl := newClient(p.t, kgo.SeedBrokers(p.addr()), kgo.RequestRetries(0))
	defer cl.Close()
	until(p.t, "Apache Kafka knows the controller", func(ctx context.Context) bool {
		known, err := kadm.NewClient(cl).BrokerMetadata(ctx)
		return err != nil || known.Controller >= 0
	})
}

func (p *peerBroker) stop() { _ = exec.Command(p.launcher, "stop", p.dir).Run() }
func (p *peerBroker) kill() { _ = exec.Command(p.launcher, "stop", p.dir, "KILL").Run() }

// pid returns the broker's process id.
func (p *peerBroker) pid() int {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "pid"))
	if err != nil {
		p.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		p.t.Fatal(err)
	}
	return pid
}

// send sends a signal to the broker.
func (p *peerBroker) send(s syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(p.pid(), s); err != nil {
		p.t.Fatal(err)
	}
}

// startPeer runs a broker of Apache Kafka and returns its address, its log directory and a function to stop it cleanly.
func startPeer(t testing.TB, id int, zookeeper string, settings ...string) (addr, logs string, stop func()) {
	t.Helper()
	p := newPeer(t, id, zookeeper, settings...)
	p.start()
	return p.addr(), filepath.Join(p.dir, "data"), p.stop
}

// compareAnswers uses a broker of Apache Kafka and one of ours, each alone in its cluster, and compares what use returns.
// It returns their log directories.
func compareAnswers[T any](t *testing.T, use func(t *testing.T, addr string) T, settings ...string) (theirLogs, ourLogs string) {
	t.Helper()
	peer(t)
	zookeeper := zookeeper(t)
	theirs, theirLogs, stopTheirs := startPeer(t, 0, zookeeper+"/theirs", settings...)
	want := use(t, theirs)
	stopTheirs()
	ours := newProcess(t, 0, zookeeper+"/ours", settings...)
	ours.start()
	got := use(t, ours.addr())
	ours.stop()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Apache Kafka's answers (-) and ours (+)\n%s", diff)
	}
	return theirLogs, ours.logDir()
}

// peerTool runs one of Apache Kafka's command-line tools with an input and returns its output.
func peerTool(t *testing.T, stdin string, class string, args ...string) string {
	t.Helper()
	cmd := exec.Command(peer(t), append([]string{"tool", class}, args...)...)
	if stdin != "" {
		in, err := os.Open(stdin)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = in.Close() }()
		cmd.Stdin = in
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", class, err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// populate does the same with any broker: topics with and without settings, added partitions, records with fixed
// timestamps, a deleted topic, settings that were set and removed.
func populate(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cl := newClient(t, kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
		kgo.MaxProduceRequestsInflightPerBroker(1), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	adm := kadm.NewClient(cl)
	value := func(v string) *string { return &v }
	_, err := adm.CreateTopic(ctx, 3, 1, nil, "plain")
	must(t, err)
	_, err = adm.CreateTopic(ctx, 1, 1, map[string]*string{"cleanup.policy": value("compact"), "segment.bytes": value("2000"),
		"index.interval.bytes": value("100")}, "with.settings")
	must(t, err)
	_, err = adm.CreateTopic(ctx, 1, 1, nil, "to-be-deleted")
	must(t, err)
	_, err = adm.DeleteTopic(ctx, "to-be-deleted")
	must(t, err)
	_, err = adm.UpdatePartitions(ctx, 4, "plain")
	must(t, err)
	_, err = adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: value("-1")}}, "plain")
	must(t, err)
	start := time.UnixMilli(1_790_000_000_000)
	for i := range 60 {
		for _, topic := range []string{"plain", "with.settings"} {
			r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key %d", i), Value: bytes.Repeat([]byte{'v'}, 100), Timestamp: start.Add(time.Duration(i) * time.Second)}
			must(t, cl.ProduceSync(ctx, r).FirstErr())
		}
	}
	_, err = adm.DeleteRecords(ctx, kadm.Offsets{"plain": {0: {Topic: "plain", Partition: 0, At: 10}}})
	must(t, err)
}

// TestZnodesAndFilesAreThoseOfApacheKafka does the same with a broker of each kind and compares the results: the znodes
// while they run, the log directories after a clean stop. Only ids and times may differ.
func TestZnodesAndFilesAreThoseOfApacheKafka(t *testing.T) {
	peer(t)
	zookeeper := zookeeper(t)
	ours := newProcess(t, 0, zookeeper+"/ours")
	ours.start()
	theirs, theirLogs, stopTheirs := startPeer(t, 0, zookeeper+"/theirs")
	populate(t, ours.addr())
	populate(t, theirs)

	ourTree, theirTree := settledTree(t, zookeeper, "/ours"), settledTree(t, zookeeper, "/theirs")
	if diff := cmp.Diff(theirTree, ourTree); diff != "" {
		t.Errorf("znodes: Apache Kafka's (-) and ours (+)\n%s", diff)
	}
	ours.stop()
	stopTheirs()
	if diff := cmp.Diff(filesOf(t, theirLogs), filesOf(t, ours.logDir())); diff != "" {
		t.Errorf("log directories: Apache Kafka's (-) and ours (+)\n%s", diff)
	}
}

// settledTree reads all znodes once the deleted topic is gone.
func settledTree(t *testing.T, server, root string) map[string]string {
	t.Helper()
	conn, _, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	until(t, "deleted topics are gone", func(context.Context) bool {
		left, _, err := conn.Children(root + "/admin/delete_topics")
		return err == nil && len(left) == 0
	})
	tree := make(map[string]string)
	readTree(t, conn, root, "", tree)
	return tree
}

func readTree(t *testing.T, conn *zk.Conn, root, path string, tree map[string]string) {
	t.Helper()
	data, stat, err := conn.Get(root + path)
	if err != nil {
		t.Fatal(err)
	}
	kind := "persistent"
	if stat.EphemeralOwner != 0 {
		kind = "ephemeral"
	}
	tree[path] = kind + " " + maskNode(data)
	children, _, err := conn.Children(root + path)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		readTree(t, conn, root, path+"/"+child, tree)
	}
}

// maskNode returns a znode's data with sorted keys and without what differs between runs.
func maskNode(data []byte) string {
	if data == nil {
		return "null"
	}
	var object map[string]any
	if json.Unmarshal(data, &object) != nil {
		return string(data)
	}
	for _, key := range []string{"timestamp", "topic_id", "id", "port", "endpoints"} {
		if _, there := object[key]; there {
			object[key] = "masked"
		}
	}
	masked, _ := json.Marshal(object)
	return string(masked)
}

var (
	topicIDs  = regexp.MustCompile(`topic_id: [A-Za-z0-9_-]{22}`)
	deletions = regexp.MustCompile(`\.[0-9a-f]{32}-delete`)
)

// filesOf returns the content of every file in a log directory, with ids and times masked.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name = deletions.ReplaceAllString(name, ".ID-delete")
		files[name] = maskFile(filepath.Base(path), data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func maskFile(name string, data []byte) string {
	text := string(data)
	switch {
	case name == "meta.properties":
		lines := strings.Split(strings.TrimSpace(text), "\n")
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") })
		for i, l := range lines {
			if strings.HasPrefix(l, "cluster.id=") {
				lines[i] = "cluster.id=masked"
			}
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	case name == "partition.metadata":
		return topicIDs.ReplaceAllString(text, "topic_id: masked")
	case strings.HasSuffix(name, "-checkpoint"): // lines have no defined order
		lines := strings.Split(text, "\n")
		if len(lines) > 2 {
			slices.Sort(lines[2:])
		}
		return strings.Join(lines, "\n")
	}
	return fmt.Sprintf("%d bytes %x", len(data), data)
}
