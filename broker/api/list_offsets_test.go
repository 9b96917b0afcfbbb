package api

import (
	"slices"
	"testing"

	"barnabas/broker/metadata"
	"barnabas/broker/replica"
	"barnabas/internal/errcode"
	"barnabas/logstore"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestOffsetsAfterAnElection: a new leader does not tell where the log ends before it knows which of its records are
// acknowledged (KIP-207).
func TestOffsetsAfterAnElection(t *testing.T) {
	replicas := newReplicas(t)
	p := assign(t, replicas, 1, 0, 1, 2)
	b := record.NewBuilder()
	b.Add(1000, nil, []byte("v"))
	if _, err := p.Append(b.MustBuild(), false, logstore.LeaderAppend{ProduceVersion: 9}); err != nil {
		t.Fatal(err)
	}
	assign(t, replicas, 1, 2, 1, 2) // another broker may have led in between, and acknowledged the record
	h := &Handlers{Deps: Deps{Metadata: metadata.NewCache(), Replicas: replicas}}
	ask := func(version int16, replica int32, timestamp int64) (int64, error) {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = replica
		f, err := h.findOffset(&Call{Request: &network.Request{Version: version}}, req, "t",
			&kmsg.ListOffsetsRequestTopicPartition{CurrentLeaderEpoch: -1, Timestamp: timestamp})
		return f.offset, err
	}
	for _, test := range []struct {
		name      string
		version   int16
		replica   int32
		timestamp int64
		want      int64
		code      int16
	}{
		{"end", 5, -1, latestOffset, -1, kerr.OffsetNotAvailable.Code},
		{"end, old client", 4, -1, latestOffset, -1, kerr.LeaderNotAvailable.Code},
		{"end for a follower", 5, 2, latestOffset, 1, 0},
		{"end for a debugging client", 5, debuggingReplica, latestOffset, 1, 0},
		{"start", 5, -1, earliestOffset, 0, 0},
		{"time of the record", 5, -1, 1000, -1, kerr.OffsetNotAvailable.Code},
		{"newest record", 7, -1, maxTimestamp, -1, kerr.OffsetNotAvailable.Code},
		{"tiered", 9, -1, latestTiered, -1, 0},
		{"newest record, old client", 6, -1, maxTimestamp, -1, kerr.UnsupportedVersion.Code},
	} {
		if got, err := ask(test.version, test.replica, test.timestamp); got != test.want || errcode.Of(err) != test.code {
			t.Errorf("%s: %d, %v", test.name, got, err)
		}
	}
	for asker, want := range map[int32][]int64{consumerReplica: {0}, debuggingReplica: {1, 0}, 2: {1, 0}} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = asker
		got, err := h.oldStyleOffsets(req, "t", &kmsg.ListOffsetsRequestTopicPartition{Timestamp: latestOffset, MaxNumOffsets: 9})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("version 0, replica %d: got %v, %v, want %v", asker, got, err, want)
		}
	}
	if v, err := p.Read(replica.Reader{Replica: 2, Isolation: replica.ReadToEnd}, replica.Position{LeaderEpoch: 2, LastFetchedEpoch: -1, Offset: 1}); err != nil {
		t.Fatal(err)
	} else {
		v.Records.Close()
	}
	if got, err := ask(5, -1, latestOffset); got != 1 || err != nil {
		t.Errorf("end, once the follower has fetched: %d, %v", got, err)
	}
}

// TestTimestampsOfLaterVersions: a special timestamp that the request's version does not have is refused, whether or not
// there is such a partition (KafkaApis.handleListOffsetRequest, 3.9).
func TestTimestampsOfLaterVersions(t *testing.T) {
	replicas := newReplicas(t)
	assign(t, replicas, 1, 0, 1)
	h := &Handlers{Deps: Deps{Metadata: metadata.NewCache(), Replicas: replicas}}
	for _, test := range []struct {
		version   int16
		partition int32
		timestamp int64
		code      int16
	}{
		{0, 0, latestOffset, 0},
		{0, 0, maxTimestamp, kerr.UnsupportedVersion.Code},
		{0, 7, maxTimestamp, kerr.UnsupportedVersion.Code},
		{0, 7, latestOffset, kerr.UnknownTopicOrPartition.Code},
		{6, 0, maxTimestamp, kerr.UnsupportedVersion.Code},
		{7, 7, earliestLocal, kerr.UnsupportedVersion.Code},
		{7, 7, maxTimestamp, kerr.UnknownTopicOrPartition.Code},
		{9, 0, -6, kerr.UnsupportedVersion.Code},
	} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = consumerReplica
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{
			{Partition: test.partition, CurrentLeaderEpoch: -1, Timestamp: test.timestamp, MaxNumOffsets: 1}}}}
		resp := h.listOffsets(t.Context(), &Call{Request: &network.Request{Version: test.version}}, req).(*kmsg.ListOffsetsResponse)
		if got := resp.Topics[0].Partitions[0].ErrorCode; got != test.code {
			t.Errorf("version %d, partition %d, timestamp %d: error code %d", test.version, test.partition, test.timestamp, got)
		}
	}
}

// TestOffsetsOfAPartitionNamedTwice: all entries of a partition are refused, in whichever lists they are.
func TestOffsetsOfAPartitionNamedTwice(t *testing.T) {
	topic := func(name string, partitions ...int32) kmsg.ListOffsetsRequestTopic {
		out := kmsg.ListOffsetsRequestTopic{Topic: name}
		for _, p := range partitions {
			out.Partitions = append(out.Partitions, kmsg.ListOffsetsRequestTopicPartition{Partition: p, CurrentLeaderEpoch: -1, Timestamp: latestOffset})
		}
		return out
	}
	h := &Handlers{Deps: Deps{Metadata: metadata.NewCache(), Replicas: newReplicas(t)}}
	unknown, twice := kerr.UnknownTopicOrPartition.Code, kerr.InvalidRequest.Code
	for _, test := range []struct {
		name   string
		topics []kmsg.ListOffsetsRequestTopic
		want   []int16
	}{
		{"once", []kmsg.ListOffsetsRequestTopic{topic("t", 0, 1), topic("u", 0)}, []int16{unknown, unknown, unknown}},
		{"in one list", []kmsg.ListOffsetsRequestTopic{topic("t", 0, 1, 0)}, []int16{twice, unknown, twice}},
		{"in two lists", []kmsg.ListOffsetsRequestTopic{topic("t", 0, 1), topic("u", 0), topic("t", 0)}, []int16{twice, unknown, unknown, twice}},
	} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Topics = test.topics
		resp := h.listOffsets(t.Context(), &Call{Request: &network.Request{Version: 9}}, req).(*kmsg.ListOffsetsResponse)
		var got []int16
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				got = append(got, p.ErrorCode)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
