package group

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"barnabas/internal/seeds"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var seedFlag = flag.Uint64("seed", 0, "run the model test with this seed only")

const (
	simSession = 10 * time.Second
	simBeat    = 3 * time.Second
	simLate    = 5 * time.Second // the longest delay of a record
)

// TestModel runs groups of simulated clients through random histories: clients join, heartbeat, leave, crash, come back
// and change their metadata; records are written late or not at all; the coordinator moves. Responses must agree with a
// simple model of a group, and once the faults end, all clients must end up in one generation.
func TestModel(t *testing.T) {
	if *seedFlag != 0 {
		runModel(t, *seedFlag)
		return
	}
	for seed := range seeds.Count(t, 200, 20) {
		if runModel(t, seed+1); t.Failed() {
			t.Fatalf("seed %d failed, -seed %d runs it alone", seed+1, seed+1)
		}
	}
}

// sim is one simulated history.
type sim struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	g       *group
	stored  []byte // the group's last stored record
	writes  []lateWrite
	clients []*simClient
	timeout time.Duration // rebalance timeout
	quiet   bool          // no more faults
	// Requests of processes that have ended: they have to be answered nevertheless.
	orphanJoins []promise[*kmsg.JoinGroupResponse]
	orphanSyncs []promise[*kmsg.SyncGroupResponse]

	// The model, since the coordinator was last loaded.
	generation int32
	leaders    map[int32]int          // leading client by generation
	joined     map[int32]map[int]bool // clients that were told of a generation, by generation
	lists      map[int32]map[int]bool // members that a generation's leader was told of
}

type lateWrite struct {
	write
	at time.Time
}

// simClient is a consumer's process, or a sequence of them under one instance id.
type simClient struct {
	slot       int
	instance   *string
	id         string
	generation int32
	metadata   string
	up         bool
	next       time.Time // time of its next action
	contact    time.Time // when the coordinator last heard of it
	settled    bool      // it is in a generation that the present coordinator knows
	joining    promise[*kmsg.JoinGroupResponse]
	syncing    promise[*kmsg.SyncGroupResponse]
	asked      time.Time // when it began to wait for the pending response
	member     bool      // it knows its generation
	lazy       bool      // it sends heartbeats instead of SyncGroup
}

func runModel(t *testing.T, seed uint64) {
	s := &sim{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: epoch}
	s.timeout = []time.Duration{4 * time.Second, 15 * time.Second}[s.rng.IntN(2)]
	s.g = newGroup("g", testLimits(), s.now)
	s.live()
	for slot := range 2 + s.rng.IntN(5) {
		c := &simClient{slot: slot, metadata: "m", up: true, next: s.later(5 * time.Second)}
		if s.rng.IntN(3) == 0 {
			instance := fmt.Sprint("i", slot)
			c.instance = &instance
		}
		s.clients = append(s.clients, c)
	}
	s.runUntil(s.now.Add(4 * time.Minute))
	s.quiet = true
	for _, c := range s.clients { // the first client always comes back
		if c.slot == 0 && !c.up {
			s.start(c)
		}
	}
	s.runUntil(s.now.Add(3 * time.Minute))
	s.checkSettled()
}

func (s *sim) live() {
	s.generation = s.g.generation
	s.leaders, s.joined, s.lists = make(map[int32]int), make(map[int32]map[int]bool), make(map[int32]map[int]bool)
}

func (s *sim) later(within time.Duration) time.Time {
	return s.now.Add(time.Duration(s.rng.Int64N(int64(within))) + time.Millisecond)
}

func (s *sim) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("%s after start: %s", s.now.Sub(epoch), fmt.Sprintf(format, args...))
}

// runUntil executes what is due until the end, one event after the other.
func (s *sim) runUntil(end time.Time) {
	for !s.t.Failed() {
		next, act := end, func() {}
		sooner := func(at time.Time, f func()) {
			if at.Before(next) {
				next, act = at, f
			}
		}
		for _, c := range s.clients {
			if c.up {
				sooner(c.next, func() { s.act(c) })
			}
		}
		if len(s.writes) > 0 {
			sooner(s.writes[0].at, s.finishWrite)
		}
		if !s.g.due.IsZero() {
			sooner(s.g.due, func() { s.step((*group).expire) })
		}
		if next == end {
			s.now = end
			return
		}
		if next.After(s.now) {
			s.now = next
		}
		act()
		if !s.quiet && s.rng.IntN(20) == 0 {
			s.injectFault()
		}
	}
}

func (s *sim) step(event func(*group, *step)) {
	st := &step{now: s.now}
	event(s.g, st)
	for _, w := range st.writes {
		late := 100 * time.Millisecond
		if !s.quiet && s.rng.IntN(5) == 0 {
			late = simLate
		}
		s.writes = append(s.writes, lateWrite{w, s.later(late)})
	}
	checkGroup(s.t, s.g)
	if s.g.generation < s.generation || s.g.generation > s.generation+1 {
		s.fail("generation %d follows %d", s.g.generation, s.generation)
	}
	s.generation = s.g.generation
	if s.g.state == Stable {
		s.checkMembers()
	}
	for _, c := range s.clients {
		s.hear(c)
	}
}

