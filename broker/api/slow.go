package api

import (
	"time"

	"barnabas/broker/metrics"
	"barnabas/internal/logx"
)

const (
	// slowRequest is how long the first half of a request's work may take, which waits for nothing that a client asked to
	// wait for: a full disk cache, a lock or ZooKeeper has held it up.
	slowRequest = time.Second
	// sampleInterval is how often a line of a kind may be written that requests cause.
	sampleInterval = time.Second
)

// tellSlow logs a request that took too long.
func (h *Handlers) tellSlow(c *Call, took time.Duration) {
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
