package api

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"barnabas/broker/replica"
	"barnabas/config"
	"barnabas/internal/testlog"
	"barnabas/logstore"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFetchCodes: whatever fails, a consumer gets an error code that it can handle. The Java consumer fails at codes
// that it does not expect, such as REQUEST_TIMED_OUT.
func TestFetchCodes(t *testing.T) {
	known := []int16{-1, 0, 1, 2, 3, 6, 9, 29, 56, 74, 75, 76, 78, 100, 103}
	for c := int16(-1); c < 140; c++ {
		err := kerr.ErrorForCode(c)
		if c == 0 || err == nil {
			continue
		}
		got := fetchCode(&fetchPartition{failed: fmt.Errorf("slow disk: %w", err)})
		if !slices.Contains(known, got) && got != kerr.UnsupportedVersion.Code { // which only versions below 4 get
			t.Errorf("%v is returned as error code %d", err, got)
		}
		if slices.Contains(known, c) && got != c {
			t.Errorf("%v is returned as error code %d", err, got)
		}
	}
	if got := fetchCode(&fetchPartition{failed: errors.New("no code")}); got != -1 {
		t.Errorf("an error without a code is returned as error code %d", got)
	}
}

// TestHighWatermarksAreSentWhereConsumersReadFromFollowers: where consumers may read from followers, a new high
// watermark is sent at once; elsewhere with the next records.
func TestHighWatermarksAreSentWhereConsumersReadFromFollowers(t *testing.T) {
	for _, test := range []struct {
		selector  string
		replica   int32
		announced int64 // the high watermark that the session has announced
		want      bool
	}{
		{config.RackAwareSelector, 2, 3, true},
		{config.RackAwareSelector, 2, 5, false},
		{config.RackAwareSelector, -1, 3, false},
		{"", 2, 3, false},
	} {
		cfg, err := config.Parse(map[string]string{"zookeeper.connect": "localhost:2181", "replica.selector.class": test.selector})
		if err != nil {
			t.Fatal(err)
		}
		part := sessionPart{partKey: partKey{topic: "t"}, mark: test.announced}
		session := &fetchSession{id: 1, index: map[partKey]*sessionPart{part.partKey: &part}}
		f := &fetching{
			h:       &Handlers{Deps: Deps{Config: config.NewDynamic(cfg, testlog.Quiet())}},
			session: &fetchContext{sessions: newFetchSessions(1), session: session},
			parts:   []fetchPartition{{topic: "t", preferred: -1, view: replica.View{HighWatermark: 5}}},
			reader:  replica.Reader{Replica: test.replica},
			min:     1,
		}
		if got := f.done(); got != test.want {
			t.Errorf("selector %q, replica %d, high watermark 5, announced %d: answered %v, want %v", test.selector, test.replica, test.announced, got, test.want)
		}
	}
}

// addBatch appends a batch of one record with 500 bytes.
func addBatch(t *testing.T, p *replica.Partition) {
	t.Helper()
	b := record.NewBuilder()
	b.Add(1000, nil, make([]byte, 500))
	if _, err := p.Append(b.MustBuild(), false, logstore.LeaderAppend{ProduceVersion: 9}); err != nil {
		t.Fatal(err)
	}
}

// consumerOf returns a consumer's fetch of partitions, from their starts, that wants as many bytes as it can get.
func consumerOf(max int64, isolation replica.Isolation, partitions ...*replica.Partition) *fetching {
	f := &fetching{h: &Handlers{}, reader: replica.Reader{Replica: -1, Isolation: isolation}, max: max, min: max, oneMore: true}
	for _, p := range partitions {
		f.parts = append(f.parts, fetchPartition{topic: p.TP.Topic, number: p.TP.Partition, part: p, preferred: -1,
			at: replica.Position{LeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}})
	}
	return f
}

// TestFetchDoesNotWaitAtTheEndOfASegment: a reader that wants more bytes than are left in a segment gets those at once if
// there are records in the next one, and waits if there are none.
func TestFetchDoesNotWaitAtTheEndOfASegment(t *testing.T) {
	p := assignPartition(t, newReplicas(t), logstore.TopicPartition{Topic: "t"}, 1, 0, 1)
	check := func(when string, offset int64, want bool) {
		t.Helper()
		for _, isolation := range []replica.Isolation{replica.ReadUncommitted, replica.ReadCommitted} {
			f := consumerOf(1<<20, isolation, p)
			f.parts[0].at.Offset = offset
			f.read()
			if got := f.done(); got != want {
				t.Errorf("%s, offset %d, isolation level %d: answered %v, want %v", when, offset, isolation, got, want)
			}
		}
	}
	addBatch(t, p)
	check("one segment", 0, false)
	if err := p.Log().Roll(); err != nil {
		t.Fatal(err)
	}
	check("an empty segment follows", 0, false)
	addBatch(t, p)
	check("records follow", 0, true)
	check("records follow", 1, false)
}

