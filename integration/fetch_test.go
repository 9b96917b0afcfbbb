package integration

import (
	"slices"
	"strings"
	"testing"

	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFirstBatchComesWhole: the first batch is returned whole although it exceeds all limits; later partitions get what
// remains of them, but no part of a batch that they would begin with.
func TestFirstBatchComesWhole(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 2, 1)
	w := dialWire(t, c.Broker(0).Addr())
	for p := range int32(2) {
		req := producing(9, "t", batch(strings.Repeat("x", 500_000)).MustBuild())
		req.Topics[0].Partitions[0].Partition = p
		w.call(req)
	}
	req := fetching(11, "t", 0)
	req.MaxBytes = 1
	second := kmsg.NewFetchRequestTopicPartition()
	second.Partition, second.PartitionMaxBytes = 1, 1
	req.Topics[0].Partitions[0].PartitionMaxBytes = 1
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, second)
	parts := w.call(req).(*kmsg.FetchResponse).Topics[0].Partitions
	if got := offsets(parts[0].RecordBatches); !slices.Equal(got, []int64{0}) || len(parts[1].RecordBatches) != 0 {
		t.Errorf("batches %v, then %d bytes", got, len(parts[1].RecordBatches))
	}
	req.MaxBytes, req.Topics[0].Partitions[1].PartitionMaxBytes = 1<<20, 1000
	parts = w.call(req).(*kmsg.FetchResponse).Topics[0].Partitions
	if got := len(parts[1].RecordBatches); got != 0 {
		t.Errorf("%d bytes of a batch that is larger than its partition's limit", got)
	}
}

// TestFetchInsideABatch: a fetch from an offset inside a batch returns the whole batch; at the log end it returns
// nothing, and beyond it an error.
func TestFetchInsideABatch(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	w.produce(9, "t", batch("0", "1").MustBuild())
	w.produce(9, "t", batch("2", "3").MustBuild())
	for _, test := range []struct {
		offset int64
		want   []int64
		code   int16
	}{{0, []int64{0, 2}, 0}, {1, []int64{0, 2}, 0}, {3, []int64{2}, 0}, {4, nil, 0}, {5, nil, 1}, {-1, nil, 1}} {
		p := w.fetch(fetching(12, "t", test.offset))
		if got := offsets(p.RecordBatches); !slices.Equal(got, test.want) || p.ErrorCode != test.code {
			t.Errorf("offset %d: batches %v, error %d; want %v, %d", test.offset, got, p.ErrorCode, test.want, test.code)
		}
	}
	del := kmsg.NewPtrDeleteRecordsRequest()
	del.Version, del.TimeoutMillis = 2, 10000
	del.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 3}}}}
	w.call(del)
	if p := w.fetch(fetching(12, "t", 3)); p.LogStartOffset != 3 || p.ErrorCode != 0 {
		t.Errorf("after DeleteRecords to 3: log start %d, error %d", p.LogStartOffset, p.ErrorCode)
	}
	if p := w.fetch(fetching(12, "t", 2)); p.ErrorCode != 1 {
		t.Errorf("below the log start offset: error %d", p.ErrorCode)
	}
}

// TestReadCommittedWithoutTransactions: without transactions read_committed returns the same records, and
// read_uncommitted no list of aborted transactions.
func TestReadCommittedWithoutTransactions(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	w.produce(9, "t", batch("a").MustBuild())
	for isolation := range int8(2) {
		req := fetching(11, "t", 0)
		req.IsolationLevel = isolation
		p := w.fetch(req)
		if p.ErrorCode != 0 || p.LastStableOffset != 1 || p.HighWatermark != 1 || len(p.RecordBatches) == 0 {
			t.Errorf("isolation %d: %+v", isolation, p)
		}
		if (p.AbortedTransactions == nil) != (isolation == 0) {
			t.Errorf("isolation %d: aborted transactions %v", isolation, p.AbortedTransactions)
		}
	}
}

