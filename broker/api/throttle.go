package api

import (
	"strings"
	"time"

	"barnabas/broker/acl"
	"barnabas/broker/quota"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// user returns the principal's name without its type, as used in quotas.
func (c *Call) user() string {
	_, name, _ := strings.Cut(c.Conn.Principal, ":")
	return name
}

func (c *Call) clientID() string { return deref(c.ClientID) }

// holdBack makes the client wait before its next request is read. With several quotas, the longest wait applies.
func (c *Call) holdBack(d time.Duration) { c.wait = max(c.wait, d) }

// charge charges the client's use to a quota.
func (h *Handlers) charge(c *Call, kind quota.Kind, amount float64) {
	if h.Quotas.Any(kind) {
		c.holdBack(h.Quotas.Charge(kind, c.user(), c.clientID(), amount))
	}
}

// chargeTime charges time spent on a request to the request quota, in percent of a second (KIP-124).
func (h *Handlers) chargeTime(c *Call, took time.Duration) {
	if h.Quotas.Any(quota.Request) && !c.unanswered && !c.Conn.LoggingIn() && !h.exempt(c) {
		h.charge(c, quota.Request, 100*took.Seconds())
	}
}

// exempt reports whether a request comes from another broker. That a client says so is not enough.
func (h *Handlers) exempt(c *Call) bool {
	return (betweenBrokers(c.Key) || c.follower) && h.authorize.quietlyCluster(c, acl.ClusterAction)
}

// betweenBrokers reports whether an API is for brokers and exempt from quotas.
func betweenBrokers(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.LeaderAndISR, kmsg.StopReplica, kmsg.UpdateMetadata, kmsg.ControlledShutdown, kmsg.AlterPartition,
		kmsg.AllocateProducerIDs, kmsg.WriteTxnMarkers, kmsg.OffsetForLeaderEpoch:
		return true
	}
	return false
}

// throttled makes a client that exceeds its quota wait: the response tells it so, and the connection is not read
// meanwhile.
func (c *Call) throttled(answer network.Answer) network.Answer {
	if c.wait <= 0 {
		return answer
	}
	wait := c.wait
	c.Conn.Mute(wait)
	return answer.Then(func(resp network.Response) { setThrottle(resp, wait) })
}

func setThrottle(resp network.Response, wait time.Duration) {
	if r, ok := resp.(kmsg.SetThrottleResponse); ok {
		r.SetThrottle(int32(min(wait, maxThrottle).Milliseconds()))
	}
}

const maxThrottle = 24 * time.Hour // the field holds 32 bits of milliseconds

// mutate charges partitions that are about to be created or deleted: THROTTLING_QUOTA_EXCEEDED for clients whose
// version knows it (KIP-599).
func (h *Handlers) mutate(c *Call, partitions int, strictFrom int16) error {
	wait, ok := h.Quotas.Mutate(c.user(), c.clientID(), partitions, c.Version >= strictFrom)
	c.holdBack(wait)
	if !ok {
		return kerr.ThrottlingQuotaExceeded
	}
	return nil
}
