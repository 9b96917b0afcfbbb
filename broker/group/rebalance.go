package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// prepareIfSettled begins a rebalance unless one is waiting for members already.
func (g *group) prepareIfSettled(st *step, reason string) {
	if g.state != PreparingRebalance {
		g.prepare(st, reason)
	}
}

// prepare begins a rebalance: all members must rejoin. A group that was empty waits for more members than the first,
// for group.initial.rebalance.delay.ms, and again as long if new ones came, up to the rebalance timeout (KIP-134).
func (g *group) prepare(st *step, reason string) {
	if g.state == CompletingRebalance {
		g.dropAssignments(st, kerr.RebalanceInProgress)
	}
	g.forgetSyncs()
	timeout := g.rebalanceTimeout()
	g.rebalance = rebalance{until: st.now.Add(timeout)}
	if g.state == Empty {
		delay := g.limits.initialDelay
		g.rebalance = rebalance{until: st.now.Add(delay), initial: true, delay: delay, remaining: max(timeout-delay, 0)}
	}
	g.wake(g.rebalance.until)
	g.transition(st, PreparingRebalance)
	st.reason = reason
	g.completeJoinIfAll(st)
}

// completeJoinIfAll ends the join phase when all have joined, including pending members that were given an id to join
// with.
func (g *group) completeJoinIfAll(st *step) {
	if g.state == PreparingRebalance && !g.rebalance.initial && g.awaiting == len(g.members) && len(g.pending) == 0 {
		g.completeJoin(st)
	}
}

// joinTimeout handles the end of the join phase.
func (g *group) joinTimeout(st *step) {
	r := &g.rebalance
	if !r.initial || !r.newMember || r.remaining == 0 {
		g.completeJoin(st)
		return
	}
	r.newMember = false
	waited := r.delay
	r.delay = min(g.limits.initialDelay, r.remaining)
	r.remaining = max(r.remaining-waited, 0)
	r.until = st.now.Add(r.delay)
	g.wake(r.until)
}

// rejoinWaitMin bounds how often a rebalance goes on that no member has joined: clients may send any rebalance timeout.
const rejoinWaitMin = time.Second

// completeJoin begins the next generation with the members that have joined, and with static members, which keep their
// place until their session expires. If only static members that have not joined are left, it goes on waiting.
func (g *group) completeJoin(st *step) {
	for _, m := range slices.Clone(g.order) {
		if m.joining == nil && m.instance == nil {
			g.remove(m.id)
		}
	}
	if !g.electJoined() {
		g.rebalance = rebalance{until: st.now.Add(max(g.rebalanceTimeout(), rejoinWaitMin))}
		g.wake(g.rebalance.until)
		return
	}
	g.generation++
	g.storing = false
	if len(g.members) == 0 {
		g.becomeEmpty(st)
		return
	}
	g.protocol = g.choose()
	g.subscribed = g.subscriptions()
	g.transition(st, CompletingRebalance)
	g.syncUntil = st.now.Add(g.rebalanceTimeout())
	g.wake(g.syncUntil)
	for _, m := range g.order {
		m.isNew, m.unsynced = false, true
		g.alive(st, m)
		g.answerJoin(m, g.joined(m))
	}
	g.unsynced = len(g.order)
}

// electJoined ensures that the leader is a member that has joined. It returns false if none has.
func (g *group) electJoined() bool {
	if len(g.members) == 0 || g.members[g.leader].joining != nil {
		return true
	}
	i := slices.IndexFunc(g.order, func(m *member) bool { return m.joining != nil })
	if i < 0 {
		return false
	}
	g.leader = g.order[i].id
	return true
}

func (g *group) becomeEmpty(st *step) {
	g.protocol, g.subscribed = "", nil
	if g.protocolType == consumerProtocol {
		g.subscribed = topics{}
	}
	g.transition(st, Empty)
	// If the record is lost, the previous generation comes back after a failover, and its members time out again.
	g.put(st, nil, nil)
}

// expire handles everything that is due: first sessions and unused member ids, then the end of the join phase, then
// that of waiting for SyncGroup.
func (g *group) expire(st *step) {
	for _, m := range slices.Clone(g.order) {
		if m.expires() && !st.now.Before(m.until) && g.members[m.id] == m {
			g.leaveMember(st, m, "session of member "+m.id+" timed out")
		}
	}
	for id, until := range g.pending {
		if !st.now.Before(until) {
			delete(g.pending, id)
		}
	}
	g.completeJoinIfAll(st)
	if g.state == PreparingRebalance && !st.now.Before(g.rebalance.until) {
		g.joinTimeout(st)
	}
	if !g.syncUntil.IsZero() && !st.now.Before(g.syncUntil) {
		g.syncTimeout(st)
	}
	g.due = g.nextDue()
}

// nextDue returns the earliest time at which something is due, zero if nothing is.
func (g *group) nextDue() time.Time {
	next := g.syncUntil
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if g.state == PreparingRebalance {
		sooner(g.rebalance.until)
	}
	for _, m := range g.order {
		if m.expires() {
			sooner(m.until)
		}
	}
	for _, until := range g.pending {
		sooner(until)
	}
	return next
}

// expires reports whether the member's session may expire: a member whose request is waiting need not send heartbeats,
// except with its first JoinGroup.
func (m *member) expires() bool { return m.isNew || m.joining == nil && m.syncing == nil }

// unload answers all waiting requests: the group is now coordinated elsewhere.
func (g *group) unload() {
	for _, m := range g.order {
		g.answerJoin(m, joinFailed(m.id, kerr.NotCoordinator))
		g.answerSync(m, syncFailed(kerr.NotCoordinator))
	}
}
