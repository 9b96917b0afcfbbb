package api

import (
	"time"

	"barnabas/broker/metrics"
	"barnabas/internal/logx"
)

const (
	// slowRequest is how long the first half of a request's work may take. It does not include waits that the client
	// asked for, so a full disk cache, a lock or ZooKeeper must have delayed it.
	slowRequest = time.Second
	// sampleInterval is the interval between log lines of one kind that requests cause.
	sampleInterval = time.Second
)

// logSlow logs a request that took too long.
func (h *Handlers) logSlow(c *Call, took time.Duration) {
	if took < slowRequest {
		return
	}
	name := metrics.RequestName(c.Key)
	line, ok := h.lines.Line("slow "+name, h.Logger)
	if !ok {
		return
	}
	line.WithFields(requestFields(c)).WithField(logx.TookMs, took.Milliseconds()).Warn("slow request")
}
