package api

import (
	"context"
	"fmt"

	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The endpoint types of DescribeCluster v1 (KIP-919).
const (
	brokerEndpoints     = 1
	controllerEndpoints = 2
)

// describeCluster returns the cluster's id, its controller and its brokers (KIP-700).
func (h *Handlers) describeCluster(_ context.Context, c *Call, req *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterAuthorizedOperations = unasked
	if c.Version >= 1 && req.EndpointType != brokerEndpoints {
		err := fmt.Errorf("endpoint type %d: %w", req.EndpointType, kerr.UnsupportedEndpointType)
		if req.EndpointType == controllerEndpoints {
			err = fmt.Errorf("a broker has no controller endpoints: %w", kerr.MismatchedEndpointType)
		}
		resp.ErrorCode, resp.ErrorMessage = errcode.Of(err), message(err)
		return resp
	}
	snapshot := h.Metadata.Current()
	resp.ClusterID, resp.ControllerID = h.ClusterID, controllerOf(snapshot)
	resp.EndpointType = brokerEndpoints
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = h.authorize.clusterOperations(c)
	}
	for _, b := range brokersOn(snapshot, c.Conn.Listener) {
		out := kmsg.NewDescribeClusterResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = b.NodeID, b.Host, b.Port, b.Rack
		resp.Brokers = append(resp.Brokers, out)
	}
	return resp
}
