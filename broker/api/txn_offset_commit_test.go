package api

import (
	"testing"

	"barnabas/broker/metadata"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestOffsetsOfATransactionWithoutAGroup: that a group has no name is found before the coordinator of the transaction is
// asked (GroupCoordinator.handleTxnCommitOffsets, 3.9).
func TestOffsetsOfATransactionWithoutAGroup(t *testing.T) {
	h := &Handlers{Deps: Deps{Metadata: metadata.NewCache()}}
	h.Metadata.Update(&kmsg.UpdateMetadataRequest{Version: 8, TopicStates: []kmsg.UpdateMetadataRequestTopicState{
		{Topic: "t", PartitionStates: []kmsg.UpdateMetadataRequestTopicPartition{{Partition: 0, Leader: 1}}}}})
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID = "id"
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: 0}, {Partition: 1}}}}
	resp := h.txnOffsetCommit(t.Context(), &Call{Request: &network.Request{Version: 3}}, req).Wait(t.Context()).(*kmsg.TxnOffsetCommitResponse)
	parts := resp.Topics[0].Partitions
	if parts[0].ErrorCode != kerr.InvalidGroupID.Code || parts[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("error codes %d and %d", parts[0].ErrorCode, parts[1].ErrorCode)
	}
}
