package api

import (
	"context"

	"barnabas/broker/acl"
	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The handlers in this file pass requests on to the controller.

func (h *Handlers) controlledShutdown(ctx context.Context, c *Call, req *kmsg.ControlledShutdownRequest) kmsg.Response {
	if err := h.authorize.cluster(c, acl.ClusterAction); err != nil {
		resp := kmsg.NewPtrControlledShutdownResponse()
		resp.ErrorCode = errcode.Of(err)
		return resp
	}
	return h.Controller.ControlledShutdown(ctx, req)
}

func (h *Handlers) alterPartition(ctx context.Context, c *Call, req *kmsg.AlterPartitionRequest) kmsg.Response {
	if err := h.authorize.cluster(c, acl.ClusterAction); err != nil {
		resp := kmsg.NewPtrAlterPartitionResponse()
		resp.ErrorCode = errcode.Of(err)
		return resp
	}
	return h.Controller.AlterPartition(ctx, req)
}

func (h *Handlers) allocateProducerIDs(ctx context.Context, c *Call, req *kmsg.AllocateProducerIDsRequest) kmsg.Response {
	if err := h.authorize.cluster(c, acl.ClusterAction); err != nil {
		resp := kmsg.NewPtrAllocateProducerIDsResponse()
		resp.ErrorCode = errcode.Of(err)
		return resp
	}
	return h.Controller.AllocateProducerIDs(ctx, req)
}

func (h *Handlers) alterPartitionReassignments(ctx context.Context, c *Call, req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	if err := h.authorize.cluster(c, acl.Alter); err != nil {
		return reassignmentsDenied(req, err)
	}
	resp := h.Controller.AlterPartitionReassignments(ctx, req)
	if resp.ErrorCode == 0 {
		resp.ErrorMessage = noMessage()
	}
	return resp
}

// reassignmentsDenied is the response to a client that may not move partitions.
func reassignmentsDenied(req *kmsg.AlterPartitionAssignmentsRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	resp.ErrorCode, resp.ErrorMessage = errcode.Of(err), message(err)
	for _, t := range req.Topics {
		topic := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			out := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			out.Partition, out.ErrorCode, out.ErrorMessage = p.Partition, resp.ErrorCode, resp.ErrorMessage
			topic.Partitions = append(topic.Partitions, out)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func (h *Handlers) listPartitionReassignments(ctx context.Context, c *Call, req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	if err := h.authorize.cluster(c, acl.Describe); err != nil {
		resp := kmsg.NewPtrListPartitionReassignmentsResponse()
		resp.ErrorCode, resp.ErrorMessage = errcode.Of(err), message(err)
		for _, t := range req.Topics {
			topic := kmsg.NewListPartitionReassignmentsResponseTopic()
			topic.Topic = t.Topic
			for _, number := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.ListPartitionReassignmentsResponseTopicPartition{Partition: number})
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp
	}
	resp := h.Controller.ListPartitionReassignments(ctx, req)
	if resp.ErrorCode == 0 {
		resp.ErrorMessage = noMessage()
	}
	return resp
}

func (h *Handlers) updateFeatures(ctx context.Context, c *Call, req *kmsg.UpdateFeaturesRequest) kmsg.Response {
	if err := h.authorize.cluster(c, acl.Alter); err != nil {
		resp := kmsg.NewPtrUpdateFeaturesResponse()
		resp.ErrorCode, resp.ErrorMessage = errcode.Of(err), message(err)
		return resp
	}
	return h.Controller.UpdateFeatures(ctx, req)
}
