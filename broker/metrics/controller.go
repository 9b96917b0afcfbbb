package metrics

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// controllerTimes measures the controller's events.
type controllerTimes struct {
	queued *summary
	of     []*summary // by the number of the kind of work; nil: not measured

	registry *prometheus.Registry
	mu       struct {
		sync.Mutex
		sent map[int32]*summary // by the receiving broker
	}
}

// newControllerTimes takes the names of the kinds of work, by number.
func newControllerTimes(r *prometheus.Registry, work []string) *controllerTimes {
	t := &controllerTimes{
		registry: r,
		queued:   newTimes(r, "kafka_controller_controllereventmanager_eventqueuetimems", "Time of the controller's events in its queue, in milliseconds.", nil),
		of:       make([]*summary, len(work)),
	}
	t.mu.sent = make(map[int32]*summary)
	for number, name := range work {
		if name != "" {
			t.of[number] = newTimes(r, "kafka_controller_controllerstats_"+name+"rateandtimems", "Time of the controller's work, in milliseconds.", nil)
		}
	}
	return t
}

// Controlled measures an event that the controller has handled, by the number of its kind of work.
func (m *Metrics) Controlled(work int, waited, took time.Duration) {
	if m == nil {
		return
	}
	now := time.Now()
	m.controller.queued.observe(waited, now)
	if s := m.controller.of[work]; s != nil {
		s.observe(took, now)
	}
}

// ControllerSent measures how long a request from the controller to a broker has waited to be sent.
func (m *Metrics) ControllerSent(broker int32, waited time.Duration) {
	if m != nil {
		m.controller.to(broker).observe(waited, time.Now())
	}
}

// ControllerForgets removes what was measured of requests to a broker, which is gone or gets them from another
// controller.
func (m *Metrics) ControllerForgets(broker int32) {
	if m == nil {
		return
	}
	t := m.controller
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.mu.sent[broker]; s != nil {
		t.registry.Unregister(s)
		delete(t.mu.sent, broker)
	}
}

func (t *controllerTimes) to(broker int32) *summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.mu.sent[broker]
	if s == nil {
		s = newTimes(t.registry, "kafka_controller_controllerchannelmanager_requestrateandqueuetimems",
			"Time of the controller's requests in the queue to a broker, in milliseconds.", prometheus.Labels{"broker_id": strconv.Itoa(int(broker))})
		t.mu.sent[broker] = s
	}
	return s
}
