package api

import (
	"time"

	"barnabas/broker/metrics"
	"barnabas/internal/logx"
	"barnabas/network"

	"github.com/sirupsen/logrus"
)

// logged logs a request when it is answered, if kafka.request.logger is at DEBUG. This is the only place that may log
// every request.
func (h *Handlers) logged(c *Call, answer network.Answer) network.Answer {
	if h.RequestLogger == nil || !h.RequestLogger.Logger.IsLevelEnabled(logrus.DebugLevel) {
		return answer
	}
	arrived, line := c.Arrived, h.RequestLogger.WithFields(requestFields(c))
	return answer.Then(func(network.Response) {
		line.WithField(logx.TookMs, time.Since(arrived).Milliseconds()).Debug("request answered")
	})
}

// requestFields identifies a request and its client.
func requestFields(c *Call) logrus.Fields {
	fields := logrus.Fields{
		logx.API: metrics.RequestName(c.Key), logx.Version: c.Version, logx.Correlation: c.Correlation, logx.SizeBytes: len(c.Body),
	}
	if c.Conn != nil {
		fields[logx.Conn], fields[logx.Listener] = c.Conn.ID(), c.Conn.Listener
	}
	if c.ClientID != nil {
		fields[logx.Client] = *c.ClientID
	}
	return fields
}