// TestFetchDoesNotWaitForWhatDoesNotFit: a reader that wants as many bytes as its response can have does not wait if the
// next batch does not fit.
func TestFetchDoesNotWaitForWhatDoesNotFit(t *testing.T) {
	replicas := newReplicas(t)
	one := assignPartition(t, replicas, logstore.TopicPartition{Topic: "t", Partition: 0}, 1, 0, 1)
	two := assignPartition(t, replicas, logstore.TopicPartition{Topic: "t", Partition: 1}, 1, 0, 1)
	f := consumerOf(900, replica.ReadUncommitted, one, two)
	addBatch(t, one)
	if f.read(); f.done() {
		t.Error("a fetch of at least 900 bytes is answered when there is one batch of 500")
	}
	addBatch(t, two)
	if f.read(); !f.done() {
		t.Error("a fetch of at least and at most 900 bytes waits although there are two batches of 500")
	}
	if one, two := f.parts[0].size(), f.parts[1].size(); one < 500 || two != 0 {
		t.Errorf("%d and %d bytes, want the first batch only", one, two)
	}
}

// TestFetchOfUnconvertibleRecords: a partition whose records an old client cannot have is answered without any, and the
// others with theirs.
func TestFetchOfUnconvertibleRecords(t *testing.T) {
	replicas := newReplicas(t)
	cfg, err := config.Parse(map[string]string{"zookeeper.connect": "localhost:2181"})
	if err != nil {
		t.Fatal(err)
	}
	topics := make(map[string]*config.Topic)
	f := &fetching{
		h: &Handlers{Deps: Deps{TopicConfig: func(topic string) *config.Topic { return topics[topic] }}},
		c: &Call{Request: &network.Request{Version: 3}}, reader: replica.Reader{Replica: -1}, max: 1 << 20, oneMore: true,
	}
	for _, topic := range []struct {
		name, convert string
		codec         record.Codec
	}{{"good", "true", record.None}, {"zstd", "true", record.Zstd}, {"as-it-is", "false", record.None}, {"also-good", "true", record.Gzip}} {
		if topics[topic.name], err = cfg.Topic(map[string]string{"message.downconversion.enable": topic.convert}); err != nil {
			t.Fatal(err)
		}
		p := assignPartition(t, replicas, logstore.TopicPartition{Topic: topic.name}, 1, 0, 1)
		b := record.NewBuilder()
		b.Codec = topic.codec
		b.Add(1000, nil, make([]byte, 500))
		if _, err := p.Append(b.MustBuild(), false, logstore.LeaderAppend{ProduceVersion: 9}); err != nil {
			t.Fatal(err)
		}
		f.parts = append(f.parts, fetchPartition{topic: topic.name, part: p, preferred: -1, at: replica.Position{LeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}})
	}
	f.read()
	f.convertAll()
	for i, want := range []error{nil, kerr.UnsupportedCompressionType, kerr.UnsupportedVersion, nil} {
		a := &f.parts[i]
		if !errors.Is(a.failed, want) || (a.size() == 0) != (want != nil) {
			t.Errorf("topic %s: %d bytes, %v", a.topic, a.size(), a.failed)
		}
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 3
	if err := resp.ReadFrom((&fetchResponse{version: 3, parts: f.parts}).AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	for i, topic := range resp.Topics {
		if p := topic.Partitions[0]; (p.ErrorCode != 0) != (p.RecordBatches == nil) || (p.ErrorCode != 0) != (i == 1 || i == 2) {
			t.Errorf("topic %s: code %d, %d bytes", topic.Topic, p.ErrorCode, len(p.RecordBatches))
		}
	}
}

// TestNegativeEpochs: any negative leader epoch in a fetch means that the client does not know one.
func TestNegativeEpochs(t *testing.T) {
	for _, epoch := range []int32{-1, -2, -1 << 31} {
		at := positionOf(&kmsg.FetchRequestTopicPartition{CurrentLeaderEpoch: epoch, LastFetchedEpoch: epoch})
		if at.LeaderEpoch != -1 || at.LastFetchedEpoch != -1 {
			t.Errorf("epoch %d is read as %d and %d", epoch, at.LeaderEpoch, at.LastFetchedEpoch)
		}
	}
}
