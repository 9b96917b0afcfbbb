package api

import (
	"testing"

	"barnabas/broker/metadata"
	"barnabas/config"
	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTopicsToAlter: what is wrong with the request is told before the topic is looked for, and for single operations
// also what no topic allows.
func TestTopicsToAlter(t *testing.T) {
	h := &Handlers{Deps: Deps{Metadata: metadata.NewCache()}}
	h.Metadata.Update(&kmsg.UpdateMetadataRequest{Version: 8, TopicStates: []kmsg.UpdateMetadataRequestTopicState{
		{Topic: "t", PartitionStates: []kmsg.UpdateMetadataRequestTopicPartition{{Partition: 0, Leader: 1}}}}})
	value := "1"
	set, appended := config.Op{Key: "retention.ms", Value: &value}, config.Op{Key: "retention.ms", Kind: config.OpAppend, Value: &value}
	for _, test := range []struct {
		topic   string
		op      config.Op
		replace bool
		code    int16
	}{
		{"t", set, false, 0},
		{"", set, false, kerr.InvalidRequest.Code},
		{"", set, true, kerr.InvalidRequest.Code},
		{"missing", set, false, kerr.UnknownTopicOrPartition.Code},
		{"missing", appended, false, kerr.InvalidConfig.Code},
		{"missing", appended, true, kerr.UnknownTopicOrPartition.Code},
		{"missing", config.Op{Key: "retention.ms"}, true, kerr.InvalidRequest.Code},
	} {
		if err := h.topicToAlter(test.topic, []config.Op{test.op}, test.replace); errcode.Of(err) != test.code {
			t.Errorf("topic %q, operation %d, replace %v: %v", test.topic, test.op.Kind, test.replace, err)
		}
	}
}
