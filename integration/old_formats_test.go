package integration

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// oldProtocol makes a broker honour message.format.version, which has no effect from 3.0 on (KIP-724). Internal topics
// have the format of the broker's setting.
var oldProtocol = []string{"inter.broker.protocol.version=2.8", "log.message.format.version=0.10.2", "auto.create.topics.enable=false",
	"offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1"}

// formatTopics are topics by name with their settings, beginning with the format.
var formatTopics = []struct {
	name     string
	settings map[string]string
}{
	{"m0", map[string]string{"message.format.version": "0.9.0"}},
	{"m0-gzip", map[string]string{"message.format.version": "0.9.0", "compression.type": "gzip"}},
	{"m1", map[string]string{}},
	{"m1-gzip", map[string]string{"compression.type": "gzip"}},
	{"m1-zstd", map[string]string{"compression.type": "zstd"}},
	{"m1-keys", map[string]string{"cleanup.policy": "compact"}},
	{"m1-small", map[string]string{"max.message.bytes": "200"}},
	{"m1-append", map[string]string{"message.timestamp.type": "LogAppendTime"}},
	{"m2", map[string]string{"message.format.version": "2.8"}},
	{"m2-append", map[string]string{"message.format.version": "2.8", "message.timestamp.type": "LogAppendTime", "compression.type": "uncompressed"}},
}

// oldAndNew returns batches as sent by clients of all ages.
func oldAndNew() []struct {
	name    string
	version int16
	data    []byte
} {
	now := int64(1_790_000_000_000)
	messages := func(magic int8) (set []byte) {
		for i := range int64(3) {
			set = record.AppendMessage(set, magic, i, now+i, fmt.Append(nil, "key ", i), fmt.Append(nil, "old ", i))
		}
		return set
	}
	fill := func(change func(*record.Builder)) []byte {
		b := record.NewBuilder()
		for i := range int64(3) {
			b.Add(now+10-i, fmt.Append(nil, "key ", i), bytes.Repeat([]byte{byte('a' + i)}, 100))
		}
		change(b)
		return b.MustBuild()
	}
	wrapped := func(magic int8, codec record.Codec) []byte {
		set, err := record.DownConvert(fill(func(b *record.Builder) { b.Codec = codec }), magic, 0)
		if err != nil {
			panic(err)
		}
		return set
	}
	stamped, err := record.Messages{Magic: 1, TimestampType: record.LogAppendTime, AppendTime: -1}.Append(nil, []record.Record{{Key: []byte("k"), Value: []byte("stamped")}})
	if err != nil {
		panic(err)
	}
	keylessMessage := record.AppendMessage(nil, 1, 0, now, nil, []byte("no key"))
	damaged := messages(1)
	damaged[len(damaged)-1] ^= 1
	keyless := record.NewBuilder()
	keyless.Add(now, nil, nil)
	headed := record.NewBuilder()
	headed.Add(now, []byte("k"), []byte("v"), record.Header{Key: "h", Value: []byte("v")})
	return []struct {
		name    string
		version int16
		data    []byte
	}{
		{"messages of magic 0", 2, messages(0)},
		{"messages of magic 1", 2, messages(1)},
		{"a wrapper of magic 0", 2, wrapped(0, record.Gzip)},
		{"a wrapper of magic 1", 2, wrapped(1, record.Gzip)},
		{"a stamped message before one of magic 0", 2, slices.Concat(stamped, messages(0))},
		{"a message without a key before a stamped one", 2, slices.Concat(keylessMessage, stamped)},
		{"a stamped message before one without a key", 2, slices.Concat(stamped, keylessMessage)},
		{"a wrapper before a damaged message", 2, slices.Concat(wrapped(1, record.Gzip), damaged)},
		{"magic 0 before a damaged message", 2, slices.Concat(messages(0), damaged)},
		{"a batch", 9, fill(func(*record.Builder) {})},
		{"a gzip batch", 9, fill(func(b *record.Builder) { b.Codec = record.Gzip })},
		{"an lz4 batch", 9, fill(func(b *record.Builder) { b.Codec = record.Lz4 })},
		{"a zstd batch", 9, fill(func(b *record.Builder) { b.Codec = record.Zstd })},
		{"no key, no value", 9, keyless.MustBuild()},
		{"headers", 9, headed.MustBuild()},
		{"an idempotent batch", 9, fill(func(b *record.Builder) { b.ProducerID, b.ProducerEpoch, b.BaseSequence = 9, 0, 0 })},
		{"a transactional batch", 9, fill(func(b *record.Builder) {
			b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = 9, 0, 0, true
		})},
		{"a batch at the end", 9, batch("end").MustBuild()},
	}
}

