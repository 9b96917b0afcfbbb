package api

import (
	"context"
	"slices"

	"barnabas/broker/acl"
	"barnabas/broker/replica"
	"barnabas/internal/errcode"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// stopReplica stops serving partitions and deletes some. v0: one partition per entry; v1: by topic; v3: with leader
// epochs.
func (h *Handlers) stopReplica(_ context.Context, c *Call, req *kmsg.StopReplicaRequest) kmsg.Response {
	resp := kmsg.NewPtrStopReplicaResponse()
	stops := stopsOf(req)
	if err := h.authorize.cluster(c, acl.ClusterAction); err != nil {
		resp.ErrorCode = errcode.Of(err)
		h.fillStopped(resp, stops, slices.Repeat([]error{err}, len(stops)))
		return resp
	}
	if err := h.checkBrokerEpoch(req.BrokerEpoch); err != nil {
		resp.ErrorCode = errcode.Of(err)
		return resp
	}
	errs, err := h.Replicas.StopReplicas(req.ControllerEpoch, stops)
	if err != nil {
		resp.ErrorCode = h.codeOf(err)
		return resp
	}
	h.fillStopped(resp, stops, errs)
	return resp
}

// fillStopped fills in the outcome for each partition.
func (h *Handlers) fillStopped(resp *kmsg.StopReplicaResponse, stops []replica.Stop, errs []error) {
	for i, s := range stops {
		out := kmsg.NewStopReplicaResponsePartition()
		out.Topic, out.Partition, out.ErrorCode = s.TP.Topic, s.TP.Partition, h.codeOf(errs[i])
		resp.Partitions = append(resp.Partitions, out)
	}
}

// noLeaderEpoch is the leader epoch for versions without one.
const noLeaderEpoch = -1

func stopsOf(req *kmsg.StopReplicaRequest) []replica.Stop {
	var stops []replica.Stop
	for _, t := range req.Topics {
		add := func(partition, epoch int32, del bool) {
			stops = append(stops, replica.Stop{TP: logstore.TopicPartition{Topic: t.Topic, Partition: partition}, LeaderEpoch: epoch, Delete: del})
		}
		switch {
		case req.Version == 0:
			add(t.Partition, noLeaderEpoch, req.DeletePartitions)
		case req.Version < 3:
			for _, p := range t.Partitions {
				add(p, noLeaderEpoch, req.DeletePartitions)
			}
		default:
			for _, p := range t.PartitionStates {
				add(p.Partition, p.LeaderEpoch, p.Delete)
			}
		}
	}
	return stops
}
