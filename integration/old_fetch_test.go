package integration

import (
	"fmt"
	"testing"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unconvertible are topics whose records old versions of Fetch cannot have, among others.
var unconvertible = []struct {
	name     string
	settings map[string]string
	codecs   []record.Codec // of its batches
}{
	{"converted", nil, []record.Codec{record.None}},
	{"empty", nil, nil},
	{"zstd-first", nil, []record.Codec{record.Zstd, record.None}},
	{"zstd-later", nil, []record.Codec{record.None, record.Zstd}},
	{"zstd-topic", map[string]string{"compression.type": "zstd"}, []record.Codec{record.None}},
	{"zstd-empty", map[string]string{"compression.type": "zstd"}, nil},
	{"as-it-is", map[string]string{"message.downconversion.enable": "false"}, []record.Codec{record.None}},
	{"as-it-is-empty", map[string]string{"message.downconversion.enable": "false"}, nil},
}

// fetchOldVersions fetches all of these topics at once with each version, and describes what is answered.
func fetchOldVersions(t *testing.T, addr string) map[string]string {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(addr), kgo.DisableIdempotentWrite())
	defer cl.Close()
	w := dialWire(t, addr)
	for _, topic := range unconvertible {
		settings := make(map[string]*string)
		for k, v := range topic.settings {
			settings[k] = &v
		}
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, settings, topic.name); err != nil {
			t.Fatal(topic.name, err)
		}
		for _, codec := range topic.codecs {
			b := record.NewBuilder()
			b.Codec = codec
			b.Add(1_790_000_000_000, []byte("k"), make([]byte, 100))
			if p := w.produce(9, topic.name, b.MustBuild()); p.ErrorCode != 0 {
				t.Fatalf("%s: code %d", topic.name, p.ErrorCode)
			}
		}
	}
	seen := make(map[string]string)
	for version := int16(0); version <= 11; version++ {
		for _, offset := range []int64{0, 9} {
			req := fetching(version, unconvertible[0].name, offset)
			req.MaxWaitMillis, req.IsolationLevel = 100, 1
			for _, topic := range unconvertible[1:] {
				req.Topics = append(req.Topics, fetching(version, topic.name, offset).Topics...)
			}
			for _, topic := range w.call(req).(*kmsg.FetchResponse).Topics {
				p := topic.Partitions[0]
				told := fmt.Sprintf("code %d high watermark %d last stable %d start %d none aborted %v", p.ErrorCode, p.HighWatermark, p.LastStableOffset,
					p.LogStartOffset, p.AbortedTransactions == nil)
				if p.ErrorCode != 0 {
					told += fmt.Sprintf(" %d bytes, null %v", len(p.RecordBatches), p.RecordBatches == nil)
				} else {
					told += shape(p.RecordBatches, false)
				}
				seen[fmt.Sprintf("%s at %d in Fetch v%d", topic.Topic, offset, version)] = told
			}
		}
	}
	return seen
}

// TestOldFetchesAreThoseOfApacheKafka: a partition whose records cannot be converted for an old version of Fetch has an
// error and no records, and does not affect the others.
func TestOldFetchesAreThoseOfApacheKafka(t *testing.T) {
	compareAnswers(t, fetchOldVersions, "auto.create.topics.enable=false")
}
