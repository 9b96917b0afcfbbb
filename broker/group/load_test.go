package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/testlog"
	"barnabas/internal/testwait"
	"barnabas/internal/vfs"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
)

// sample is the log of __consumer_offsets-0 that Apache Kafka 3.9.2 wrote, see logstore/testdata/README.md.
const sample = "../../logstore/testdata/logdir/__consumer_offsets-0/00000000000000000000.log"

func readSample(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.FromSlash(sample))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSampleIsLoaded loads what Apache Kafka wrote, through a log as well as from one piece of memory.
func TestSampleIsLoaded(t *testing.T) {
	h := newHosted(t)
	if _, err := h.log.AppendFollower(readSample(t)); err != nil {
		t.Fatal(err)
	}
	for _, bufferBytes := range []int32{1, 300, 1 << 20} {
		l := newLoaded()
		if err := l.read(t.Context(), h, bufferBytes); err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for id, found := range l.groups {
			g := found.group(id, testLimits(), epoch)
			got[id] = fmt.Sprintf("%s generation %d type %q since %d", g.state, g.generation, g.protocolType, g.since.UnixMilli())
			for p := range g.offsets {
				c, _, unstable := g.offset(p, h.log.LogEndOffset())
				got[id+" "+fmt.Sprint(p)] = fmt.Sprintf("%d epoch %d %q at %d %t", c.offset, c.leaderEpoch, c.metadata, c.committedMs, unstable)
			}
		}
		want := map[string]string{
			"sample-group":              `Empty generation 2 type "consumer" since 1795964543329`,
			"sample-group codec-none-0": `65 epoch 0 "" at 1795964543189 false`,
			"sample-group codec-gzip-0": `65 epoch 0 "" at 1795964543189 false`,
			"simple-group":              fmt.Sprintf(`Empty generation 0 type "" since %d`, epoch.UnixMilli()),
			"simple-group txn-0":        `5 epoch 0 "meta" at 1795964543406 false`,
			"simple-group txn-1":        `3 epoch -1 "" at 1795964543406 false`,
			"tx-group":                  fmt.Sprintf(`Empty generation 0 type "" since %d`, epoch.UnixMilli()),
			"tx-group codec-zstd-0":     `33 epoch -1 "" at 1795964543441 false`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("buffer of %d bytes: %s", bufferBytes, diff)
		}
	}
}

