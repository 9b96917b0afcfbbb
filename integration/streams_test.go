//go:build compat

package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// streamsInstance is a process that counts words with Kafka Streams.
type streamsInstance struct {
	cmd   *exec.Cmd
	ended chan struct{}
	mu    sync.Mutex // guards the fields below
	state string
	tasks taskCount
}

// taskCount is an instance's share of the work: tasks, and standby copies of other instances' stores.
type taskCount struct{ active, standby int }

// startWordCount runs compat/java/WordCount.java with arguments.
func startWordCount(t *testing.T, c *kafkatest.Cluster, args ...string) *streamsInstance {
	t.Helper()
	s := &streamsInstance{cmd: java(t, "3.9.2", append([]string{"WordCount", "bootstrap=" + strings.Join(c.Addrs(), ",")}, args...)...), ended: make(chan struct{})}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errors := &tail{}
	s.cmd.Stderr = errors
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.read(lines.Text())
		}
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("Kafka Streams: %s", errors)
		}
	})
	return s
}

func (s *streamsInstance) read(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := strings.CutPrefix(line, "state "); ok {
		s.state = state
	}
	_, _ = fmt.Sscanf(line, "tasks %d %d", &s.tasks.active, &s.tasks.standby)
}

func (s *streamsInstance) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// stop lets it leave its group.
func (s *streamsInstance) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(60 * time.Second):
		t.Fatal("an instance does not stop")
	}
}

// awaitTasks waits until all instances are running and the tasks and standby copies are distributed among them; none is
// idle.
func awaitTasks(t *testing.T, want taskCount, instances ...*streamsInstance) {
	t.Helper()
	await(t, fmt.Sprintf("%d instances share the work", len(instances)), func(context.Context) (string, bool) {
		var sum taskCount
		var each []string
		all := true
		for _, s := range instances {
			s.mu.Lock()
			sum.active, sum.standby = sum.active+s.tasks.active, sum.standby+s.tasks.standby
			all = all && s.state == "RUNNING" && s.tasks.active > 0
			each = append(each, fmt.Sprint(s.state, " ", s.tasks))
			s.mu.Unlock()
		}
		return fmt.Sprint(each), all && sum == want
	})
}

// TestKafkaStreamsScales runs an application with standby copies of its stores in one process, in three, of which one
// is killed, and in one again. Then it is reset and counts everything again.
func TestKafkaStreamsScales(t *testing.T) {
	t.Parallel()
	const partitions = 4
	c := kafkatest.Run(t, kafkatest.Brokers(3), kafkatest.Setting("group.min.session.timeout.ms", "1000"),
		kafkatest.Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", "200"))
	for _, topic := range []string{"lines", "counts"} {
		newTopic(t, c, topic, partitions, 3)
	}
	text, err := os.ReadFile("../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	cl := newClient(t, kgo.SeedBrokers(c.Addrs()...), kgo.DefaultProduceTopic("lines"))
	defer cl.Close()
	var written []byte
	feed := func() {
		t.Helper()
		for range 5 {
			for line := range bytes.Lines(text) {
				cl.Produce(t.Context(), &kgo.Record{Value: bytes.TrimSuffix(line, []byte("\n"))}, nil)
			}
			written = append(written, text...)
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Each partition has a task that splits lines into words, and one with a store that counts them.
	alone, together := taskCount{active: 2 * partitions}, taskCount{active: 2 * partitions, standby: partitions}
	folders := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	start := func(i int) *streamsInstance {
		return startWordCount(t, c, "application=scales", "in=lines", "out=counts", "standbys=1", "state="+folders[i])
	}
	feed()
	first := start(0)
	awaitTasks(t, alone, first)
	second, third := start(1), start(2)
	awaitTasks(t, together, first, second, third)
	feed()
	first.kill()
	feed()
	awaitTasks(t, together, second, third)
	second.stop(t)
	feed()
	awaitTasks(t, alone, third)
	want := countedByUniq(t, written)
	awaitCounts(t, c.Addrs(), want)
	third.stop(t)
	awaitStable(t, kadm.NewClient(cl), "counts")
	checkCounts(t, c.Addrs(), want)

	adm := kadm.NewClient(cl)
	before := recordCount(t, adm, "counts")
	if internal := topicsOf(t, adm, "scales-"); len(internal) != 2 {
		t.Errorf("the application's internal topics are %v", internal)
	}
	ourTool(t, "", "streams-application-reset", "--bootstrap-server", c.Broker(0).Addr(), "--application-id", "scales", "--input-topics", "lines", "--force")
	await(t, "the internal topics are gone", func(context.Context) (string, bool) {
		internal := topicsOf(t, adm, "scales-")
		return fmt.Sprint(internal), len(internal) == 0
	})
	folders[0] = t.TempDir()
	again := start(0)
	await(t, "all words are counted once more", func(context.Context) (string, bool) {
		now := recordCount(t, adm, "counts")
		return fmt.Sprint(now, " records after ", before), now >= before+int64(len(want))
	})
	awaitCounts(t, c.Addrs(), want)
	again.stop(t)
	checkCounts(t, c.Addrs(), want)
}

// topicsOf returns the topics whose names have a prefix.
func topicsOf(t *testing.T, adm *kadm.Client, prefix string) (names []string) {
	t.Helper()
	topics, err := adm.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

// recordCount returns the sum of a topic's end offsets.
func recordCount(t *testing.T, adm *kadm.Client, topic string) (sum int64) {
	t.Helper()
	endOffsets(t, adm, topic).Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum
}
