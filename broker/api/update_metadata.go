package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/broker/metadata"
	"barnabas/internal/errcode"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// updateMetadata applies the controller's metadata of the cluster.
func (h *Handlers) updateMetadata(_ context.Context, c *Call, req *kmsg.UpdateMetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrUpdateMetadataResponse()
	err := h.authorize.cluster(c, acl.ClusterAction)
	if err == nil {
		err = h.checkBrokerEpoch(req.BrokerEpoch)
	}
	var before map[int32]*metadata.Broker
	if err == nil {
		err = h.Replicas.FromController(req.ControllerEpoch, func() {
			before = h.Metadata.Current().Brokers
			h.Metadata.Update(req)
		})
	}
	if err != nil {
		resp.ErrorCode = errcode.Of(err)
		return resp
	}
	if anyGone(before, h.Metadata.Current().Brokers) {
		h.Replicas.LiveBrokersChanged()
	}
	h.ControllerSpoke(req.ControllerEpoch)
	if deleted := deletedPartitions(req); len(deleted) > 0 {
		h.TopicsDeleted(deleted)
	}
	return resp
}

// anyGone reports whether one of the brokers is not among those of now.
func anyGone(before, now map[int32]*metadata.Broker) bool {
	for id := range before {
		if now[id] == nil {
			return true
		}
	}
	return false
}

// deletedPartitions lists the partitions that are being deleted according to the request, so that groups forget their
// offsets.
func deletedPartitions(req *kmsg.UpdateMetadataRequest) []logstore.TopicPartition {
	var deleted []logstore.TopicPartition
	note := func(topic string, partitions []kmsg.UpdateMetadataRequestTopicPartition) {
		for _, p := range partitions {
			if p.Leader == metadata.LeaderDuringDelete {
				deleted = append(deleted, logstore.TopicPartition{Topic: topic, Partition: p.Partition})
			}
		}
	}
	for _, t := range req.TopicStates {
		note(t.Topic, t.PartitionStates)
	}
	for i, p := range req.PartitionStates { // before v5
		note(p.Topic, req.PartitionStates[i:i+1])
	}
	return deleted
}
