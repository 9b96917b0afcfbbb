//go:build compat

package integration

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientsOfThisRun are the clients that compat/install installs into the directory COMPAT. kafka-go and kafkajs do not
// support static members, kafka-go no patterns.
var clientsOfThisRun = map[string]groupClient{
	"kafka-python":         {join: installedPython("kafka-python"), static: true, patterns: true, commits: allCommits},
	"confluent-kafka":      {join: installedPython("confluent-kafka"), static: true, patterns: true, commits: allCommits},
	"kafkajs":              {join: joinWithKafkaJS, patterns: true, once: true, commits: []string{commitAuto, commitSync, commitSpecific}},
	"kafka-go":             {join: joinWithKafkaGo, commits: []string{commitSpecific, commitAuto, commitSync, commitAsync}},
	"Java 3.9":             {join: javaJoiner("3.9.2", "Range"), static: true, patterns: true, commits: allCommits},
	"Java 3.9 cooperative": {join: javaJoiner("3.9.2", "CooperativeSticky"), static: true, patterns: true, commits: []string{commitAuto}},
	"Java 4.1":             {join: javaJoiner("4.1.1", "Range"), static: true, patterns: true, commits: allCommits},
	"Java 4.1 round robin": {join: javaJoiner("4.1.1", "RoundRobin"), static: true, patterns: true, commits: []string{commitSync}},
	"Java 4.1 sticky":      {join: javaJoiner("4.1.1", "Sticky"), static: true, patterns: true, commits: []string{commitSync}},
}

// installed returns the path of a file that compat/install has installed, or skips the test.
func installed(t *testing.T, what string, parts ...string) string {
	t.Helper()
	folder := os.Getenv("COMPAT")
	path := filepath.Join(append([]string{folder}, parts...)...)
	if _, err := os.Stat(path); folder == "" || err != nil {
		t.Skipf("%s is not installed (make compat says why)", what)
	}
	return path
}

func installedPython(library string) joiner {
	return func(t *testing.T, l *ledger, as membership) *member {
		t.Helper()
		return pythonJoiner(installed(t, library, "python", "bin", "python"), library)(t, l, as)
	}
}

func joinWithKafkaJS(t *testing.T, l *ledger, as membership) *member {
	t.Helper()
	modules := installed(t, "kafkajs", "javascript", "node_modules")
	cmd := exec.Command("node", append([]string{"compat/member.js"}, as.arguments()...)...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules, "KAFKAJS_NO_PARTITIONER_WARNING=1")
	return startMember(t, l, cmd, tellAsPrinted)
}

func joinWithKafkaGo(t *testing.T, l *ledger, as membership) *member {
	t.Helper()
	return startMember(t, l, exec.Command(installed(t, "kafka-go", "kafkago"), as.arguments()...), tellAsPrinted)
}

func javaJoiner(release, assignor string) joiner {
	return func(t *testing.T, l *ledger, as membership) *member {
		t.Helper()
		args := append([]string{"Member", "assignor=org.apache.kafka.clients.consumer." + assignor + "Assignor"}, as.arguments()...)
		return startMember(t, l, java(t, release, args...), tellAsPrinted)
	}
}

// java runs a program of compat/java with the libraries of a release.
func java(t *testing.T, release string, args ...string) *exec.Cmd {
	t.Helper()
	folder := "java-" + release
	classes := installed(t, "the Java client "+release, folder, "classes", args[0]+".class")
	libs := installed(t, "the Java client "+release, folder, "libs")
	options := []string{"-Xmx200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Dir(classes) + ":" + libs + "/*"}
	return exec.Command("java", append(options, args...)...)
}

// TestKafkaStreamsCountsWords counts the words of a real text with exactly_once_v2 on three brokers, while the program
// is killed and started again, and a broker is stopped and started. The counts equal those of sort and uniq.
func TestKafkaStreamsCountsWords(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Repeat(text, 20)
	c := kafkatest.Run(t, kafkatest.Brokers(3), kafkatest.Setting("group.min.session.timeout.ms", "1000"),
		kafkatest.Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", "200"))
	for _, topic := range []string{"lines", "counts"} {
		newTopic(t, c, topic, 4, 3)
	}
	state := t.TempDir()
	start := func() *streamsInstance {
		return startWordCount(t, c, "application=words", "in=lines", "out=counts", "state="+state)
	}
	cl := newClient(t, kgo.SeedBrokers(c.Addrs()...), kgo.DefaultProduceTopic("lines"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	lines := bytes.Split(text, []byte("\n"))
	const rounds = 5
	running := start()
	for round := range rounds {
		for _, line := range lines[round*len(lines)/rounds : (round+1)*len(lines)/rounds] {
			cl.Produce(t.Context(), &kgo.Record{Value: line}, nil)
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // it is busy by then
		switch {
		case round == rounds-1:
		case round%2 == 0:
			running.kill()
			running = start()
		default:
			b := c.Broker(round % 3)
			b.Stop()
			if err := b.Start(); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := countedByUniq(t, text)
	awaitCounts(t, c.Addrs(), want)
	running.kill()
	awaitStable(t, kadm.NewClient(cl), "counts")
	checkCounts(t, c.Addrs(), want)
}

func checkCounts(t *testing.T, addrs []string, want map[string]string) {
	t.Helper()
	got := latestCounts(t, addrs)
	if maps.Equal(got, want) {
		return
	}
	for _, word := range slices.Sorted(maps.Keys(want)) {
		if got[word] != want[word] {
			t.Errorf("%q is counted %q times, by uniq %q", word, got[word], want[word])
		}
	}
	t.Errorf("%d words are counted, by uniq %d", len(got), len(want))
}

// awaitCounts waits until the last value of each key is as expected. Counts only grow, so one that is too high stays
// wrong.
func awaitCounts(t *testing.T, addrs []string, want map[string]string) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !maps.Equal(latestCounts(t, addrs), want) && time.Now().Before(deadline) {
		time.Sleep(time.Second)
	}
}

// latestCounts returns the last value of each key, as a read_committed consumer sees it.
func latestCounts(t *testing.T, addrs []string) map[string]string {
	t.Helper()
	counts := make(map[string]string)
	for _, r := range readRecords(t, addrs, "counts", kgo.ReadCommitted()) {
		counts[string(r.Key)] = string(r.Value)
	}
	return counts
}

// countedByUniq counts words with a shell pipeline.
func countedByUniq(t *testing.T, text []byte) map[string]string {
	t.Helper()
	cmd := exec.Command("sh", "-c", `tr ' ' '\n' | grep -v '^$' | LC_ALL=C sort | LC_ALL=C uniq -c`)
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		count, word, _ := strings.Cut(strings.TrimSpace(line), " ")
		counts[word] = count
	}
	return counts
}
