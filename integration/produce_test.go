package integration

import (
	"strings"
	"testing"
	"time"

	"barnabas/kafkatest"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAcksZeroErrorsCloseTheConnection: an error with acks=0 closes the connection, so that the client notices.
func TestAcksZeroErrorsCloseTheConnection(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Setting("auto.create.topics.enable", "false"))
	newTopic(t, c, "t", 1, 1)
	good := producing(9, "t", batch("a").MustBuild())
	good.Acks = 0
	w := dialWire(t, c.Broker(0).Addr())
	w.send(good)
	w.call(kmsg.NewPtrApiVersionsRequest())
	bad := producing(9, "nope", batch("a").MustBuild())
	bad.Acks = 0
	w.send(bad)
	w.closed()
}

// TestSeveralPartitionsInOneRequest: they get one response with a result for each.
func TestSeveralPartitionsInOneRequest(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 3, 1)
	req := producing(9, "t", nil)
	req.Topics[0].Partitions = nil
	for i := range int32(3) {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = i, batch("x").MustBuild()
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	resp := dialWire(t, c.Broker(0).Addr()).call(req).(*kmsg.ProduceResponse)
	for i, p := range resp.Topics[0].Partitions {
		if p.Partition != int32(i) || p.ErrorCode != 0 || p.BaseOffset != 0 {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
}

// TestOldMessageSets: a set of magic 1 messages whose offsets are all 0 gets as many offsets as it has messages.
func TestOldMessageSets(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	var set []byte
	for range 5 {
		set = record.AppendMessage(set, 1, 0, 1_790_000_000_000, []byte("k"), []byte("v"))
	}
	if p := w.produce(2, "t", set); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Fatalf("%+v", p)
	}
	if p := w.produce(9, "t", batch("next").MustBuild()); p.ErrorCode != 0 || p.BaseOffset != 5 {
		t.Errorf("the next batch is at %d, error %d", p.BaseOffset, p.ErrorCode)
	}
}

// TestZstdThroughOldVersions: zstd is refused in old versions for that partition only, and the connection stays open.
func TestZstdThroughOldVersions(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	newTopic(t, c, "zstd", 1, 1, "compression.type", "zstd")
	w := dialWire(t, c.Broker(0).Addr())
	compressed := batch(strings.Repeat("x", 1000))
	compressed.Codec = record.Zstd
	if p := w.produce(6, "t", compressed.MustBuild()); p.ErrorCode != 76 {
		t.Errorf("v6: error %d, want 76", p.ErrorCode)
	}
	if p := w.produce(7, "t", compressed.MustBuild()); p.ErrorCode != 0 {
		t.Errorf("v7: error %d", p.ErrorCode)
	}
	w.produce(9, "zstd", batch("x").MustBuild())
	if p := w.fetch(fetching(9, "zstd", 0)); p.ErrorCode != 76 {
		t.Errorf("Fetch v9 of a zstd topic: error %d, want 76", p.ErrorCode)
	}
	if p := w.fetch(fetching(10, "zstd", 0)); p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("Fetch v10 of a zstd topic: error %d", p.ErrorCode)
	}
}

// TestKeylessRecordInACompactedTopic: the batch is refused, and the error names the record.
func TestKeylessRecordInACompactedTopic(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1, "cleanup.policy", "compact")
	w := dialWire(t, c.Broker(0).Addr())
	b := record.NewBuilder()
	b.Add(1_790_000_000_000, []byte("k"), []byte("v"))
	b.Add(1_790_000_000_000, nil, []byte("v"))
	b.Add(1_790_000_000_000, []byte("k"), []byte("v"))
	p := w.produce(8, "t", b.MustBuild())
	if p.ErrorCode != 87 || len(p.ErrorRecords) != 1 || p.ErrorRecords[0].RelativeOffset != 1 {
		t.Errorf("%+v", p)
	}
	if p := w.fetch(fetching(12, "t", 0)); p.HighWatermark != 0 {
		t.Errorf("something was appended: high watermark %d", p.HighWatermark)
	}
}

