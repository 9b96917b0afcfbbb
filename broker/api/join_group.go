package api

import (
	"context"
	"fmt"

	"barnabas/broker/acl"
	"barnabas/broker/group"
	"barnabas/config"
	"barnabas/internal/errcode"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinGroup adds a member to its group's next generation.
//
// v1: a rebalance timeout (KIP-62). v4: a member id is required (KIP-394). v5: static members (KIP-345). v8: a reason
// (KIP-800). v9: a restarted leader need not assign (KIP-814).
func (h *Handlers) joinGroup(_ context.Context, c *Call, req *kmsg.JoinGroupRequest) network.Answer {
	err := h.checkInstance(req.InstanceID)
	if err == nil {
		err = h.authorize.group(c, acl.Read, req.Group)
	}
	if err != nil {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.ErrorCode, resp.Generation = errcode.Of(err), -1
		return ready(c, resp)
	}
	return later(c, h.Groups.Join(req, c.client()))
}

// checkInstance refuses static members with UNSUPPORTED_VERSION while there may be brokers that do not know them.
func (h *Handlers) checkInstance(instance *string) error {
	if v := h.Config.Current().InterBrokerProtocolVersion; instance != nil && v < config.IBP23IV0 {
		return fmt.Errorf("static members need inter.broker.protocol.version 2.3 or newer, not %s: %w", v, kerr.UnsupportedVersion)
	}
	return nil
}

// later returns a coordinator's answer in the version of the request.
func later[T kmsg.Response](c *Call, a group.Answer[T]) network.Answer {
	if resp, ok := a.Now(); ok {
		return ready(c, resp)
	}
	version := c.Version
	return network.Later(func(ctx context.Context) network.Response {
		resp, err := a.Wait(ctx)
		if err != nil {
			return nil // the connection has ended
		}
		resp.SetVersion(version)
		return resp
	})
}

// client describes the requesting client, as groups remember it.
func (c *Call) client() group.Client {
	return group.Client{ID: c.clientID(), Host: "/" + c.Conn.Host}
}
