package integration

import (
	"context"
	"crypto/sha512"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// eagerCleaner makes a broker compact everything as soon as possible.
var eagerCleaner = []string{"log.cleaner.backoff.ms=200", "log.cleaner.min.cleanable.ratio=0.001", "log.cleaner.dedupe.buffer.size=4000000",
	"log.segment.delete.delay.ms=500", "offsets.topic.num.partitions=1", "offsets.topic.segment.bytes=20000",
	"transaction.state.log.num.partitions=1", "transaction.state.log.segment.bytes=20000", "auto.create.topics.enable=false"}

// keyedTopic writes to a compacted topic and knows what must be in it.
type keyedTopic struct {
	t       *testing.T
	addr    string
	round   int
	written map[int64]string  // by offset: committed records
	live    map[string]string // the last value of each key, without deleted keys
	end     int64
	group   int64 // the last offset that was committed
}

const (
	compactedTopic = "ledger"
	ledgerGroup    = "readers"
)

func (l *keyedTopic) ctx() context.Context {
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	l.t.Cleanup(cancel)
	return ctx
}

func (l *keyedTopic) client(opts ...kgo.Opt) *kgo.Client {
	l.t.Helper()
	cl := newClient(l.t, append([]kgo.Opt{kgo.AlwaysRetryEOF(), kgo.SeedBrokers(l.addr), kgo.ConsiderMissingTopicDeletedAfter(time.Hour)}, opts...)...)
	l.t.Cleanup(cl.Close)
	return cl
}

func (l *keyedTopic) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *keyedTopic) create(replicas int16) {
	value := func(v string) *string { return &v }
	_, err := kadm.NewClient(l.client()).CreateTopic(l.ctx(), 1, replicas, map[string]*string{"cleanup.policy": value("compact"),
		"segment.bytes": value("16384"), "index.interval.bytes": value("1000"), "delete.retention.ms": value("1000"),
		"file.delete.delay.ms": value("500")}, compactedTopic)
	l.must(err)
}

// play writes a round of records, some of them in transactions that are aborted, and commits offsets of a group.
func (l *keyedTopic) play() {
	l.t.Helper()
	l.round++
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	plain := l.client(kgo.ProducerBatchCompression(codecs[l.round%len(codecs)]), kgo.ProducerLinger(5*time.Millisecond))
	txn := l.client(kgo.TransactionalID("ledger"), kgo.ProducerBatchCompression(codecs[(l.round+2)%len(codecs)]))
	adm := kadm.NewClient(plain)
	for burst := range 12 {
		l.write(plain, burst, 40, true)
		l.must(txn.BeginTransaction())
		commit := burst%3 != 0
		l.write(txn, burst+100, 10, commit)
		l.must(txn.EndTransaction(l.ctx(), kgo.TransactionEndTry(commit)))
		for i := range 20 {
			l.group = int64(l.round*10000 + burst*100 + i)
			var offsets kadm.Offsets
			offsets.AddOffset(compactedTopic, 0, l.group, -1)
			l.must(adm.CommitAllOffsets(l.ctx(), ledgerGroup, offsets))
		}
	}
	plain.Close()
	txn.Close()
}

// write sends n records whose keys repeat; every seventh is a tombstone.
func (l *keyedTopic) write(cl *kgo.Client, burst, n int, counts bool) {
	l.t.Helper()
	var records []*kgo.Record
	for i := range n {
		r := &kgo.Record{Topic: compactedTopic, Key: fmt.Appendf(nil, "key %d", (burst*7+i*3+l.round)%90),
			Value:   fmt.Appendf(nil, "round %d burst %d record %d %x", l.round, burst, i, sha512.Sum512(fmt.Append(nil, l.round, burst, i))),
			Headers: []kgo.RecordHeader{{Key: "round", Value: []byte{byte(l.round)}}}}
		if i%7 == 3 {
			r.Value = nil
		}
		records = append(records, r)
	}
	for _, res := range cl.ProduceSync(l.ctx(), records...) {
		l.must(res.Err)
		r := res.Record
		l.end = max(l.end, r.Offset+1)
		if !counts {
			continue
		}
		l.written[r.Offset] = whole(r)
		l.live[string(r.Key)] = string(r.Value)
		if r.Value == nil {
			delete(l.live, string(r.Key))
		}
	}
}

