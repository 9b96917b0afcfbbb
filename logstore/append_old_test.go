package logstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

// told describes a log's messages, one line each.
func told(t *testing.T, l *Log) (lines []string) {
	t.Helper()
	for _, b := range readAll(t, l, l.LogEndOffset()) {
		if !b.Valid() {
			t.Errorf("the message at %d has a wrong checksum", b.LastOffset())
		}
		err := b.Records(func(r *record.Record) error {
			lines = append(lines, fmt.Sprintf("magic %d %v, at %d %s=%s time %d", b.Magic(), b.Codec(), r.Offset, r.Key, r.Value, r.Timestamp))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// TestOldFormats: batches of any format are stored as messages of the log's format, over several segments; a follower's
// log has the same files, and all is found after an unclean restart.
func TestOldFormats(t *testing.T) {
	for _, magic := range []int8{0, 1} {
		for compression, codecs := range map[string][]record.Codec{
			"producer": {record.None, record.None, record.None, record.Lz4, record.Lz4, record.None, record.None},
			"gzip":     slices.Repeat([]record.Codec{record.Gzip}, 7),
		} {
			t.Run(fmt.Sprintf("magic %d, %s", magic, compression), func(t *testing.T) { checkOldFormat(t, magic, compression, codecs) })
		}
	}
}

func checkOldFormat(t *testing.T, magic int8, compression string, codecs []record.Codec) {
	packed := batchOf(1000, "a", "b")
	packed.Codec = record.Lz4
	set := record.AppendMessage(nil, 0, 0, 0, []byte("k"), []byte("zero"))
	batches := [][]byte{batchOf(2000, "c", "d", "e").MustBuild(), packed.MustBuild(), set, record.AppendMessage(nil, 1, 7, 3000, []byte("k"), []byte("one"))}
	values := []string{"c", "d", "e", "a", "b", "zero", "one"}
	times := []int64{2000, 2001, 2002, 1000, 1001, -1, 3000}
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Default.Magic, cfg.Default.Compression, cfg.Default.SegmentBytes = magic, compression, 300
	m := mustOpen(t, cfg)
	l := mustCreate(t, m)
	if err := l.AssignEpochStart(5, 0); err != nil {
		t.Fatal(err)
	}
	var want []string
	for round := range int64(3) {
		for _, b := range batches {
			if _, err := l.AppendLeader(slices.Clone(b), LeaderAppend{ProduceVersion: 2, LeaderEpoch: 5}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range int64(7) {
			time := times[i]
			if magic == 0 {
				time = -1
			}
			want = append(want, fmt.Sprintf("magic %d %v, at %d k=%s time %d", magic, codecs[i], round*7+i, values[i], time))
		}
	}
	if diff := cmp.Diff(want, told(t, l)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if epoch, known := l.LatestEpoch(); known || l.SegmentCount() < 3 {
		t.Errorf("leader epoch %d is known in %d segments", epoch, l.SegmentCount())
	}
	follower, _ := newTestLog(t, func(c *Config) { *c = cfg.Default })
	for _, b := range readAll(t, l, l.LogEndOffset()) {
		if _, err := follower.AppendFollower(b); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(bases(l), bases(follower)); diff != "" && compression == "gzip" { // one message per append, as the leader appended them
		t.Errorf("segments of leader (-) and follower (+)\n%s", diff)
	}
	cfg.FS = fsys.Kill()
	again := mustOpen(t, cfg)
	l, _ = again.Log(testTP)
	if diff := cmp.Diff(want, told(t, l)); diff != "" {
		t.Errorf("after a restart (-want +got)\n%s", diff)
	}
	if _, err := cfg.FS.Stat("/data/t-0/leader-epoch-checkpoint"); err == nil {
		t.Error("there is a file of leader epochs")
	}
}

func bases(l *Log) (bases []int64) {
	for _, s := range *l.segments.Load() {
		bases = append(bases, s.base)
	}
	return bases
}

// TestNoOldForm: records that old messages cannot represent are refused, and nothing is appended.
func TestNoOldForm(t *testing.T) {
	headed := record.NewBuilder()
	headed.Add(1000, []byte("k"), []byte("v"), record.Header{Key: "h"})
	zstd := batchOf(1000, "v")
	zstd.Codec = record.Zstd
	for _, test := range []struct {
		name   string
		batch  *record.Builder
		origin Origin
		code   int16
	}{
		{"headers", headed, Client, -1},
		{"zstd", zstd, Client, -1},
		{"idempotent", sequenced(9, 0, 0, 1), Client, 43},
		{"transactional", transactional(9, 0, 1), Client, 43},
		{"marker", mark(9, 0, 0, 1), Coordinator, 43},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, _ := newTestLog(t, func(c *Config) { c.Magic = 1 })
			info, err := l.AppendLeader(test.batch.MustBuild(), LeaderAppend{ProduceVersion: 9, Origin: test.origin})
			if err == nil || codeOf(err) != test.code || info.FirstOffset != -1 || l.LogEndOffset() != 0 {
				t.Errorf("%+v, %v, code %d, log end %d", info, err, codeOf(err), l.LogEndOffset())
			}
		})
	}
}

// TestMessagesWithSeveralFaults: checksums are checked first, then messages one after the other, as in Apache Kafka.
func TestMessagesWithSeveralFaults(t *testing.T) {
	stamped, err := record.Messages{Magic: 1, TimestampType: record.LogAppendTime, AppendTime: -1}.Append(nil, []record.Record{{Key: []byte("k")}})
	if err != nil {
		t.Fatal(err)
	}
	wrapper, err := record.Messages{Magic: 1, Codec: record.Gzip, Level: record.DefaultLevel}.Append(nil, []record.Record{{Key: []byte("k")}})
	if err != nil {
		t.Fatal(err)
	}
	m0, keyless := record.AppendMessage(nil, 0, 0, -1, []byte("k"), nil), record.AppendMessage(nil, 1, 0, -1, nil, []byte("v"))
	damaged := record.AppendMessage(nil, 1, 0, -1, []byte("k"), []byte("v"))
	damaged[len(damaged)-1] ^= 1
	for _, tt := range []struct {
		name string
		data []byte
		want *kerr.Error
	}{
		{"wrong time, then another magic", slices.Concat(stamped, m0), kerr.InvalidTimestamp},
		{"another magic, then wrong time", slices.Concat(m0, stamped), kerr.InvalidRecord},
		{"no key, then wrong time", slices.Concat(keyless, stamped), kerr.InvalidRecord},
		{"wrong time, then no key", slices.Concat(stamped, keyless), kerr.InvalidTimestamp},
		{"another magic, then a wrong checksum", slices.Concat(m0, stamped, damaged), kerr.CorruptMessage},
		{"a compressed message too many, then a wrong checksum", slices.Concat(wrapper, wrapper, damaged), kerr.CorruptMessage},
		{"wrong time, then a compressed message", slices.Concat(stamped, wrapper), kerr.InvalidRecord},
		{"wrong time, then no message", slices.Concat(stamped, make([]byte, 40)), kerr.CorruptMessage},
		{"a message that is too large, then none", slices.Concat(record.AppendMessage(nil, 1, 0, -1, nil, make([]byte, 2_000_000)), make([]byte, 40)), kerr.CorruptMessage},
	} {
		for magic := int8(0); magic <= 2; magic++ {
			l, _ := newTestLog(t, func(c *Config) { c.Magic, c.Compact = magic, true })
			if _, err := l.AppendLeader(slices.Clone(tt.data), LeaderAppend{ProduceVersion: 2}); !errors.Is(err, tt.want) {
				t.Errorf("%s, in a log of magic %d: %v", tt.name, magic, err)
			}
		}
	}
}

// TestFormatChanges changes the format of an existing log: with an older one its leader epochs are removed, with the
// new one they begin anew.
func TestFormatChanges(t *testing.T) {
	l, _ := newTestLog(t, nil)
	mustProduce(t, l, batchOf(1000, "a"))
	if epoch, known := l.LatestEpoch(); !known || epoch != 0 {
		t.Fatalf("epoch %d, known %v", epoch, known)
	}
	cfg := l.Config()
	cfg.Magic = 1
	l.UpdateConfig(cfg)
	mustProduce(t, l, batchOf(1000, "b"))
	if epoch, known := l.LatestEpoch(); known {
		t.Errorf("epoch %d is known", epoch)
	}
	cfg.Magic = 2
	l.UpdateConfig(cfg)
	mustProduce(t, l, batchOf(1000, "c"))
	if got := l.epochs.at(1); got != -1 {
		t.Errorf("the old message has epoch %d", got)
	}
	if got := l.epochs.at(2); got != 0 {
		t.Errorf("the new batch has epoch %d", got)
	}
	want := []string{"magic 2 none, at 0 k=a time 1000", "magic 1 none, at 1 k=b time 1000", "magic 2 none, at 2 k=c time 1000"}
	if diff := cmp.Diff(want, told(t, l)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