// useOldFormats does the same with any broker that honours message.format.version and describes the results.
func useOldFormats(t *testing.T, addr string) map[string]string {
	t.Helper()
	seen := make(map[string]string)
	cl := newClient(t, kgo.SeedBrokers(addr), kgo.DisableIdempotentWrite())
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for _, topic := range formatTopics {
		settings := map[string]*string{"retention.ms": new("-1")}
		for k, v := range topic.settings {
			settings[k] = &v
		}
		if _, err := adm.CreateTopic(t.Context(), 1, 1, settings, topic.name); err != nil {
			t.Fatal(topic.name, err)
		}
		w := dialWire(t, addr)
		for _, in := range oldAndNew() {
			p := w.produce(in.version, topic.name, in.data)
			seen[topic.name+" takes "+in.name] = fmt.Sprintf("code %d offset %d start %d append time %v errors %d", p.ErrorCode, p.BaseOffset, p.LogStartOffset, p.LogAppendTime > 0, len(p.ErrorRecords))
		}
		for _, version := range []int16{1, 3, 4, 11} {
			p := w.fetch(fetching(version, topic.name, 0))
			told := shape(p.RecordBatches, strings.HasSuffix(topic.name, "-append"))
			if topic.name == "m2" && version < 4 { // it contains zstd: how much is converted before that is up to the broker
				told, _, _ = strings.Cut(told, "]")
			}
			seen[fmt.Sprintf("%s in Fetch v%d", topic.name, version)] = fmt.Sprintf("code %d %s", p.ErrorCode, told)
		}
		for _, at := range []int64{-1, -2, -3, 1_790_000_000_001} {
			if at == -3 && strings.HasSuffix(topic.name, "-append") {
				continue // which append was the first in the last millisecond is random
			}
			seen[fmt.Sprintf("%s listed at %d", topic.name, at)] = listed(w, topic.name, at)
		}
		described, err := adm.DescribeTopicConfigs(t.Context(), topic.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range described[0].Configs {
			if c.Key == "message.format.version" {
				seen[topic.name+" is described"] = fmt.Sprintf("%s by %v, %d synonyms", c.MaybeValue(), c.Source, len(c.Synonyms))
			}
		}
		seen[topic.name+" ends epoch 0"] = epochEnd(w, topic.name)
		seen[topic.name+" gets a marker"] = marked(w, topic.name)
	}
	return seen
}

// shape describes each batch and the content of each record.
func shape(data []byte, timeless bool) string {
	var s strings.Builder
	for walk := record.Split(data); walk.Next(); {
		b := walk.Batch()
		fmt.Fprintf(&s, "\n[magic %d at %d to %d codec %d attributes %x valid %v epoch %d", b.Magic(), b.BaseOffset(), b.LastOffset(), b.Codec(), b.Attributes(), b.Valid(), b.LeaderEpoch())
		if !timeless {
			fmt.Fprintf(&s, " max %d", b.MaxTimestamp())
		}
		err := b.Records(func(r *record.Record) error {
			fmt.Fprintf(&s, "\n %d %q %.9q headers %d", r.Offset, r.Key, r.Value, len(r.Headers()))
			if !timeless {
				fmt.Fprintf(&s, " %d", r.Timestamp)
			}
			return nil
		})
		fmt.Fprintf(&s, " %v]", err)
	}
	return s.String()
}

func listed(w *wire, topic string, at int64) string {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 7, -1
	rt, rp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp = at
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	p := w.call(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	if p.Timestamp > 1_790_000_100_000 {
		p.Timestamp = 0
	}
	return fmt.Sprintf("code %d offset %d time %d epoch %d", p.ErrorCode, p.Offset, p.Timestamp, p.LeaderEpoch)
}

func epochEnd(w *wire, topic string) string {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = 3, -1
	rt, rp := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.CurrentLeaderEpoch = -1
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	p := w.call(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
	return fmt.Sprintf("code %d epoch %d end %d", p.ErrorCode, p.LeaderEpoch, p.EndOffset)
}

func marked(w *wire, topic string) string {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version = 1
	m, mt := kmsg.NewWriteTxnMarkersRequestMarker(), kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	m.ProducerID, m.Committed = 9, true
	mt.Topic, mt.Partitions = topic, []int32{0}
	m.Topics = append(m.Topics, mt)
	req.Markers = append(req.Markers, m)
	p := w.call(req).(*kmsg.WriteTxnMarkersResponse).Markers[0].Topics[0].Partitions[0]
	return fmt.Sprintf("code %d", p.ErrorCode)
}

// TestOldFormatsAreThoseOfApacheKafka: a broker with a protocol older than 3.0 converts batches to the topic's format,
// and responds as Apache Kafka does.
func TestOldFormatsAreThoseOfApacheKafka(t *testing.T) {
	settings := append(oldProtocol, "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1")
	theirLogs, ourLogs := compareAnswers(t, useOldFormats, settings...)
	// Compressed bytes differ; the messages were compared above.
	if diff := cmp.Diff(slices.Sorted(maps.Keys(filesOf(t, theirLogs))), slices.Sorted(maps.Keys(filesOf(t, ourLogs)))); diff != "" {
		t.Errorf("files: Apache Kafka's (-) and ours (+)\n%s", diff)
	}
}

// TestOldFormatsAreIgnored: with a protocol from 3.0 on message.format.version has no effect, which is logged
// (KIP-724).
func TestOldFormatsAreIgnored(t *testing.T) {
	t.Parallel()
	p := newProcess(t, 0, zookeeper(t), "log.message.format.version=0.10.2")
	p.start()
	cl := newClient(t, kgo.SeedBrokers(p.addr()))
	defer cl.Close()
	settings := map[string]*string{"message.format.version": new("0.9.0")}
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, settings, "old"); err != nil {
		t.Fatal(err)
	}
	w := dialWire(t, p.addr())
	if r := w.produce(2, "old", record.AppendMessage(nil, 1, 0, 1000, []byte("k"), []byte("v"))); r.ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	if stored := record.Batch(w.fetch(fetching(4, "old", 0)).RecordBatches); stored.Magic() != 2 {
		t.Errorf("stored in format %d", stored.Magic())
	}
	for _, parts := range [][]string{
		{"level=warning", "setting=log.message.format.version", "setting ignored"},
		{"level=warning", "setting=message.format.version", "topic=old", "value=0.9.0"},
	} {
		if !slices.ContainsFunc(strings.Split(p.log(), "\n"), func(line string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
		}) {
			t.Errorf("no line contains %q:\n%s", parts, p.log())
		}
	}
}
