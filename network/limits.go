package network

import (
	"context"
	"maps"
	"math"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// budget bounds the total size of the requests being read and handled (queued.max.request.bytes). A nil budget is
// unlimited.
type budget struct {
	sem  *semaphore.Weighted
	max  int64
	used atomic.Int64
}

func newBudget(maxBytes int64) *budget {
	if maxBytes <= 0 {
		return nil
	}
	return &budget{sem: semaphore.NewWeighted(maxBytes), max: maxBytes}
}

// weight lets one request that is larger than the whole budget pass alone, as Apache Kafka's memory pool does.
func (b *budget) weight(size int) int64 { return min(int64(size), b.max) }

func (b *budget) tryTake(size int) bool {
	if b == nil {
		return true
	}
	taken := b.sem.TryAcquire(b.weight(size))
	if taken {
		b.used.Add(b.weight(size))
	}
	return taken
}

func (b *budget) take(ctx context.Context, size int) error {
	err := b.sem.Acquire(ctx, b.weight(size))
	if err == nil {
		b.used.Add(b.weight(size))
	}
	return err
}

func (b *budget) release(size int) {
	if b != nil {
		b.used.Add(-b.weight(size))
		b.sem.Release(b.weight(size))
	}
}

// Budget returns how many bytes the requests being read and handled use, and how many more are available
// (queued.max.request.bytes); without that setting, the latter is unlimited.
func (s *Server) Budget() (used, left int64) {
	b := s.budget
	if b == nil {
		return 0, math.MaxInt64
	}
	used = b.used.Load()
	return used, max(0, b.max-used)
}

// Limits bound the number of connections. They may change while the server runs.
type Limits struct {
	Max          int            // max.connections, over all listeners
	Protected    string         // a listener exempt from Max: connections of others are closed to make room (KIP-402)
	MaxListener  map[string]int // listener.name.NAME.max.connections
	MaxPerIP     int            // max.connections.per.ip
	MaxPerIPOver map[string]int // max.connections.per.ip.overrides, by address
}

// admission counts connections against Limits.
type admission struct {
	mu struct {
		sync.Mutex
		limits    Limits
		total     int
		listeners map[string]int
		ips       map[string]int
		opened    map[string]int64 // by listener, since the start
	}
	changed sync.Cond // uses mu: a connection has ended or the limits have changed
}

func newAdmission(l Limits) *admission {
	a := new(admission)
	a.changed.L = &a.mu.Mutex
	a.setLimits(l)
	a.mu.listeners, a.mu.ips, a.mu.opened = make(map[string]int), make(map[string]int), make(map[string]int64)
	return a
}

func (a *admission) setLimits(l Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.limits = l
	a.changed.Broadcast()
}

// waitForRoom blocks until a connection to the listener is allowed, as Apache Kafka's acceptor does, or closed returns
// true.
func (a *admission) waitForRoom(listener string, closed func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !closed() && !a.roomLocked(listener) {
		a.changed.Wait()
	}
}

func (a *admission) roomLocked(listener string) bool {
	l := a.mu.limits
	if l.Max > 0 && a.mu.total >= l.Max && listener != l.Protected {
		return false
	}
	most, bounded := l.MaxListener[listener]
	return !bounded || a.mu.listeners[listener] < most
}

// enter counts a connection. It returns false if the address has too many already.
func (a *admission) enter(listener string, ip net.IP) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, l := ip.String(), a.mu.limits
	most, own := l.MaxPerIPOver[key]
	if !own {
		most = l.MaxPerIP
	}
	if (own || most > 0) && a.mu.ips[key] >= most {
		return false
	}
	a.mu.total++
	a.mu.listeners[listener]++
	a.mu.opened[listener]++
	a.mu.ips[key]++
	return true
}

// count returns the number of open connections of each listener.
func (a *admission) count() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.mu.listeners)
}

// everOpened returns the number of connections that each listener has had, and has now.
func (a *admission) everOpened() map[string]ConnectionCount {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := make(map[string]ConnectionCount)
	for listener, opened := range a.mu.opened {
		counts[listener] = ConnectionCount{Opened: opened, Open: a.mu.listeners[listener]}
	}
	return counts
}

// overMax reports whether there are more connections than max.connections, which those of the protected listener can
// cause.
func (a *admission) overMax() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.limits.Max > 0 && a.mu.total > a.mu.limits.Max
}

// protected reports whether a listener accepts connections beyond max.connections.
func (a *admission) protected(listener string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.limits.Protected == listener
}

func (a *admission) leave(listener string, ip net.IP) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := ip.String()
	a.mu.total--
	a.mu.listeners[listener]--
	if a.mu.ips[key]--; a.mu.ips[key] == 0 {
		delete(a.mu.ips, key)
	}
	a.changed.Broadcast()
}

// wake makes waitForRoom call closed again.
func (a *admission) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed.Broadcast()
}