// TestFetchOfNothing: a fetch of no partitions does not wait.
func TestFetchOfNothing(t *testing.T) {
	t.Parallel()
	w := dialWire(t, kafkatest.Run(t).Broker(0).Addr())
	req := fetching(11, "t", 0)
	req.Topics, req.MaxWaitMillis = nil, 3600_000
	if resp := w.call(req).(*kmsg.FetchResponse); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("%+v", resp)
	}
}

// TestNegativePartitionLimit: a negative limit fails this partition and no other.
func TestNegativePartitionLimit(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 2, 1)
	w := dialWire(t, c.Broker(0).Addr())
	req := fetching(11, "t", 0)
	other := kmsg.NewFetchRequestTopicPartition()
	other.Partition, other.PartitionMaxBytes = 1, 1000
	req.Topics[0].Partitions[0].PartitionMaxBytes = -1 << 31
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, other)
	parts := w.call(req).(*kmsg.FetchResponse).Topics[0].Partitions
	if parts[0].ErrorCode != -1 || parts[1].ErrorCode != 0 {
		t.Errorf("errors %d and %d, want -1 and 0", parts[0].ErrorCode, parts[1].ErrorCode)
	}
	w.call(kmsg.NewPtrApiVersionsRequest())
}

// TestFetchByNonReplica: a fetch by a broker that is not a replica does not count as progress.
func TestFetchByNonReplica(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	for epoch, want := range map[int32]int16{-1: 6, 0: 75} {
		req := fetching(11, "t", 0)
		req.ReplicaID = 9
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		if p := w.fetch(req); p.ErrorCode != want {
			t.Errorf("with leader epoch %d: error %d, want %d", epoch, p.ErrorCode, want)
		}
	}
}

// TestFetchSessions: forgotten partitions are removed, wrong epochs and ids are errors, and a new session takes a slot
// of the full cache only when it may.
func TestFetchSessions(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Setting("max.incremental.fetch.session.cache.slots", "2"))
	id := newTopic(t, c, "t", 2, 1)
	w := dialWire(t, c.Broker(0).Addr())
	for _, version := range []int16{7, 12, 13} {
		ask := func(session, epoch int32, parts ...int32) *kmsg.FetchResponse {
			req := fetching(version, "t", 0)
			req.SessionID, req.SessionEpoch = session, epoch
			req.Topics[0].TopicID, req.Topics[0].Partitions = id, nil
			for _, n := range parts {
				p := kmsg.NewFetchRequestTopicPartition()
				p.Partition, p.PartitionMaxBytes = n, 1000
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
			}
			if len(parts) == 0 {
				req.Topics = nil
			}
			return w.call(req).(*kmsg.FetchResponse)
		}
		first := ask(0, 0, 0, 1)
		if first.SessionID == 0 || len(first.Topics) != 1 || len(first.Topics[0].Partitions) != 2 {
			t.Fatalf("v%d: %+v", version, first)
		}
		forget := fetching(version, "t", 0)
		forget.SessionID, forget.SessionEpoch, forget.Topics = first.SessionID, 1, nil
		forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", TopicID: id, Partitions: []int32{0}}}
		w.call(forget)
		produced := producing(9, "t", batch("x").MustBuild())
		w.call(produced)
		if next := ask(first.SessionID, 2); next.ErrorCode != 0 || len(next.Topics) != 0 {
			t.Errorf("v%d: the forgotten partition was returned: %+v", version, next.Topics)
		}
		if wrong := ask(first.SessionID, 7); wrong.ErrorCode != 71 {
			t.Errorf("v%d: wrong epoch gives %d, want 71", version, wrong.ErrorCode)
		}
		if unknown := ask(first.SessionID+1, 3); unknown.ErrorCode != 70 {
			t.Errorf("v%d: unknown session gives %d, want 70", version, unknown.ErrorCode)
		}
		if closed := ask(first.SessionID, -1, 0); closed.SessionID != 0 {
			t.Errorf("v%d: the session is still open", version)
		}
	}
	open := func() int32 {
		req := fetching(12, "t", 0)
		req.SessionEpoch = 0
		return w.call(req).(*kmsg.FetchResponse).SessionID
	}
	if a, b, none := open(), open(), open(); a == 0 || b == 0 || none != 0 {
		t.Errorf("sessions %d, %d, %d with two slots", a, b, none)
	}
}
