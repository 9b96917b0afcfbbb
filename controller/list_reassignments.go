package controller

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListPartitionReassignments lists the reassignments in progress, of all partitions or of the given ones.
func (c *Controller) ListPartitionReassignments(ctx context.Context, req *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse {
	return listReassignments.ask(ctx, c, req)
}

var listReassignments = api[*kmsg.ListPartitionReassignmentsRequest, *kmsg.ListPartitionReassignmentsResponse]{
	name:   "list reassignments",
	work:   ListPartitionReassignment,
	answer: (*activeController).listReassignments,
	refuse: func(_ *kmsg.ListPartitionReassignmentsRequest, resp *kmsg.ListPartitionReassignmentsResponse) {
		explain(kerr.NotController, &resp.ErrorCode, &resp.ErrorMessage)
	},
}

func (ac *activeController) listReassignments(_ context.Context, req *kmsg.ListPartitionReassignmentsRequest) (*kmsg.ListPartitionReassignmentsResponse, error) {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	list := ac.m.reassigning
	if req.Topics != nil {
		list = make(map[topicPartition]struct{})
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				list[topicPartition{Topic: t.Topic, Partition: p}] = struct{}{}
			}
		}
	}
	for _, tp := range sorted(list) {
		p := ac.m.partition(tp)
		if p == nil || !p.moving() {
			continue
		}
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != tp.Topic {
			t := kmsg.NewListPartitionReassignmentsResponseTopic()
			t.Topic = tp.Topic
			resp.Topics = append(resp.Topics, t)
		}
		out := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		out.Partition, out.Replicas, out.AddingReplicas, out.RemovingReplicas = tp.Partition, p.replicas, p.adding, p.removing
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, out)
	}
	return resp, nil
}
