package controller

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AllocateProducerIDs assigns a block of producer ids to a broker.
func (c *Controller) AllocateProducerIDs(ctx context.Context, req *kmsg.AllocateProducerIDsRequest) *kmsg.AllocateProducerIDsResponse {
	return allocateProducerIDs.ask(ctx, c, req)
}

var allocateProducerIDs = api[*kmsg.AllocateProducerIDsRequest, *kmsg.AllocateProducerIDsResponse]{
	name:   "allocate producer ids",
	work:   Idle,
	answer: (*activeController).allocateProducerIDs,
	refuse: func(_ *kmsg.AllocateProducerIDsRequest, resp *kmsg.AllocateProducerIDsResponse) {
		resp.ErrorCode = kerr.NotController.Code
	},
}

func (ac *activeController) allocateProducerIDs(ctx context.Context, req *kmsg.AllocateProducerIDsRequest) (*kmsg.AllocateProducerIDsResponse, error) {
	resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	epoch, registered := ac.m.registeredEpoch(req.BrokerID)
	switch {
	case !registered:
		resp.ErrorCode = kerr.BrokerIDNotRegistered.Code
	case epoch != req.BrokerEpoch:
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
	default:
		block, err := ac.store.NextProducerIDs(ctx, req.BrokerID)
		if err != nil {
			return nil, err
		}
		resp.ProducerIDStart, resp.ProducerIDLen = block.Start, int32(block.End-block.Start+1)
	}
	return resp, nil
}
