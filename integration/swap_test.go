package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// storedTopic is a topic with one partition and what must be in it.
type storedTopic struct {
	name      string
	settings  map[string]string
	codec     kgo.CompressionCodec
	txn       bool // written in transactions, some of which are aborted or never completed
	old       bool // stored as messages rather than batches
	timeless  bool // message format 0
	compacted bool

	records []*kgo.Record     // the visible ones, by offset
	live    map[string]string // the last value of each key, if tombstones may have been removed
	end     int64
}

// storedTopics returns topics for each way of storing records: format, codec of the topic or the producer,
// transactions, compaction.
func storedTopics() []*storedTopic {
	format := func(version string) map[string]string { return map[string]string{"message.format.version": version} }
	newest, old := format("2.8"), format("0.10.2")
	return []*storedTopic{
		{name: "plain", codec: kgo.NoCompression(), settings: newest},
		{name: "gzip", codec: kgo.GzipCompression(), settings: newest},
		{name: "snappy", codec: kgo.SnappyCompression(), settings: newest},
		{name: "lz4", codec: kgo.Lz4Compression(), settings: newest},
		{name: "zstd", codec: kgo.ZstdCompression(), settings: newest},
		{name: "recast", codec: kgo.Lz4Compression(), settings: map[string]string{"message.format.version": "2.8", "compression.type": "zstd"}},
		{name: "transactional", codec: kgo.SnappyCompression(), settings: newest, txn: true},
		{name: "compacted", codec: kgo.GzipCompression(), settings: newest, compacted: true},
		{name: "v1", codec: kgo.NoCompression(), settings: old, old: true},
		{name: "v1-lz4", codec: kgo.Lz4Compression(), settings: old, old: true},
		{name: "v1-compacted", codec: kgo.GzipCompression(), settings: old, old: true, compacted: true},
		{name: "v0", codec: kgo.SnappyCompression(), settings: format("0.9.0"), old: true, timeless: true},
	}
}

// swap hands a log directory from one broker to another.
type swap struct {
	t      *testing.T
	zk     string
	addr   string
	topics []*storedTopic
	round  int
	at     int64 // the group's committed offset
}

func (s *swap) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(cancel)
	return ctx
}

func (s *swap) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *swap) client(opts ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.AlwaysRetryEOF(), kgo.SeedBrokers(s.addr), kgo.ConsiderMissingTopicDeletedAfter(time.Hour)}, opts...)...)
	s.must(err)
	return cl
}

func (s *swap) create() {
	s.t.Helper()
	cl := s.client()
	defer cl.Close()
	for _, topic := range s.topics {
		topic.live = make(map[string]string)
		settings := map[string]*string{"segment.bytes": new("6000"), "index.interval.bytes": new("500"), "file.delete.delay.ms": new("500")}
		if topic.compacted {
			settings["cleanup.policy"] = new("compact")
		}
		for k, v := range topic.settings {
			settings[k] = &v
		}
		_, err := kadm.NewClient(cl).CreateTopic(s.ctx(), 1, 1, settings, topic.name)
		s.must(err)
	}
}

// play adds to each topic, and advances a group's offsets.
func (s *swap) play() {
	s.t.Helper()
	s.round++
	for _, topic := range s.topics {
		opts := []kgo.Opt{kgo.ProducerBatchCompression(topic.codec), kgo.ProducerLinger(2 * time.Millisecond)}
		switch {
		case topic.txn:
			opts = append(opts, kgo.TransactionalID("swap"))
		case topic.old:
			opts = append(opts, kgo.DisableIdempotentWrite()) // the format has no producer id
		}
		cl := s.client(opts...)
		for burst := range 6 {
			if topic.txn {
				s.must(cl.BeginTransaction())
			}
			commit := !topic.txn || burst%3 == 0
			s.write(cl, topic, burst, commit)
			if topic.txn && burst < 5 { // the last one is not completed: the next broker aborts it
				s.must(cl.EndTransaction(s.ctx(), kgo.TransactionEndTry(commit)))
			}
		}
		cl.Close()
	}
	cl := s.client()
	defer cl.Close()
	for range 50 {
		s.at++
		var offsets kadm.Offsets
		offsets.AddOffset("plain", 0, s.at, -1)
		s.must(kadm.NewClient(cl).CommitAllOffsets(s.ctx(), "swap", offsets))
	}
}

func (s *swap) write(cl *kgo.Client, topic *storedTopic, burst int, counts bool) {
	s.t.Helper()
	began := time.UnixMilli(time.Now().UnixMilli())
	var records []*kgo.Record
	for i := range 25 {
		value := fmt.Appendf(nil, "round %d burst %d record %d %x", s.round, burst, i, sha256.Sum256(fmt.Append(nil, s.round, burst, i)))
		records = append(records, &kgo.Record{Topic: topic.name, Key: fmt.Appendf(nil, "key %d", (burst*5+i)%40), Value: value,
			Timestamp: began.Add(time.Duration(i-12) * time.Millisecond)})
	}
	for _, res := range cl.ProduceSync(s.ctx(), records...) {
		s.must(res.Err)
		topic.end = max(topic.end, res.Record.Offset+1)
		if counts {
			topic.records = append(topic.records, res.Record)
			topic.live[string(res.Record.Key)] = string(res.Record.Value)
		}
	}
}