// checkMembers compares the members of a stable group with the clients that were heard of recently.
func (s *sim) checkMembers() {
	for _, m := range s.g.order {
		var owner *simClient
		for _, c := range s.clients {
			if c.id == m.id || c.instance != nil && m.instance != nil && *c.instance == *m.instance {
				owner = c
			}
		}
		switch {
		case owner == nil && m.expires() && s.now.After(m.until):
			s.fail("member %s of nobody stays", m.id)
		case owner != nil && m.expires() && s.now.Sub(owner.contact) > simSession+time.Second && !m.isNew && s.now.After(m.until):
			s.fail("client %d is silent and stays", owner.slot)
		}
	}
}

// finishWrite makes the oldest pending record durable, or fails it.
func (s *sim) finishWrite() {
	w := s.writes[0]
	s.writes = s.writes[1:]
	var err error
	if !s.quiet && s.rng.IntN(10) == 0 {
		err = kerr.CoordinatorNotAvailable
	} else {
		s.stored = w.value
	}
	if w.done != nil {
		s.step(func(_ *group, st *step) { w.done(st, err) })
	}
}

// injectFault makes a fault happen to a client or to the coordinator.
func (s *sim) injectFault() {
	c := s.clients[s.rng.IntN(len(s.clients))]
	switch s.rng.IntN(8) {
	case 0:
		s.failover()
	case 4: // a new process replaces it at once
		if c.up {
			s.crash(c)
			s.start(c)
		}
	case 1:
		if c.up && (c.member || c.joining != nil && c.id != "") {
			s.leave(c)
		}
	case 2:
		c.metadata += "+"
		if c.up && c.member {
			s.join(c)
		}
	case 3: // it is slow for a while
		c.next = c.next.Add(time.Duration(s.rng.Int64N(int64(2 * simSession))))
	case 5:
		c.lazy = true
	default:
		if c.up {
			s.crash(c)
		} else {
			s.start(c)
		}
	}
}

func (s *sim) crash(c *simClient) {
	if c.joining != nil {
		s.orphanJoins = append(s.orphanJoins, c.joining)
	}
	if c.syncing != nil {
		s.orphanSyncs = append(s.orphanSyncs, c.syncing)
	}
	c.up, c.joining, c.syncing, c.member, c.settled = false, nil, nil, false, false
}

func (s *sim) start(c *simClient) {
	c.up, c.id, c.generation, c.next = true, "", -1, s.later(time.Second)
}

// failover makes another broker load the group.
func (s *sim) failover() {
	s.g.unload()
	s.writes = nil
	s.g = newGroup("g", testLimits(), s.now)
	if s.stored != nil {
		e, err := decodeEntry(groupIDKey("g"), s.stored)
		if err != nil {
			s.t.Fatal(err)
		}
		s.g.restore(e.group)
	}
	s.live()
	for _, c := range s.clients {
		m := s.g.members[c.id]
		c.settled = m != nil && c.member && c.generation == s.g.generation
		c.contact = s.now
	}
	s.step(func(g *group, st *step) {
		for _, m := range g.order {
			g.alive(st, m)
		}
	})
}

// act executes a client's next action.
func (s *sim) act(c *simClient) {
	c.next = s.later(simBeat)
	switch {
	case c.joining != nil || c.syncing != nil:
		c.contact = s.now
	case c.member:
		s.heartbeat(c)
	default:
		s.join(c)
	}
}

func (s *sim) join(c *simClient) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.MemberID, req.InstanceID, req.ProtocolType = 9, c.id, c.instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(simSession.Milliseconds()), int32(s.timeout.Milliseconds())
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte(c.metadata)}}
	r := newJoinRequest(req, Client{ID: fmt.Sprint(c.slot)})
	c.joining, c.member, c.contact, c.asked = r.reply, false, s.now, s.now
	s.step(func(g *group, st *step) { g.join(st, r) })
}

func (s *sim) leave(c *simClient) {
	s.step(func(g *group, st *step) {
		if err := g.leave(st, kmsg.LeaveGroupRequestMember{MemberID: c.id, InstanceID: c.instance}); err != nil && c.settled && s.inTime(c) {
			s.fail("client %d leaves: %v", c.slot, err)
		}
	})
	s.crash(c)
	s.start(c)
}

// inTime reports whether the client has sent heartbeats in time, and cannot have missed a rebalance.
func (s *sim) inTime(c *simClient) bool { return s.now.Sub(c.contact) < min(simSession, s.timeout) }

// heartbeat sends a heartbeat. A member that did everything in time must never be unknown.
func (s *sim) heartbeat(c *simClient) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.MemberID, req.Generation, req.InstanceID = c.id, c.generation, c.instance
	var err error
	inTime := s.inTime(c)
	c.contact = s.now
	s.step(func(g *group, st *step) { err = g.heartbeat(st, req) })
	switch {
	case err == nil && c.generation != s.g.generation:
		s.fail("client %d of generation %d is not told of generation %d", c.slot, c.generation, s.g.generation)
	case err == nil:
	case err == kerr.RebalanceInProgress:
		s.join(c)
	case inTime && c.settled:
		s.fail("client %d: heartbeat in time, %v", c.slot, err)
	default:
		c.member, c.settled = false, false
		if err != kerr.IllegalGeneration {
			c.id = ""
		}
	}
}

