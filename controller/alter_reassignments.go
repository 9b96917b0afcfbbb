package controller

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterPartitionReassignments starts, changes or cancels reassignments.
func (c *Controller) AlterPartitionReassignments(ctx context.Context, req *kmsg.AlterPartitionAssignmentsRequest) *kmsg.AlterPartitionAssignmentsResponse {
	return alterReassignments.ask(ctx, c, req)
}

var alterReassignments = api[*kmsg.AlterPartitionAssignmentsRequest, *kmsg.AlterPartitionAssignmentsResponse]{
	name:   "alter reassignments",
	work:   AlterPartitionReassignment,
	answer: (*activeController).alterReassignments,
	refuse: func(_ *kmsg.AlterPartitionAssignmentsRequest, resp *kmsg.AlterPartitionAssignmentsResponse) {
		explain(kerr.NotController, &resp.ErrorCode, &resp.ErrorMessage)
	},
}

func (ac *activeController) alterReassignments(ctx context.Context, req *kmsg.AlterPartitionAssignmentsRequest) (*kmsg.AlterPartitionAssignmentsResponse, error) {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	verdicts := make(map[topicPartition]error)
	start := make(map[topicPartition][]int32)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			tp := topicPartition{Topic: t.Topic, Partition: p.Partition}
			if err := ac.m.checkReassignment(tp, p.Replicas); err != nil {
				verdicts[tp] = err
				continue
			}
			start[tp] = p.Replicas
		}
	}
	// The latest request counts, whichever way it came.
	if err := ac.trimAsked(ctx, func(tp topicPartition, _ []int32) bool { _, ok := start[tp]; return ok }); err != nil {
		return nil, err
	}
	for _, tp := range sorted(start) {
		err := ac.reassign(ctx, tp, start[tp])
		if err != nil && coded(err) == nil {
			return nil, err
		}
		verdicts[tp] = err
	}
	for _, t := range req.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			answer.Partition = p.Partition
			explain(verdicts[topicPartition{Topic: t.Topic, Partition: p.Partition}], &answer.ErrorCode, &answer.ErrorMessage)
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// checkReassignment returns what is wrong with a target; nil cancels a reassignment.
func (m *model) checkReassignment(tp topicPartition, target []int32) error {
	if target != nil {
		return m.checkTarget(tp, target)
	}
	if p := m.partition(tp); p == nil || !p.moving() {
		return kerr.NoReassignmentInProgress
	}
	return nil
}