// check reads every topic as a read_committed consumer does and compares digests; for a compacted topic, the last value
// of each key.
func (s *swap) check(when string) {
	s.t.Helper()
	for _, topic := range s.topics {
		got := s.read(topic)
		if topic.compacted {
			live := make(map[string]string)
			for _, r := range got {
				live[string(r.Key)] = string(r.Value)
			}
			if diff := cmp.Diff(topic.live, live); diff != "" {
				s.t.Errorf("%s: %s: last values (-want +got):\n%s", when, topic.name, diff)
			}
			got = slices.DeleteFunc(got, func(r *kgo.Record) bool { return topic.wrote(r) })
			if len(got) > 0 {
				s.t.Errorf("%s: %s contains records that nobody wrote: %v", when, topic.name, got)
			}
			continue
		}
		if want, got := topic.digest(topic.records), topic.digest(got); got != want {
			s.t.Errorf("%s: %s has the digest %s, want %s", when, topic.name, got, want)
		}
	}
	cl := s.client()
	defer cl.Close()
	committed, err := kadm.NewClient(cl).FetchOffsets(s.ctx(), "swap")
	s.must(err)
	if o, _ := committed.Lookup("plain", 0); s.round > 0 && o.At != s.at {
		s.t.Errorf("%s: the group is at %d, want %d", when, o.At, s.at)
	}
}

func (s *swap) read(topic *storedTopic) (records []*kgo.Record) {
	s.t.Helper()
	cl := s.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic.name: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	defer cl.Close()
	stop := topic.end
	if topic.txn { // an open transaction is not visible
		stop = topic.records[len(topic.records)-1].Offset + 1
	}
	last := int64(-1)
	for ctx := s.ctx(); last < stop-1; {
		fetches := cl.PollFetches(ctx)
		s.must(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset <= last {
				s.t.Fatalf("%s: offset %d follows %d", topic.name, r.Offset, last)
			}
			last = r.Offset
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
	}
	return records
}

func (k *storedTopic) wrote(r *kgo.Record) bool {
	i, found := slices.BinarySearchFunc(k.records, r.Offset, func(w *kgo.Record, offset int64) int { return int(w.Offset - offset) })
	return found && k.digest(k.records[i:i+1]) == k.digest([]*kgo.Record{r})
}

// digest covers offsets, timestamps, keys and values.
func (k *storedTopic) digest(records []*kgo.Record) string {
	var h hash.Hash = sha256.New()
	for _, r := range records {
		at := r.Timestamp.UnixMilli()
		if k.timeless {
			at = -1
		}
		fmt.Fprintf(h, "%d %d %q %q\n", r.Offset, at, r.Key, r.Value)
	}
	return fmt.Sprintf("%d records %s", len(records), hex.EncodeToString(h.Sum(nil))[:16])
}

// compactTo returns the offsets up to which the compacted topics must be compacted before the directory is handed over.
func (s *swap) compactTo(from map[string]int64) map[string]int64 {
	want := map[string]int64{"__consumer_offsets": 1}
	for _, topic := range s.topics {
		if topic.compacted {
			want[topic.name] = from[topic.name] + 1
		}
	}
	return want
}

func (s *swap) ends() map[string]int64 {
	ends := make(map[string]int64)
	for _, topic := range s.topics {
		ends[topic.name] = topic.end
	}
	return ends
}

// turn is what a broker does with the directory before the other gets it.
func (s *swap) turn(when, addr, dir string) {
	s.t.Helper()
	s.addr = addr
	if s.round > 0 {
		s.check(when + ", first")
	}
	from := s.ends()
	s.play()
	awaitCompaction(s.t, dir, s.compactTo(from))
	s.check(when)
}

// awaitUnregistered waits until a killed broker's session has expired: Apache Kafka does not wait itself.
func awaitUnregistered(t *testing.T, server string) {
	t.Helper()
	conn, _, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogInfo(false))
	must(t, err)
	defer conn.Close()
	until(t, "the registration is gone", func(context.Context) bool {
		there, _, err := conn.Exists("/brokers/ids/0")
		return err == nil && !there
	})
}

// TestDirectoriesInTurns lets brokers of both kinds take turns on a log directory with topics of each format, codec and
// kind. Each finds everything that the other has acknowledged, continues and compacts; first after clean stops, then
// after kills.
func TestDirectoriesInTurns(t *testing.T) {
	t.Parallel()
	launcher := peer(t)
	s := &swap{t: t, zk: zookeeper(t), topics: storedTopics()}
	// The brokers' internal topics use format 1 as well.
	settings := append(slices.Clone(eagerCleaner), "inter.broker.protocol.version=2.8", "log.message.format.version=0.10.2", "offsets.topic.segment.bytes=3000")
	ours := newProcess(t, 0, s.zk, settings...)
	ours.start()
	s.addr = ours.addr()
	s.create()
	for _, clean := range []bool{true, false} {
		when := fmt.Sprintf("clean %v", clean)
		s.turn(when+", ours", ours.addr(), ours.logDir())
		if clean {
			ours.stop()
			dumpWithApacheKafka(t, ours.logDir())
		} else {
			ours.kill()
			awaitUnregistered(s.t, s.zk)
		}
		addr, data, stop := startPeer(t, 0, s.zk, append(slices.Clone(settings), "log.dirs="+ours.logDir(), "offsets.topic.replication.factor=1",
			"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1", "group.initial.rebalance.delay.ms=0",
			"zookeeper.session.timeout.ms=2000")...)
		s.turn(when+", theirs", addr, ours.logDir())
		if clean {
			stop()
		} else {
			_ = exec.Command(launcher, "stop", filepath.Dir(data), "KILL").Run()
			awaitUnregistered(s.t, s.zk)
		}
		complaints(t, filepath.Join(filepath.Dir(data), "server.log"))
		ours.start()
		s.addr = ours.addr()
		s.check(when + ", ours again")
	}
	s.turn("at the end", ours.addr(), ours.logDir())
	if strings.Contains(ours.log(), "level=error") {
		t.Errorf("our log has errors:\n%s", ours.log())
	}
}