// whole returns a record's key, value and headers.
func whole(r *kgo.Record) string { return fmt.Sprintf("%s=%s %q", r.Key, r.Value, r.Headers) }

// check reads everything as a read_committed consumer does, and compares.
func (l *keyedTopic) check(when string) (records int) {
	l.t.Helper()
	cl := l.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{compactedTopic: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(200*time.Millisecond))
	defer cl.Close()
	live := make(map[string]string)
	last := int64(-1)
	for ctx := l.ctx(); last < l.end-1; {
		fetches := cl.PollFetches(ctx)
		l.must(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset <= last {
				l.t.Fatalf("%s: offset %d follows %d", when, r.Offset, last)
			}
			last = r.Offset
			if r.Attrs.IsControl() {
				return
			}
			records++
			if want, ok := l.written[r.Offset]; !ok || want != whole(r) {
				l.t.Errorf("%s: record %d is %s, want %q", when, r.Offset, whole(r), want)
			}
			live[string(r.Key)] = string(r.Value)
			if r.Value == nil {
				delete(live, string(r.Key))
			}
		})
	}
	if diff := cmp.Diff(l.live, live); diff != "" {
		l.t.Errorf("%s: last values (-want +got):\n%s", when, diff)
	}
	if l.round == 0 {
		return records
	}
	var committed kadm.OffsetResponses
	until(l.t, "the coordinator answers", func(ctx context.Context) bool { // the client does not ask again while it is not known
		var err error
		committed, err = kadm.NewClient(cl).FetchOffsets(ctx, ledgerGroup)
		return err == nil
	})
	if at, _ := committed.Lookup(compactedTopic, 0); at.At != l.group {
		l.t.Errorf("%s: the group is at %d, want %d", when, at.At, l.group)
	}
	return records
}

// awaitCompaction waits until a log directory's topics are compacted up to the given offsets.
func awaitCompaction(t *testing.T, logDir string, want map[string]int64) {
	t.Helper()
	await(t, fmt.Sprintf("compacted up to %v", want), func(context.Context) (string, bool) {
		text, _ := os.ReadFile(filepath.Join(logDir, "cleaner-offset-checkpoint"))
		cleaned := make(map[string]int64)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 3 {
				cleaned[f[0]], _ = strconv.ParseInt(f[2], 10, 64)
			}
		}
		done := true
		for topic, offset := range want {
			done = done && cleaned[topic] >= offset
		}
		return string(text), done
	})
}

// TestCompaction: a broker compacts a topic with transactions, and its internal topics, while it serves them, and
// through kills.
func TestCompaction(t *testing.T) {
	p := newProcess(t, 0, zookeeper(t), eagerCleaner...)
	p.start()
	l := &keyedTopic{t: t, addr: p.addr(), written: make(map[int64]string), live: make(map[string]string)}
	l.create(1)
	for round := range 3 {
		from := l.end
		l.play()
		if round == 1 {
			p.kill()
			p.start()
		}
		awaitCompaction(t, p.logDir(), map[string]int64{compactedTopic: from + 1, "__consumer_offsets": 1})
		if n := l.check(fmt.Sprint("round ", round)); round > 0 && n > len(l.written)*3/4 {
			t.Errorf("%d of %d records are left", n, len(l.written))
		}
	}
	if !strings.Contains(p.log(), "compacted log") {
		t.Error("it was not logged")
	}
	p.stop()
	p.start()
	l.check("after a restart")
}

// TestCompactedReplica: a follower catches up with a leader that has compacted what the follower has missed, and then
// leads.
func TestCompactedReplica(t *testing.T) {
	t.Parallel()
	zk := zookeeper(t)
	settings := append(slices.Clone(eagerCleaner), "offsets.topic.replication.factor=2", "transaction.state.log.replication.factor=2",
		"controlled.shutdown.enable=true")
	leader, follower := newProcess(t, 0, zk, settings...), newProcess(t, 1, zk, settings...)
	leader.start()
	follower.start()
	l := &keyedTopic{t: t, addr: leader.addr(), written: make(map[int64]string), live: make(map[string]string)}
	l.create(2)
	l.play()
	follower.stop()
	from := l.end
	l.play()
	awaitCompaction(t, leader.logDir(), map[string]int64{compactedTopic: from + 1})
	l.check("with one broker")
	follower.start()
	l.awaitReplicas(2)
	leader.stop()
	l.addr = follower.addr()
	l.awaitLeader(1)
	l.check("from the follower")
	from = l.end
	l.play()
	awaitCompaction(t, follower.logDir(), map[string]int64{compactedTopic: from + 1})
	l.check("compacted by the follower")
}

