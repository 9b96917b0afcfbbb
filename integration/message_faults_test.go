package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// faultTopics are topics that refuse various things, by name, with their settings.
var faultTopics = []struct {
	name     string
	settings map[string]string
}{
	{"m0", map[string]string{"message.format.version": "0.9.0"}},
	{"m0-keys", map[string]string{"message.format.version": "0.9.0", "cleanup.policy": "compact", "compression.type": "gzip"}},
	{"m1", nil},
	{"m1-keys", map[string]string{"cleanup.policy": "compact", "message.timestamp.before.max.ms": "1000000000000"}},
	{"m1-append", map[string]string{"message.timestamp.type": "LogAppendTime"}},
	{"m1-small", map[string]string{"max.message.bytes": "200", "message.timestamp.before.max.ms": "1000000000000"}},
	{"m2-keys", map[string]string{"message.format.version": "2.8", "cleanup.policy": "compact", "message.timestamp.before.max.ms": "1000000000000"}},
	{"m2-append", map[string]string{"message.format.version": "2.8", "message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}},
	{"m2-small", map[string]string{"message.format.version": "2.8", "max.message.bytes": "200", "compression.type": "gzip", "message.timestamp.before.max.ms": "1000000000000"}},
}

// piece is a message or a batch; "!" behind the name: with a wrong checksum; "|": cut off.
type piece struct {
	name string
	data []byte
}

// faultPieces returns messages and batches with and without faults.
func faultPieces() (pieces []piece) {
	const now = 1_790_000_000_000
	add := func(name string, data []byte, err error) {
		if err != nil {
			panic(err)
		}
		bad := slices.Clone(data)
		bad[len(bad)-1] ^= 1
		pieces = append(pieces, piece{name, data}, piece{name + "!", bad}, piece{name + "|", data[:len(data)-5]})
	}
	for magic := range int8(2) {
		name := fmt.Sprint("m", magic)
		add(name, record.AppendMessage(nil, magic, 0, now, []byte("k"), []byte("v")), nil)
		add(name+" without key", record.AppendMessage(nil, magic, 0, now, nil, []byte("v")), nil)
		add(name+" without time", record.AppendMessage(nil, magic, 0, -1, []byte("k"), []byte("v")), nil)
		add(name+" large", record.AppendMessage(nil, magic, 0, now, []byte("k"), make([]byte, 400)), nil)
		add(name+" old", record.AppendMessage(nil, magic, 0, 5, []byte("k"), []byte("v")), nil)
		for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.Lz4} {
			for _, by := range []record.TimestampType{record.CreateTime, record.LogAppendTime} {
				for _, at := range []int64{-1, now} {
					set, err := record.Messages{Magic: magic, Codec: codec, Level: record.DefaultLevel, TimestampType: by, AppendTime: at}.Append(nil,
						[]record.Record{{Timestamp: at, Key: []byte("k"), Value: []byte("v")}, {Offset: 1, Timestamp: 5, Value: []byte("v")}})
					add(fmt.Sprintf("%s %v type %d at %d", name, codec, by, at), set, err)
				}
			}
		}
	}
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Zstd} {
		b := record.NewBuilder()
		b.Codec = codec
		b.Add(now, []byte("k"), []byte("v"))
		b.Add(5, nil, []byte("v"))
		add(fmt.Sprint("batch ", codec), b.MustBuild(), nil)
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = 7, 0, 0
		add(fmt.Sprint("idempotent batch ", codec), b.MustBuild(), nil)
		displaced := b.MustBuild()
		displaced[7] = 3
		add(fmt.Sprint("batch at 3 ", codec), displaced, nil)
	}
	return pieces
}

// produceFaults produces random sequences of pieces and describes what becomes of each.
func produceFaults(t *testing.T, addr string) []string {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(addr))
	defer cl.Close()
	for _, topic := range faultTopics {
		settings := make(map[string]*string)
		for k, v := range topic.settings {
			settings[k] = &v
		}
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, settings, topic.name); err != nil {
			t.Fatal(topic.name, err)
		}
	}
	pieces, rng, w := faultPieces(), rand.New(rand.NewPCG(1, 1)), dialWire(t, addr)
	var seen []string
	for range 2000 {
		var names []string
		var data []byte
		for range 1 + rng.IntN(3) {
			p := pieces[rng.IntN(len(pieces))]
			names, data = append(names, p.name), append(data, p.data...)
		}
		topic, version := faultTopics[rng.IntN(len(faultTopics))].name, int16(2)
		if rng.IntN(10) == 0 {
			version = 8
		}
		r := w.produce(version, topic, data)
		seen = append(seen, fmt.Sprintf("%s v%d %s: code %d offset %d", topic, version, strings.Join(names, ", "), r.ErrorCode, r.BaseOffset))
	}
	return seen
}

// TestFaultsOfMessagesAreThoseOfApacheKafka: which of several faults of a Produce request counts.
func TestFaultsOfMessagesAreThoseOfApacheKafka(t *testing.T) {
	settings := append(slices.Clone(oldProtocol), "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1")
	compareAnswers(t, produceFaults, settings...)
}
