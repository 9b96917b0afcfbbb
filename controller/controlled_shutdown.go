package controller

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ControlledShutdown moves the leaderships off a broker that is about to stop, and returns the partitions that it still
// leads.
func (c *Controller) ControlledShutdown(ctx context.Context, req *kmsg.ControlledShutdownRequest) *kmsg.ControlledShutdownResponse {
	return controlledShutdown.ask(ctx, c, req)
}

var controlledShutdown = api[*kmsg.ControlledShutdownRequest, *kmsg.ControlledShutdownResponse]{
	name:   "controlled shutdown",
	work:   ControlledShutdown,
	answer: (*activeController).controlledShutdown,
	refuse: func(_ *kmsg.ControlledShutdownRequest, resp *kmsg.ControlledShutdownResponse) {
		resp.ErrorCode = kerr.StaleControllerEpoch.Code // ControllerMovedException on the wire
	},
}

func (ac *activeController) controlledShutdown(ctx context.Context, req *kmsg.ControlledShutdownRequest) (*kmsg.ControlledShutdownResponse, error) {
	resp := req.ResponseKind().(*kmsg.ControlledShutdownResponse)
	b := ac.m.brokers[req.BrokerID]
	switch {
	case b == nil:
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
		return resp, nil
	case req.Version >= 2 && req.BrokerEpoch >= 0 && req.BrokerEpoch < b.info.Epoch:
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp, nil
	}
	b.shuttingDown = true
	var led, followed []topicPartition
	for _, tp := range ac.m.hosted(req.BrokerID) {
		p := ac.m.partition(tp)
		switch {
		case len(p.replicas) < 2 || p.state == nil || ac.m.deleting(tp):
		case p.state.Leader == req.BrokerID:
			led = append(led, tp)
		default:
			followed = append(followed, tp)
		}
	}
	if _, err := ac.elect(ctx, led, electForShutdown); err != nil {
		return nil, err
	}
	ac.flush()
	if err := ac.dropOffline(ctx, map[int32][]topicPartition{req.BrokerID: followed}); err != nil {
		return nil, err
	}
	ac.flush()
	for _, tp := range ac.m.hosted(req.BrokerID) {
		if p := ac.m.partition(tp); p.state != nil && p.state.Leader == req.BrokerID && len(p.replicas) > 1 && !ac.m.deleting(tp) {
			left := kmsg.NewControlledShutdownResponsePartitionsRemaining()
			left.Topic, left.Partition = tp.Topic, tp.Partition
			resp.PartitionsRemaining = append(resp.PartitionsRemaining, left)
		}
	}
	return resp, nil
}
