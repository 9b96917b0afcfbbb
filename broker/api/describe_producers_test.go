package api

import (
	"testing"

	"barnabas/broker/metadata"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestProducersOfUnknownPartitions: there is a message for an unknown topic, but none for an unknown partition of a known
// one, as in Apache Kafka.
func TestProducersOfUnknownPartitions(t *testing.T) {
	h := &Handlers{Deps: Deps{Metadata: metadata.NewCache(), Replicas: newReplicas(t)}}
	h.Metadata.Update(&kmsg.UpdateMetadataRequest{Version: 8, TopicStates: []kmsg.UpdateMetadataRequestTopicState{
		{Topic: "t", PartitionStates: []kmsg.UpdateMetadataRequestTopicPartition{{Partition: 0, Leader: 2}}}}})
	for _, test := range []struct {
		topic     string
		partition int32
		code      int16
		text      bool
	}{
		{"t", 1, kerr.UnknownTopicOrPartition.Code, false},
		{"unknown", 0, kerr.UnknownTopicOrPartition.Code, true},
		{"t", 0, kerr.NotLeaderForPartition.Code, false},
	} {
		out := h.producersOf(test.topic, test.partition, nil)
		if out.ErrorCode != test.code || (out.ErrorMessage != nil) != test.text {
			t.Errorf("%s-%d: error code %d, message %v", test.topic, test.partition, out.ErrorCode, out.ErrorMessage)
		}
	}
}
