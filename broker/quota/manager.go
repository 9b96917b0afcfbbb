package quota

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Config sets the windows that rates are measured over.
type Config struct {
	Clients    Windows // quota.window.num, quota.window.size.seconds
	Controller Windows // controller.quota.window.num, controller.quota.window.size.seconds
	Now        func() time.Time
}

// Manager holds the limits and measures rates. While no limit of a kind is set, a check costs a single load from
// memory.
type Manager struct {
	cfg    Config
	limits atomic.Pointer[limits]

	mu struct { // guards its fields and serializes changes of limits
		sync.Mutex
		rates   map[counter]*Rate
		buckets map[Entity]*bucket
		// accepted are the rates of new connections by listener, and of all together under the empty name.
		accepted map[string]*Rate
		sweepAt  int // number of entries at which idle ones are dropped
	}
}

// counter identifies what a rate is measured for.
type counter struct {
	kind Kind
	who  Entity
}

// NewManager returns a Manager without limits.
func NewManager(cfg Config) *Manager {
	m := &Manager{cfg: cfg}
	m.limits.Store(&limits{of: make(map[Entity]Limits)})
	m.mu.rates, m.mu.buckets = make(map[counter]*Rate), make(map[Entity]*bucket)
	m.mu.accepted = make(map[string]*Rate)
	m.mu.sweepAt = minSweep
	return m
}

const minSweep = 1000

// Set replaces the limits of an entity; an empty set removes them.
func (m *Manager) Set(e Entity, set Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits.Store(m.limits.Load().with(e, set))
}

// SetAll replaces the limits of all entities: those that are not among them have none any more.
func (m *Manager) SetAll(of map[Entity]Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits.Store(newLimits(of))
}

// Any reports whether there is a limit of a kind.
func (m *Manager) Any(kind Kind) bool { return m.limits.Load().any[kind] }

// Charge records a client's use and returns how long it must wait. Request time is in percent of a second, and never
// makes a client wait longer than one window (ClientRequestQuotaManager, 3.9).
func (m *Manager) Charge(kind Kind, user, client string, amount float64) time.Duration {
	l := m.limits.Load()
	if !l.any[kind] {
		return 0
	}
	bound, who, found := l.find(kind, user, client)
	if !found {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	r := m.rateLocked(counter{kind, who}, now)
	r.Add(amount, now)
	wait := r.excess(bound, now)
	if kind == Request {
		wait = min(wait, m.cfg.Clients.Size)
	}
	return wait
}

// Fresh reports whether a client has used nothing of a quota within the windows.
func (m *Manager) Fresh(kind Kind, user, client string) bool {
	_, who, found := m.limits.Load().find(kind, user, client)
	if !found {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.mu.rates[counter{kind, who}]
	return r == nil || r.sum(m.cfg.Now()) == 0
}

func (m *Manager) rateLocked(c counter, now time.Time) *Rate {
	r := m.mu.rates[c]
	if r == nil {
		m.sweepLocked(now)
		r = &Rate{Windows: m.cfg.Clients}
		m.mu.rates[c] = r
	}
	return r
}

// sweepLocked drops what is measured of idle clients, whenever their number has doubled. Only what could be measured anew
// without a difference is dropped: who has overdrawn a quota must not get another one by going away.
func (m *Manager) sweepLocked(now time.Time) {
	if m.countedLocked() < m.mu.sweepAt {
		return
	}
	maps.DeleteFunc(m.mu.rates, func(_ counter, r *Rate) bool { return r.Quiet(now) })
	l := m.limits.Load()
	maps.DeleteFunc(m.mu.buckets, func(who Entity, b *bucket) bool {
		bound, _, found := l.find(Mutation, who.User.Value, who.Client.Value)
		return !found || b.full(bound, m.cfg.Controller, now)
	})
	m.mu.sweepAt = max(minSweep, 2*m.countedLocked())
}

func (m *Manager) countedLocked() int { return len(m.mu.rates) + len(m.mu.buckets) }

// Largest returns the most that a client could use within its limit before it must wait.
func (m *Manager) Largest(kind Kind, user, client string) int64 {
	l := m.limits.Load()
	if !l.any[kind] {
		return math.MaxInt64
	}
	bound, _, found := l.find(kind, user, client)
	if largest := bound * m.cfg.Clients.full().Seconds(); found && largest < math.MaxInt64 {
		return int64(largest)
	}
	return math.MaxInt64
}

// Mutate records partitions that a client wants to create or delete. A client that knows THROTTLING_QUOTA_EXCEEDED
// (strict) may overdraw its quota once, and does not have to wait; then ok is false, and it must retry after the wait.
// Other clients are only made to wait (KIP-599; StrictControllerMutationQuota, 3.9).
func (m *Manager) Mutate(user, client string, partitions int, strict bool) (wait time.Duration, ok bool) {
	l := m.limits.Load()
	if !l.any[Mutation] {
		return 0, true
	}
	bound, who, found := l.find(Mutation, user, client)
	if !found {
		return 0, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	b := m.mu.buckets[who]
	if b == nil {
		m.sweepLocked(now)
		b = newBucket(bound, m.cfg.Controller, now)
		m.mu.buckets[who] = b
	}
	b.fill(bound, m.cfg.Controller, now)
	if strict && b.tokens < 0 {
		return b.wait(bound), false
	}
	if b.tokens -= float64(partitions); strict {
		return 0, true
	}
	return b.wait(bound), true
}
