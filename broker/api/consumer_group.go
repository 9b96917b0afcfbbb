package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerGroupHeartbeat refuses: the consumer protocol of KIP-848 requires the coordinator of KRaft mode.
func (h *Handlers) consumerGroupHeartbeat(context.Context, *Call, *kmsg.ConsumerGroupHeartbeatRequest) kmsg.Response {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	return resp
}

// consumerGroupDescribe refuses for each group, like consumerGroupHeartbeat.
func (h *Handlers) consumerGroupDescribe(_ context.Context, _ *Call, req *kmsg.ConsumerGroupDescribeRequest) kmsg.Response {
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	for _, group := range req.Groups {
		g := kmsg.NewConsumerGroupDescribeResponseGroup()
		g.Group, g.ErrorCode = group, kerr.UnsupportedVersion.Code
		resp.Groups = append(resp.Groups, g)
	}
	return resp
}
