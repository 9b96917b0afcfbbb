package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestApacheKafkaReadsPadding: the file of a segment that is being appended to ends in padding, which for Apache Kafka's
// tool and, after a kill, for its broker is the incomplete batch of a crash. Nothing is lost.
func TestApacheKafkaReadsPadding(t *testing.T) {
	t.Parallel()
	theirs := newPeer(t, 0, zookeeper(t), "zookeeper.session.timeout.ms=3000")
	ours := newProcess(t, 0, theirs.zk, "zookeeper.session.timeout.ms=3000")
	ours.add("log.dirs=" + filepath.Join(theirs.dir, "data"))
	ours.start()
	cl := newClient(t, kgo.SeedBrokers(ours.addr()))
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	w := dialWire(t, ours.addr())
	var want []string
	for i := range 50 {
		b := record.NewBuilder()
		for j := range 20 {
			want = append(want, fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("x", 500)))
			b.Add(1_790_000_000_000, nil, []byte(want[len(want)-1]))
		}
		if p := w.produce(9, "t", b.MustBuild()); p.ErrorCode != 0 {
			t.Fatalf("error %d", p.ErrorCode)
		}
	}
	file := filepath.Join(theirs.dir, "data", "t-0", "00000000000000000000.log")
	dump := peerTool(t, "", "kafka.tools.DumpLogSegments", "--files", file)
	if n := strings.Count(dump, "baseOffset:"); n != 50 || !strings.Contains(dump, "invalid bytes at the end of 00000000000000000000.log") {
		t.Errorf("Apache Kafka's dump of a live segment has %d batches:\n%s", n, dump[max(0, len(dump)-500):])
	}
	ours.kill()
	awaitUnregistered(t, theirs.zk)
	theirs.start()
	if got := readAll(t, theirs.addr(), "t", 0); !slices.Equal(got, want) {
		t.Errorf("Apache Kafka has %d of %d records, or others", len(got), len(want))
	}
}