// awaitLeader waits until the broker that is asked reports this leader.
func (l *keyedTopic) awaitLeader(id int32) {
	l.t.Helper()
	adm := kadm.NewClient(l.client())
	until(l.t, fmt.Sprintf("broker %d leads", id), func(ctx context.Context) bool {
		topics, err := adm.ListTopics(ctx, compactedTopic)
		return err == nil && topics[compactedTopic].Partitions[0].Leader == id // the client may still ask a broker that has stopped
	})
}

// awaitReplicas waits until every partition has n replicas in sync.
func (l *keyedTopic) awaitReplicas(n int) {
	l.t.Helper()
	adm := kadm.NewClient(l.client())
	until(l.t, fmt.Sprintf("all partitions have %d replicas in sync", n), func(ctx context.Context) bool {
		topics, err := adm.ListTopicsWithInternal(ctx)
		if err != nil {
			return false
		}
		behind := 0
		topics.EachPartition(func(p kadm.PartitionDetail) {
			if len(p.ISR) < n {
				behind++
			}
		})
		return behind == 0
	})
}

// TestCompactionWithApacheKafka: brokers of both kinds take turns on a log directory with compacted topics: each opens
// what the other has written and compacted, without complaints, and continues.
func TestCompactionWithApacheKafka(t *testing.T) {
	peer(t)
	zk := zookeeper(t)
	ours := newProcess(t, 0, zk, eagerCleaner...)
	ours.start()
	l := &keyedTopic{t: t, addr: ours.addr(), written: make(map[int64]string), live: make(map[string]string)}
	l.create(1)
	for turn := range 2 {
		when := fmt.Sprint("turn ", turn, ", ours")
		from := l.end
		l.check(when + ", first")
		l.play()
		awaitCompaction(t, ours.logDir(), map[string]int64{compactedTopic: from + 1, "__consumer_offsets": 1})
		l.check(when)
		ours.stop()
		dumpWithApacheKafka(t, ours.logDir())

		when = fmt.Sprint("turn ", turn, ", theirs")
		from = l.end
		settings := append(slices.Clone(eagerCleaner), "log.dirs="+ours.logDir(), "offsets.topic.replication.factor=1",
			"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1", "group.initial.rebalance.delay.ms=0")
		addr, data, stop := startPeer(t, 0, zk, settings...)
		l.addr = addr
		l.check(when + ", first")
		l.play()
		awaitCompaction(t, ours.logDir(), map[string]int64{compactedTopic: from + 1, "__consumer_offsets": 1})
		l.check(when)
		stop()
		complaints(t, filepath.Join(filepath.Dir(data), "server.log"))
		ours.start()
		l.addr = ours.addr()
	}
	l.check("at the end")
}

// dumpWithApacheKafka reads every segment and index of a log directory with Apache Kafka's own tool.
func dumpWithApacheKafka(t *testing.T, logDir string) {
	t.Helper()
	files := make(map[string]bool)
	for _, pattern := range []string{"*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot"} {
		found, err := filepath.Glob(filepath.Join(logDir, "*-0", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			files[f] = true
		}
	}
	out := peerTool(t, "", "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", strings.Join(slices.Sorted(maps.Keys(files)), ","))
	if !strings.Contains(out, "baseOffset") {
		t.Errorf("kafka-dump-log shows no batch:\n%s", out)
	}
	for line := range strings.Lines(out) {
		for _, bad := range []string{"ismatch", "invalid", "isvalid: false", "rror", "orrupt", "Found timestamp", "larger than"} {
			if strings.Contains(line, bad) {
				t.Errorf("kafka-dump-log: %s", line)
			}
		}
	}
}

// complaints fails the test for lines of Apache Kafka's log that complain about files.
func complaints(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		about := strings.Contains(line, "log.Log") || strings.Contains(line, "kafka.log") || strings.Contains(line, "storage.internals")
		if about && (strings.Contains(line, " WARN ") || strings.Contains(line, " ERROR ") || strings.Contains(line, "orrupt")) {
			t.Errorf("Apache Kafka complains: %s", line)
		}
	}
}