// hear processes the responses that have arrived.
func (s *sim) hear(c *simClient) {
	select {
	case resp := <-c.joining:
		c.joining = nil
		s.heardJoined(c, resp)
	case resp := <-c.syncing:
		c.syncing = nil
		s.heardSynced(c, resp)
	default:
		s.checkOwed(c)
	}
}

// checkOwed checks that a waiting client will be answered by somebody.
func (s *sim) checkOwed(c *simClient) {
	if wait := s.now.Sub(c.asked); (c.joining != nil || c.syncing != nil) && wait > s.timeout+simLate+time.Second {
		s.fail("client %d waits for %s", c.slot, wait)
	}
	for _, m := range s.g.order {
		if m.joining != nil && m.joining == c.joining || m.syncing != nil && m.syncing == c.syncing {
			return
		}
	}
	if c.joining != nil || c.syncing != nil {
		s.fail("client %d waits in vain", c.slot)
	}
}

func (s *sim) heardJoined(c *simClient, resp *kmsg.JoinGroupResponse) {
	switch resp.ErrorCode {
	case 0:
	case kerr.MemberIDRequired.Code:
		c.id, c.next = resp.MemberID, s.later(time.Second)
		return
	case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code:
		c.id, c.settled = "", false
		return
	default: // it retries
		c.settled = false
		return
	}
	c.id, c.generation, c.contact, c.settled = resp.MemberID, resp.Generation, s.now, true
	leader := s.slotOf(resp.LeaderID)
	if known, ok := s.leaders[resp.Generation]; ok && known != leader {
		s.fail("generation %d is led by clients %d and %d", resp.Generation, known, leader)
	}
	s.leaders[resp.Generation] = leader
	if s.joined[resp.Generation] == nil {
		s.joined[resp.Generation] = make(map[int]bool)
	}
	s.joined[resp.Generation][c.slot] = true
	if resp.LeaderID == resp.MemberID && !resp.SkipAssignment {
		s.lists[resp.Generation] = make(map[int]bool)
		for _, m := range resp.Members {
			s.lists[resp.Generation][s.slotOf(m.MemberID)] = true
		}
	}
	if c.lazy {
		c.lazy, c.member, c.settled = false, true, false
		return
	}
	s.sync(c, resp)
}

// slotOf returns the number of the client with a member id, -1 for one that has crashed since.
func (s *sim) slotOf(id string) int {
	if m := s.g.members[id]; m != nil {
		slot := -1
		_, _ = fmt.Sscan(m.clientID, &slot)
		return slot
	}
	return -1
}

func (s *sim) sync(c *simClient, joined *kmsg.JoinGroupResponse) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.MemberID, req.Generation, req.InstanceID = c.id, c.generation, c.instance
	for _, m := range joined.Members {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: m.MemberID, MemberAssignment: fmt.Appendf(nil, "%d for %d", joined.Generation, s.slotOf(m.MemberID)),
		})
	}
	c.syncing, c.asked = newPromise[*kmsg.SyncGroupResponse](), s.now
	reply := c.syncing
	s.step(func(g *group, st *step) { g.sync(st, req, reply) })
}

func (s *sim) heardSynced(c *simClient, resp *kmsg.SyncGroupResponse) {
	if resp.ErrorCode != 0 {
		if resp.ErrorCode == kerr.UnknownMemberID.Code || resp.ErrorCode == kerr.FencedInstanceID.Code {
			c.id = ""
		}
		c.settled = false
		return
	}
	c.member, c.contact = true, s.now
	if want := fmt.Sprintf("%d for %d", c.generation, c.slot); string(resp.MemberAssignment) != want {
		s.fail("client %d is assigned %q, want %q", c.slot, resp.MemberAssignment, want)
	}
	if list := s.lists[c.generation]; list != nil && !list[c.slot] {
		s.fail("client %d is part of generation %d, and its leader does not know", c.slot, c.generation)
	}
}

// checkSettled checks that without faults all clients are in one generation.
func (s *sim) checkSettled() {
	if s.t.Failed() {
		return
	}
	for _, p := range s.orphanJoins {
		if len(p) == 0 {
			s.fail("a JoinGroup was never answered")
		}
	}
	for _, p := range s.orphanSyncs {
		if len(p) == 0 {
			s.fail("a SyncGroup was never answered")
		}
	}
	up := 0
	for _, c := range s.clients {
		if !c.up {
			continue
		}
		up++
		if !c.member || c.generation != s.g.generation || s.g.members[c.id] == nil {
			s.fail("client %d is left out: member %t, generation %d of %d", c.slot, c.member, c.generation, s.g.generation)
		}
	}
	if s.g.state != Stable || len(s.g.members) != up || len(s.g.pending) > 0 || len(s.writes) > 0 {
		s.fail("the group is %s with %d members and %d pending for %d clients", s.g.state, len(s.g.members), len(s.g.pending), up)
	}
}
