package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// directoryMove is a replica that moves between two log directories, a and b in dir.
type directoryMove struct {
	t        *testing.T
	dir      string
	addr     string
	cl       *kgo.Client
	adm      *kadm.Client
	topic    string
	to       string // the directory it moves to
	expected []string
}

// TestDirectoryMovesOutliveAReplacement: a replica that is on its way to another log directory when its broker is replaced
// gets there under the broker of the other kind, with what was written meanwhile, whether the first was stopped or killed.
func TestDirectoryMovesOutliveAReplacement(t *testing.T) {
	t.Parallel()
	zk := zookeeper(t)
	dir := t.TempDir()
	settings := []string{"log.dirs=" + dir + "/a," + dir + "/b", "log.segment.bytes=200000", "auto.create.topics.enable=false",
		"zookeeper.session.timeout.ms=3000", "zookeeper.connection.timeout.ms=30000"}
	ours, theirs := newProcess(t, 0, zk, settings...), newPeer(t, 0, zk, settings...)
	theirs.port = ours.port
	ours.start()
	for i, turn := range []struct {
		from, to stormBroker
		kill     bool
	}{{ours, theirs, false}, {theirs, ours, false}, {ours, theirs, true}, {theirs, ours, true}} {
		cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(ours.addr()), kgo.ProducerBatchMaxBytes(20000), kgo.ProducerBatchCompression(kgo.NoCompression()))
		m := &directoryMove{t: t, dir: dir, addr: ours.addr(), cl: cl, adm: kadm.NewClient(cl), topic: fmt.Sprint("moved-", i)}
		m.begin()
		if turn.kill {
			turn.from.kill()
			awaitUnregistered(t, zk)
		} else {
			turn.from.stop()
		}
		if turn.from == stormBroker(theirs) {
			complaints(t, filepath.Join(theirs.dir, "server.log"))
		}
		turn.to.start()
		m.write(100)
		m.finish()
		cl.Close()
	}
	if log := ours.log(); strings.Contains(log, "level=error") {
		t.Errorf("our log has errors:\n%s", log)
	}
}

// begin starts a move that takes minutes, and returns when part of the replica is copied.
func (m *directoryMove) begin() {
	m.t.Helper()
	m.limit("100000")
	_, err := m.adm.CreateTopic(m.t.Context(), 1, 1, nil, m.topic)
	must(m.t, err)
	m.write(6000)
	m.to = filepath.Join(m.dir, "a")
	if _, err := os.Stat(filepath.Join(m.to, m.topic+"-0")); err == nil {
		m.to = filepath.Join(m.dir, "b")
	}
	var move kadm.AlterReplicaLogDirsReq
	move.Add(m.to, kadm.TopicsSet{m.topic: {0: {}}})
	_, err = m.adm.AlterBrokerReplicaLogDirs(m.t.Context(), 0, move)
	must(m.t, err)
	until(m.t, "the copy has begun", func(context.Context) bool {
		logs, _ := filepath.Glob(filepath.Join(m.to, m.topic+"-0.*-future", "*.log"))
		return slices.ContainsFunc(logs, func(name string) bool { info, err := os.Stat(name); return err == nil && info.Size() > 0 })
	})
}

// finish lets the move end, and checks that the replica is complete.
func (m *directoryMove) finish() {
	m.t.Helper()
	if left := m.copies(); len(left) != 2 {
		m.t.Errorf("%s: the move ended before the other broker took it over: %v", m.topic, left)
	}
	m.limit("1000000000")
	want := []string{filepath.Join(m.to, m.topic+"-0")}
	await(m.t, m.topic+" has moved", func(context.Context) (string, bool) {
		left := m.copies()
		return fmt.Sprint(left), slices.Equal(left, want)
	})
	if got := readAll(m.t, m.addr, m.topic, 0); !slices.Equal(got, m.expected) {
		m.t.Errorf("%s: %d records after the move, want %d", m.topic, len(got), len(m.expected))
	}
	m.write(1)
}

// copies returns the replica's directories without those that only wait for their deletion.
func (m *directoryMove) copies() []string {
	found, _ := filepath.Glob(filepath.Join(m.dir, "?", m.topic+"-0*"))
	return slices.DeleteFunc(found, func(name string) bool { return strings.HasSuffix(name, "-delete") })
}

func (m *directoryMove) write(n int) {
	m.t.Helper()
	var records []*kgo.Record
	for range n {
		m.expected = append(m.expected, fmt.Sprintf("%06d%01000d", len(m.expected), 0))
		records = append(records, &kgo.Record{Topic: m.topic, Value: []byte(m.expected[len(m.expected)-1])})
	}
	must(m.t, m.cl.ProduceSync(m.t.Context(), records...).FirstErr())
}

// limit sets how many bytes a second a broker copies between its log directories.
func (m *directoryMove) limit(rate string) {
	m.t.Helper()
	_, err := m.adm.AlterBrokerConfigs(m.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "replica.alter.log.dirs.io.max.bytes.per.second", Value: &rate}}, 0)
	must(m.t, err)
}
