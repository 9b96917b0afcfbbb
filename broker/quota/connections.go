package quota

import (
	"math"
	"time"
)

// Unlimited is a limit that is never exceeded.
var Unlimited = math.Inf(1)

// Connected records a new connection from an address. One that exceeds the limit is not recorded; it must be closed
// after the wait (KIP-612).
func (m *Manager) Connected(ip string) (wait time.Duration) {
	bound, who, found := m.limits.Load().findIP(Connection, ip)
	if !found {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	r := m.rateLocked(counter{Connection, who}, now)
	r.Add(1, now)
	if wait = r.excess(bound, now); wait > 0 {
		r.Add(-1, now)
		wait = min(wait, m.cfg.Clients.Size)
	}
	return wait
}

// Accepted records a new connection to a listener and returns how long it must wait before it is served, which is never
// longer than one window: it is not refused (KIP-612). The limits, per second, are those of all connections and of the
// listener's; connections that only count for the latter are recorded with an unlimited number of the former.
func (m *Manager) Accepted(listener string, ofAll, ofListener float64) (wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	for name, bound := range map[string]float64{"": ofAll, listener: ofListener} {
		if bound == Unlimited {
			continue
		}
		r := m.mu.accepted[name]
		if r == nil {
			r = &Rate{Windows: m.cfg.Clients}
			m.mu.accepted[name] = r
		}
		r.Add(1, now)
		wait = max(wait, r.excess(bound, now))
	}
	return min(wait, m.cfg.Clients.Size)
}