// TestRetriedBatches: the response to a duplicate has the original base offset; an older producer epoch is fenced.
func TestRetriedBatches(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	send := func(epoch int16, seq int32) kmsg.ProduceResponseTopicPartition {
		b := batch("v")
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = 9, epoch, seq
		return w.produce(9, "t", b.MustBuild())
	}
	for seq := range int32(8) {
		send(1, seq)
	}
	for _, test := range []struct {
		epoch  int16
		seq    int32
		code   int16
		offset int64
	}{{1, 7, 0, 7}, {1, 3, 0, 3}, {1, 1, 45, -1}, {1, 9, 45, -1}, {0, 8, 47, -1}} {
		if p := send(test.epoch, test.seq); p.ErrorCode != test.code || p.BaseOffset != test.offset {
			t.Errorf("epoch %d, sequence %d: error %d at %d, want %d at %d", test.epoch, test.seq, p.ErrorCode, p.BaseOffset, test.code, test.offset)
		}
	}
}

// TestLogAppendTime: the broker's time is in the batch and in the response.
func TestLogAppendTime(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "append", 1, 1, "message.timestamp.type", "LogAppendTime")
	newTopic(t, c, "create", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	began := time.Now().UnixMilli()
	b := record.NewBuilder()
	b.Add(1, nil, []byte("v"))
	p := w.produce(9, "append", b.MustBuild())
	if p.LogAppendTime < began {
		t.Errorf("append time %d", p.LogAppendTime)
	}
	stored := record.Batch(w.fetch(fetching(12, "append", 0)).RecordBatches)
	if stored.TimestampType() != record.LogAppendTime || stored.MaxTimestamp() != p.LogAppendTime || !stored.Valid() {
		t.Errorf("stored with timestamp %d of type %v, valid %v", stored.MaxTimestamp(), stored.TimestampType(), stored.Valid())
	}
	if p := w.produce(9, "create", batch("v").MustBuild()); p.LogAppendTime != -1 {
		t.Errorf("with CreateTime the append time in the response is %d", p.LogAppendTime)
	}
}

// TestTimestampsOutOfBounds: the error names the record.
func TestTimestampsOutOfBounds(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "before", 1, 1, "message.timestamp.before.max.ms", "1000")
	newTopic(t, c, "after", 1, 1, "message.timestamp.after.max.ms", "1000")
	w := dialWire(t, c.Broker(0).Addr())
	for topic, away := range map[string]time.Duration{"before": -time.Hour, "after": time.Hour} {
		b := record.NewBuilder()
		b.Add(time.Now().UnixMilli(), nil, []byte("right"))
		b.Add(time.Now().Add(away).UnixMilli(), nil, []byte("wrong"))
		if p := w.produce(9, topic, b.MustBuild()); p.ErrorCode != 32 || len(p.ErrorRecords) != 1 || p.ErrorRecords[0].RelativeOffset != 1 {
			t.Errorf("%s: %+v", topic, p)
		}
	}
}

// TestAcknowledgedRecordIsReadableAtOnce: an acknowledged record can be read at once, also with three replicas.
func TestAcknowledgedRecordIsReadableAtOnce(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	w := dialWire(t, c.Broker(0).Addr())
	for i := range int64(50) {
		if p := w.produce(9, "t", batch("v").MustBuild()); p.BaseOffset != i {
			t.Fatalf("%+v", p)
		}
		if p := w.fetch(fetching(12, "t", i)); len(offsets(p.RecordBatches)) != 1 {
			t.Fatalf("record %d cannot be read yet", i)
		}
	}
}

// TestFirstWriteToAnAutomaticTopic: producing to an automatically created topic succeeds as soon as Metadata returns
// its leader.
func TestFirstWriteToAnAutomaticTopic(t *testing.T) {
	t.Parallel()
	w := dialWire(t, kafkatest.Run(t).Broker(0).Addr())
	name := "automatic"
	for range 1000 {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = 4, true
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		found := w.call(req).(*kmsg.MetadataResponse).Topics[0]
		if found.ErrorCode == 5 || (len(found.Partitions) > 0 && found.Partitions[0].ErrorCode == 5) {
			continue
		}
		if found.ErrorCode != 0 {
			t.Fatalf("error %d", found.ErrorCode)
		}
		if p := w.produce(9, name, batch("v").MustBuild()); p.ErrorCode != 0 {
			t.Fatalf("Metadata returns a leader that returns error %d", p.ErrorCode)
		}
		return
	}
	t.Fatal("the topic never got a leader")
}
