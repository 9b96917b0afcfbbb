package api

import (
	"errors"

	"barnabas/broker/metrics"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
)

// expected are errors that clients cause and handle in normal operation: they do not count as failed requests.
var expected = []error{
	kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.CorruptMessage, kerr.KafkaStorageError, kerr.OffsetOutOfRange,
	kerr.ReplicaNotAvailable, kerr.UnsupportedCompressionType,
}

func isExpected(err error) bool {
	for _, e := range expected {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// countProduced counts the outcome for one partition of a Produce request.
func (h *Handlers) countProduced(topic string, bytes int, info logstore.AppendInfo, err error) {
	if h.Metrics == nil {
		return
	}
	h.Metrics.Topic(topic, func(t *metrics.TopicTraffic) {
		t.ProduceRequests.Add(1)
		switch {
		case err == nil:
			t.BytesIn.Add(int64(bytes))
			if info.FirstOffset >= 0 {
				t.MessagesIn.Add(info.LastOffset - info.FirstOffset + 1)
			}
		case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
			t.BytesRejected.Add(int64(bytes))
		case !isExpected(err):
			t.FailedProduce.Add(1)
		}
	})
}

// countFetched counts what the reader of one partition gets.
func (f *fetching) countFetched(a *fetchPartition) {
	if f.h.Metrics == nil || a.missing != nil {
		return
	}
	reassigned := f.reader.FromFollower() && a.part != nil && a.part.Adding(f.reader.Replica)
	f.h.Metrics.Topic(a.topic, func(t *metrics.TopicTraffic) {
		t.FetchRequests.Add(1)
		switch {
		case a.failed != nil && !isExpected(a.failed):
			t.FailedFetch.Add(1)
		case f.reader.FromFollower():
			t.ReplicationBytesOut.Add(a.size())
			if reassigned {
				t.ReassignmentBytesOut.Add(a.size())
			}
		default:
			t.BytesOut.Add(a.size())
		}
		if a.bytes != nil && a.failed == nil {
			t.FetchConversions.Add(1)
		}
	})
}
