package api

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"barnabas/broker/acl"
	"barnabas/broker/replica"
	"barnabas/internal/errcode"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// checkBrokerEpoch refuses a control request that was meant for an earlier registration of this broker (KIP-380). A
// request that knows a newer registration is right: ZooKeeper's answer with it has not reached this broker yet.
func (h *Handlers) checkBrokerEpoch(epoch int64) error {
	if current := h.BrokerEpoch(); epoch != -1 && epoch < current {
		return fmt.Errorf("broker epoch %d, current %d: %w", epoch, current, kerr.StaleBrokerEpoch)
	}
	return nil
}

// leaderAndISR makes this broker the leader or follower of partitions. v2: by topic. v5: topic ids in the response.
func (h *Handlers) leaderAndISR(_ context.Context, c *Call, req *kmsg.LeaderAndISRRequest) kmsg.Response {
	resp := kmsg.NewPtrLeaderAndISRResponse()
	assignments := assignmentsOf(req)
	if err := h.authorize.cluster(c, acl.ClusterAction); err != nil {
		resp.ErrorCode = errcode.Of(err)
		h.fillAssigned(c, resp, assignments, slices.Repeat([]error{err}, len(assignments)))
		return resp
	}
	if err := h.checkBrokerEpoch(req.BrokerEpoch); err != nil {
		resp.ErrorCode = errcode.Of(err)
		return resp
	}
	errs, err := h.Replicas.ApplyLeaderAndISR(req.ControllerEpoch, assignments, leadersOf(req))
	if err != nil {
		resp.ErrorCode = h.codeOf(err)
		return resp
	}
	h.fillAssigned(c, resp, assignments, errs)
	return resp
}

// fillAssigned fills in the outcome for each partition.
func (h *Handlers) fillAssigned(c *Call, resp *kmsg.LeaderAndISRResponse, assignments []replica.Assignment, errs []error) {
	for i, a := range assignments {
		out := kmsg.NewLeaderAndISRResponseTopicPartition()
		out.Topic, out.Partition, out.ErrorCode = a.TP.Topic, a.TP.Partition, h.codeOf(errs[i])
		if c.Version < 5 {
			resp.Partitions = append(resp.Partitions, out)
			continue
		}
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].TopicID != a.Topic {
			t := kmsg.NewLeaderAndISRResponseTopic()
			t.TopicID = a.Topic
			resp.Topics = append(resp.Topics, t)
		}
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, out)
	}
}

// assignmentsOf lists a request's partitions in any version.
func assignmentsOf(req *kmsg.LeaderAndISRRequest) []replica.Assignment {
	var list []replica.Assignment
	for i := range req.PartitionStates { // v0, v1
		s := &req.PartitionStates[i]
		list = append(list, replica.Assignment{TP: logstore.TopicPartition{Topic: s.Topic, Partition: s.Partition}, State: s})
	}
	for i := range req.TopicStates {
		t := &req.TopicStates[i]
		for j := range t.PartitionStates {
			s := &t.PartitionStates[j]
			list = append(list, replica.Assignment{TP: logstore.TopicPartition{Topic: t.Topic, Partition: s.Partition}, Topic: t.TopicID, State: s})
		}
	}
	return list
}

func leadersOf(req *kmsg.LeaderAndISRRequest) []replica.BrokerAddress {
	leaders := make([]replica.BrokerAddress, 0, len(req.LiveLeaders))
	for _, l := range req.LiveLeaders {
		leaders = append(leaders, replica.BrokerAddress{ID: l.BrokerID, Addr: net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))})
	}
	return leaders
}
