package api

import (
	"time"

	"barnabas/broker/metrics"
	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
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
	fields := logrus.Fields{logx.API: name, logx.Version: c.Version, logx.TookMs: took.Milliseconds(), logx.SizeBytes: len(c.Body)}
	if c.Conn != nil {
		fields[logx.Conn], fields[logx.Listener] = c.Conn.ID(), c.Conn.Listener
	}
	if c.ClientID != nil {
		fields[logx.Client] = *c.ClientID
	}
	line.WithFields(fields).Warn("slow request")
}
