package logstore

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testlog"
	"barnabas/logstore/record"
)

// The directories in testdata were written by Apache Kafka 3.9.2; testdata/README.md says what is in them.
var (
	sampleMeta = Meta{BrokerID: 1, ClusterID: "ORy5lXUrT_yA7J_-ZwpoVw"}
	sampleTime = time.UnixMilli(1795964600000)
)

func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func openSamples(t testing.TB, from string, meta Meta) (*Manager, string) {
	t.Helper()
	dir := copyDir(t, from)
	cfg := DefaultManagerConfig()
	cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger = []string{dir}, meta.BrokerID, meta.ClusterID, testlog.Quiet()
	cfg.Default.RetentionTime = Unlimited
	cfg.Now = func() time.Time { return sampleTime }
	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, dir
}

// tsv reads a table with a header line into rows by column name.
func tsv(t *testing.T, name string) []map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []map[string]string
	var columns []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Split(sc.Text(), "\t")
		if columns == nil {
			columns = fields
			continue
		}
		row := make(map[string]string)
		for i, c := range columns {
			row[c] = fields[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func atoi(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// readAll reads the batches of a log from its start to upTo, a few KB at a time as a consumer would.
func readAll(t testing.TB, l *Log, upTo int64) []record.Batch {
	t.Helper()
	var batches []record.Batch
	for offset := l.LogStartOffset(); offset < upTo; {
		r, err := l.Read(offset, 3000, upTo, true)
		if err != nil {
			t.Fatalf("%v: read at %d: %v", l.TopicPartition(), offset, err)
		}
		data, err := r.Append(nil)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		before := offset
		walk := record.Split(data)
		for walk.Next() {
			batches = append(batches, walk.Batch())
			offset = walk.Batch().LastOffset() + 1
		}
		if walk.Err() != nil {
			t.Fatal(walk.Err())
		}
		if offset == before {
			break // the rest is not visible to the consumer
		}
	}
	return batches
}

// digest feeds a record to h in the form that testdata/README.md defines.
func digest(h hash.Hash, r *record.Record) {
	var b []byte
	field := func(v []byte) {
		if v == nil {
			b = binary.BigEndian.AppendUint32(b, 1<<32-1)
			return
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Timestamp))
	field(r.Key)
	field(r.Value)
	headers := r.Headers()
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	for _, h := range headers {
		field([]byte(h.Key))
		field(h.Value)
	}
	h.Write(b)
}

// digestOf returns the digest and count of data records; with committed, of those that a read_committed consumer sees.
func digestOf(t *testing.T, l *Log, upTo int64, committed bool) (int, string) {
	t.Helper()
	h := sha256.New()
	n := 0
	aborted, err := l.AbortedTransactions(l.LogStartOffset(), upTo)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range readAll(t, l, upTo) {
		if !b.Valid() {
			t.Errorf("%v: batch at %d has a wrong checksum", l.TopicPartition(), b.BaseOffset())
		}
		if b.Control() || committed && dropped(aborted, b) {
			continue
		}
		err := b.Records(func(r *record.Record) error {
			if r.Offset >= l.LogStartOffset() {
				digest(h, r)
				n++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n, hex.EncodeToString(h.Sum(nil))
}

func dropped(aborted []AbortedTxn, b record.Batch) bool {
	for _, a := range aborted {
		if b.Transactional() && b.ProducerID() == a.ProducerID && b.BaseOffset() >= a.FirstOffset && b.BaseOffset() < a.LastOffset {
			return true
		}
	}
	return false
}

func TestSamplesAnswerAsApacheKafka(t *testing.T) {
	m, _ := openSamples(t, "testdata/logdir", sampleMeta)
	for _, row := range tsv(t, "testdata/expected.tsv") {
		tp := TopicPartition{row["topic"], int32(atoi(t, row["partition"]))}
		t.Run(tp.String(), func(t *testing.T) {
			l, ok := m.Log(tp)
			if !ok {
				t.Fatal("the log is not loaded")
			}
			id := l.TopicID()
			uuid := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
			if uuid != row["topic_id"] {
				t.Errorf("topic id %s, want %s", uuid, row["topic_id"])
			}
			if l.LogStartOffset() != atoi(t, row["log_start"]) || l.LogEndOffset() != atoi(t, row["log_end"]) || l.LastStableOffset() != atoi(t, row["last_stable"]) {
				t.Errorf("start %d, end %d, stable %d; want %s, %s, %s", l.LogStartOffset(), l.LogEndOffset(), l.LastStableOffset(),
					row["log_start"], row["log_end"], row["last_stable"])
			}
			if n, sum := digestOf(t, l, l.LogEndOffset(), false); int64(n) != atoi(t, row["records_read_uncommitted"]) || sum != row["sha256_read_uncommitted"] {
				t.Errorf("read uncommitted: %d records, digest %s", n, sum)
			}
			if n, sum := digestOf(t, l, l.LastStableOffset(), true); int64(n) != atoi(t, row["records_read_committed"]) || sum != row["sha256_read_committed"] {
				t.Errorf("read committed: %d records, digest %s", n, sum)
			}
		})
	}
}

func TestLegacySamples(t *testing.T) {
	meta, _, err := ReadMeta(vfsOS, "testdata/logdir-legacy")
	if err != nil {
		t.Fatal(err)
	}
	m, _ := openSamples(t, "testdata/logdir-legacy", meta)
	for topic, want := range map[string]struct {
		n   int
		sum string
	}{
		"m0": {6, "7ad1bae01a0f77098f79d8605a517476085e79f31e64ad054affa5ec7254f67d"},
		"m1": {6, "9dd4f4b5c507379ac109a0777222695bc559fae3682ffaba99c9c1ad3c334c19"},
		"m2": {8, "9329317d99bbe85901270fda399c8245464928e3be2d409bca463043bbee38a0"},
	} {
		l, ok := m.Log(TopicPartition{topic, 0})
		if !ok {
			t.Fatal("the log is not loaded")
		}
		if n, sum := digestOf(t, l, l.LogEndOffset(), false); n != want.n || sum != want.sum {
			t.Errorf("%s: %d records, digest %s; want %d, %s", topic, n, sum, want.n, want.sum)
		}
	}
}

func TestSampleBatches(t *testing.T) {
	m, _ := openSamples(t, "testdata/logdir", sampleMeta)
	want := make(map[string][]string)
	for _, row := range tsv(t, "testdata/expected-batches.tsv") {
		dir := filepath.Dir(row["file"])
		want[dir] = append(want[dir], strings.Join([]string{row["base_offset"], row["last_offset"], row["length"], row["leader_epoch"],
			row["magic"], row["crc"], row["attributes"], row["base_timestamp"], row["max_timestamp"], row["producer_id"],
			row["producer_epoch"], row["base_sequence"], row["count"]}, " "))
	}
	for _, l := range m.Logs() {
		tp := l.TopicPartition()
		batches := readAll(t, l, l.LogEndOffset())
		if len(want[tp.String()]) != len(batches) && tp.Topic != "trimmed" {
			t.Errorf("%v: %d batches, want %d", tp, len(batches), len(want[tp.String()]))
			continue
		}
		for i, b := range batches {
			got := fmt.Sprint(b.BaseOffset(), b.LastOffset(), len(b)-record.Overhead, b.LeaderEpoch(), b.Magic(), b.CRC(), b.Attributes(),
				b.BaseTimestamp(), b.MaxTimestamp(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Count())
			if j := len(want[tp.String()]) - len(batches) + i; got != want[tp.String()][j] {
				t.Errorf("%v: batch %s, want %s", tp, got, want[tp.String()][j])
			}
		}
	}
}