// TestSampleIsWrittenAlike decodes each of Apache Kafka's records and encodes it again.
func TestSampleIsWrittenAlike(t *testing.T) {
	seen := 0
	walk := record.Split(readSample(t))
	for walk.Next() {
		if walk.Batch().Control() {
			continue
		}
		err := walk.Batch().Records(func(r *record.Record) error {
			e, err := decodeEntry(r.Key, r.Value)
			if err != nil {
				return err
			}
			key, value := encode(e)
			if !bytes.Equal(key, r.Key) || !bytes.Equal(value, r.Value) {
				t.Errorf("record %d: key %x, want %x; value %x, want %x", r.Offset, key, r.Key, value, r.Value)
			}
			seen++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen != 7 {
		t.Errorf("%d records", seen)
	}
}

// encode encodes an entry with a value as a coordinator does.
func encode(e entry) (key, value []byte) {
	if e.partition != nil {
		return offsetKey(e.groupID, *e.partition), NewestVersions.offsetValue(*e.offset)
	}
	g := newGroup(e.groupID, testLimits(), epoch)
	g.restore(e.group)
	return groupIDKey(e.groupID), NewestVersions.groupValue(g, func(m *member) []byte { return m.assignment })
}

func TestValueVersions(t *testing.T) {
	instance := "i"
	g := newGroup("g", testLimits(), epoch)
	g.generation, g.protocol = 3, "range"
	g.insert(&member{id: "m", instance: &instance, clientID: "c", clientHost: "/h", rebalanceTimeout: time.Minute, sessionTimeout: time.Second,
		protocols: []protocol{{"range", []byte("x")}}, assignment: []byte("y")}, "consumer")
	for version := range int16(4) {
		value := ValueVersions{Group: version}.groupValue(g, func(m *member) []byte { return m.assignment })
		e, err := decodeEntry(groupIDKey("g"), value)
		if err != nil {
			t.Fatal(err)
		}
		back := newGroup("g", testLimits(), epoch)
		back.restore(e.group)
		m := back.members["m"]
		if m == nil || back.state != Stable || back.leader != "m" || back.generation != 3 || string(m.assignment) != "y" {
			t.Errorf("version %d: %+v", version, back)
			continue
		}
		if want := version >= 1; (m.rebalanceTimeout == time.Minute) != want || !want && m.rebalanceTimeout != time.Second {
			t.Errorf("version %d: rebalance timeout %s", version, m.rebalanceTimeout)
		}
		if want := version >= 2; back.since.Equal(epoch) != want || !want && !back.since.IsZero() {
			t.Errorf("version %d: since %s", version, back.since)
		}
		if want := version >= 3; (m.instance != nil) != want {
			t.Errorf("version %d: instance %v", version, m.instance)
		}
	}
	full := commit{offset: 1, leaderEpoch: 2, metadata: "m", committedMs: 3, expiresMs: none}
	expiring := full
	expiring.expiresMs = 4
	for _, test := range []struct {
		version int16
		c, want commit
	}{
		{1, full, commit{1, none, "m", 3, none, 0}},
		{2, full, commit{1, none, "m", 3, none, 0}},
		{3, full, full},
		{3, expiring, commit{1, none, "m", 3, 4, 0}},
	} {
		e, err := decodeEntry(offsetKey("g", tp), ValueVersions{Offset: test.version}.offsetValue(test.c))
		if err != nil || *e.offset != test.want {
			t.Errorf("version %d of %+v: %+v, %v", test.version, test.c, e.offset, err)
		}
	}
}

func TestDecodeEntryFails(t *testing.T) {
	offset := offsetKey("g", tp)
	for _, test := range []struct {
		name       string
		key, value []byte
		other      bool
	}{
		{"no key", nil, nil, false},
		{"short key", []byte{0}, nil, false},
		{"key of another coordinator", []byte{0, 3, 0, 0}, nil, true},
		{"negative key version", []byte{0xff, 0xff}, nil, true},
		{"cut offset key", offset[:5], nil, false},
		{"cut group key", []byte{0, 2, 0, 9, 'g'}, nil, false},
		{"short offset value", offset, []byte{0}, false},
		{"offset value of an unknown version", offset, []byte{0, 5, 0, 0}, false},
		{"cut offset value", offset, []byte{0, 3, 0, 0}, false},
		{"cut group value", groupIDKey("g"), []byte{0, 3, 0, 1, 'x'}, false},
		{"group value of an unknown version", groupIDKey("g"), []byte{0, 9}, false},
	} {
		if _, err := decodeEntry(test.key, test.value); err == nil || errors.Is(err, errOtherKind) != test.other {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestLoadPassesGaps loads a log whose last records were removed by compaction, and one that begins with a gap.
func TestLoadPassesGaps(t *testing.T) {
	h := newHosted(t)
	b := record.NewBuilder()
	b.Add(1, offsetKey("g", tp), NewestVersions.offsetValue(commit{offset: 1, leaderEpoch: none, expiresMs: none}))
	b.Add(1, []byte{0, 3, 0, 0}, []byte("of another kind"))
	b.Add(1, groupIDKey("removed"), nil)
	batch := b.MustBuild()
	batch.SetLastOffset(50)
	if _, err := h.log.AppendFollower(batch); err != nil {
		t.Fatal(err)
	}
	b = record.NewBuilder()
	b.Add(1, offsetKey("g", tp), nil)
	large := strings.Repeat("x", 5000)
	b.Add(1, offsetKey("g", logstore.TopicPartition{Topic: "u"}), NewestVersions.offsetValue(commit{offset: 2, metadata: large, expiresMs: none}))
	batch = b.MustBuild()
	batch.SetLastOffset(100)
	if _, err := h.log.AppendFollower(batch); err != nil {
		t.Fatal(err)
	}
	l := newLoaded()
	if err := l.read(t.Context(), h, 100); err != nil { // a buffer smaller than the records
		t.Fatal(err)
	}
	if l.skipped != 1 || len(l.groups["g"].offsets) != 1 || l.groups["removed"].group("removed", testLimits(), epoch) != nil {
		t.Errorf("loaded %+v", l.groups)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newLoaded().read(ctx, h, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("loading continues: %v", err)
	}
}

// TestUnreadablePartitionIsNotServed: offsets that exist but cannot be read must not look as if there were none.
func TestUnreadablePartitionIsNotServed(t *testing.T) {
	h := newHosted(t)
	b := record.NewBuilder()
	b.Add(1, offsetKey("g", tp), []byte{0, 3})
	h.write(t, b)
	c := New(testConfig(t, h))
	t.Cleanup(c.Close)
	c.LeadershipChanged(0, 0, true)
	testwait.Until(t, "the end of the loading", func() bool { return fetched(t, c, "g", false) != "COORDINATOR_LOAD_IN_PROGRESS" })
	if got := fetched(t, c, "g", false); got != "COORDINATOR_NOT_AVAILABLE" {
		t.Errorf("offset: %s", got)
	}
}

// TestPartitionIsReadAgain: a coordinator retries reading a partition that could not be read, and applies what happens
// meanwhile.
func TestPartitionIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		b := record.NewBuilder()
		b.Add(1, offsetKey("g", tp), NewestVersions.offsetValue(commit{offset: 1}))
		other := logstore.TopicPartition{Topic: "u"}
		b.Add(1, offsetKey("g", other), NewestVersions.offsetValue(commit{offset: 2}))
		h.write(t, b)
		b = record.NewBuilder()
		b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = 7, 0, 0, true
		b.Add(1, offsetKey("open", tp), NewestVersions.offsetValue(commit{offset: 3}))
		h.write(t, b)
		h.set(func() { h.mu.broken = true })
		c := New(testConfig(t, h))
		t.Cleanup(c.Close)
		c.LeadershipChanged(0, 0, true)
		time.Sleep(10 * time.Second)
		if got := fetched(t, c, "g", false); got != "COORDINATOR_NOT_AVAILABLE" {
			t.Errorf("unreadable: %s", got)
		}
		c.TopicsDeleted([]logstore.TopicPartition{other})
		c.TxnMarker(0, h.marker(7, true, h.log.LogEndOffset()))
		h.set(func() { h.mu.broken = false })
		time.Sleep(time.Minute)
		if got := fetched(t, c, "g", false); got != `1 epoch -1 ""` {
			t.Errorf("readable again: %s", got)
		}
		if got := fetched(t, c, "open", true); got != `3 epoch -1 ""` {
			t.Errorf("its transaction was committed: %s", got)
		}
		topics, err := c.FetchOffsets("g", nil, false)
		if err != nil || len(topics) != 1 {
			t.Errorf("after topic u was deleted: %v, %v", topics, err)
		}
	})
}

// TestSampleDirectory loads the log directory itself, as after replacing a broker of Apache Kafka.
func TestSampleDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.FromSlash("../../logstore/testdata/logdir"))); err != nil {
		t.Fatal(err)
	}
	cfg := logstore.DefaultManagerConfig()
	cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger, cfg.FS, cfg.Now = []string{dir}, 1, "", testlog.To(t), vfs.OS{}, time.Now
	meta, _, err := logstore.ReadMeta(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg.BrokerID, cfg.ClusterID = meta.BrokerID, meta.ClusterID
	m, err := logstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	log, ok := m.Log(logstore.TopicPartition{Topic: Topic})
	if !ok {
		t.Fatal("the partition is not loaded")
	}
	c := start(t, testConfig(t, &hosted{log: log}))
	log.SetHighWatermark(log.LogEndOffset())
	topics, err := c.FetchOffsets("sample-group", nil, true)
	if err != nil || len(topics) != 2 || topics[0].Partitions[0].Offset != 65 {
		t.Errorf("offsets %+v, %v", topics, err)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	walk := record.Split(readSample(f))
	for walk.Next() {
		_ = walk.Batch().Records(func(r *record.Record) error {
			f.Add(r.Key, r.Value)
			return nil
		})
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		e, err := decodeEntry(key, value)
		if err != nil || e.offset == nil && e.group == nil {
			return
		}
		key, value = encode(e)
		again, err := decodeEntry(key, value)
		if err != nil {
			t.Fatalf("%x cannot be read again: %v", value, err)
		}
		if _, twice := encode(again); !bytes.Equal(value, twice) {
			t.Fatalf("%x is encoded as %x", value, twice)
		}
	})
}

func FuzzSubscription(f *testing.F) {
	f.Add(subscriptionTo("a", "b"))
	f.Add([]byte{0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		found := make(topics)
		if found.read(data) && len(found) > len(data) {
			t.Fatalf("%d topics in %d bytes", len(found), len(data))
		}
	})
}
