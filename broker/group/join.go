package group

import (
	"slices"
	"time"

	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newMemberTimeout is how long a first JoinGroup may wait: the client has no member id yet, so it cannot send
// heartbeats, and may be gone (GroupCoordinator.NewMemberJoinTimeoutMs, 3.9).
const newMemberTimeout = 5 * time.Minute

// Versions of JoinGroup that differ in more than their fields.
const (
	joinNeedsMemberID   = 4 // KIP-394
	joinSkipsAssignment = 9 // KIP-814
)

// joinRequest is a JoinGroup request.
type joinRequest struct {
	*kmsg.JoinGroupRequest
	clientID, clientHost string
	freshID              string // the member id if it has none yet
	protocols            []protocol
	reply                promise[*kmsg.JoinGroupResponse]
}

func newJoinRequest(req *kmsg.JoinGroupRequest, from Client) *joinRequest {
	r := &joinRequest{JoinGroupRequest: req, clientID: from.ID, clientHost: from.Host, reply: newPromise[*kmsg.JoinGroupResponse]()}
	for _, p := range req.Protocols {
		r.protocols = append(r.protocols, protocol{p.Name, slices.Clone(p.Metadata)})
	}
	if req.MemberID == "" {
		prefix := from.ID
		if req.InstanceID != nil {
			prefix = *req.InstanceID
		}
		r.freshID = newMemberID(prefix)
	}
	return r
}

func (r *joinRequest) session() time.Duration { return milliseconds(r.SessionTimeoutMillis) }

// rebalance returns the rebalance timeout; in version 0 the session timeout serves for both.
func (r *joinRequest) rebalance() time.Duration {
	if r.Version == 0 {
		return r.session()
	}
	return milliseconds(r.RebalanceTimeoutMillis)
}

func (r *joinRequest) because(what string) string {
	if r.Reason == nil {
		return what
	}
	return what + ": " + *r.Reason
}

func milliseconds(n int32) time.Duration { return time.Duration(n) * time.Millisecond }

func joinFailed(memberID string, err error) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.Generation, resp.MemberID = errcode.Of(err), -1, memberID
	return resp
}

// join adds a member to the group or begins its next generation.
func (g *group) join(st *step, r *joinRequest) {
	switch {
	case !g.accepts(r.MemberID):
		g.remove(r.MemberID)
		r.reply.resolve(joinFailed("", kerr.GroupMaxSizeReached))
	case r.MemberID == "":
		g.joinFirst(st, r)
	default:
		g.joinAgain(st, r)
	}
	g.completeJoinIfAll(st)
}

// accepts reports whether there is room for a member. During a rebalance only members that have joined count, so that a
// group with more members than allowed loses those that come last.
func (g *group) accepts(id string) bool {
	m := g.members[id]
	switch g.state {
	case PreparingRebalance:
		return m != nil && m.joining != nil || g.awaiting < g.limits.maxSize
	case CompletingRebalance, Stable:
		return m != nil || len(g.members) < g.limits.maxSize
	}
	return true
}

func (g *group) joinFirst(st *step, r *joinRequest) {
	switch {
	case !g.supports(r.ProtocolType, r.protocols):
		r.reply.resolve(joinFailed("", kerr.InconsistentGroupProtocol))
	case r.InstanceID != nil && g.static[*r.InstanceID] != nil:
		g.replace(st, r, g.static[*r.InstanceID])
	case r.InstanceID == nil && r.Version >= joinNeedsMemberID:
		if g.pending == nil {
			g.pending = make(map[string]time.Time)
		}
		g.pending[r.freshID] = st.now.Add(r.session())
		g.wake(g.pending[r.freshID])
		r.reply.resolve(joinFailed(r.freshID, kerr.MemberIDRequired))
	default:
		g.add(st, r, r.freshID)
	}
}

func (g *group) joinAgain(st *step, r *joinRequest) {
	if !g.supports(r.ProtocolType, r.protocols) {
		r.reply.resolve(joinFailed(r.MemberID, kerr.InconsistentGroupProtocol))
		return
	}
	if _, ok := g.pending[r.MemberID]; ok {
		if r.InstanceID != nil { // a static member is never given an id to retry with
			r.reply.resolve(joinFailed("", kerr.UnknownServerError))
			return
		}
		g.add(st, r, r.MemberID)
		return
	}
	if err := g.check(r.MemberID, r.InstanceID); err != nil {
		r.reply.resolve(joinFailed(r.MemberID, err))
		return
	}
	m := g.members[r.MemberID]
	switch {
	case g.state == Empty:
		r.reply.resolve(joinFailed(r.MemberID, kerr.UnknownMemberID))
	case g.state == PreparingRebalance:
		g.update(m, r)
	case m.same(r.protocols) && (g.state == CompletingRebalance || m.id != g.leader):
		r.reply.resolve(g.joined(m)) // it may have missed the response
	default:
		// The leader may request a rebalance even if nothing changed that the coordinator can see.
		g.update(m, r)
		g.prepare(st, r.because("member "+m.id+" joined again"))
	}
}

// add creates a new member.
func (g *group) add(st *step, r *joinRequest, id string) {
	m := &member{
		id: id, instance: r.InstanceID, clientID: r.clientID, clientHost: r.clientHost,
		rebalanceTimeout: r.rebalance(), sessionTimeout: r.session(), protocols: r.protocols,
		isNew: true, until: st.now.Add(newMemberTimeout),
	}
	if g.state == PreparingRebalance && g.generation == 0 {
		g.rebalance.newMember = true
	}
	g.insert(m, r.ProtocolType)
	g.wake(m.until)
	g.awaitJoin(m, r)
	g.prepareIfSettled(st, r.because("new member "+id))
}

// update applies what a member sends with another JoinGroup, whose answer it then waits for.
func (g *group) update(m *member, r *joinRequest) {
	g.count(m, -1)
	m.protocols, m.rebalanceTimeout, m.sessionTimeout = r.protocols, r.rebalance(), r.session()
	g.count(m, 1)
	g.awaitJoin(m, r)
}

func (g *group) awaitJoin(m *member, r *joinRequest) {
	g.answerJoin(m, joinFailed(m.id, kerr.RebalanceInProgress)) // an earlier request, abandoned by its client
	m.joining = r.reply
	g.awaiting++
}

// answerJoin answers the member's JoinGroup if one is waiting.
func (g *group) answerJoin(m *member, resp *kmsg.JoinGroupResponse) {
	if m.joining != nil {
		m.joining.resolve(resp)
		m.joining = nil
		g.awaiting--
	}
}

// joined is the response for a member of the current generation; the leader gets the metadata of all members.
func (g *group) joined(m *member) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	protocolType, name := g.protocolType, g.protocol
	resp.Generation, resp.ProtocolType, resp.Protocol = g.generation, &protocolType, &name
	resp.LeaderID, resp.MemberID = g.leader, m.id
	if m.id == g.leader {
		for _, other := range g.order {
			about := kmsg.NewJoinGroupResponseMember()
			about.MemberID, about.InstanceID, about.ProtocolMetadata = other.id, other.instance, other.metadata(g.protocol)
			resp.Members = append(resp.Members, about)
		}
	}
	return resp
}

// replace gives a static member's place to a process without a member id: the instance was restarted. In a stable group
// this does not cause a rebalance unless the protocol changes; the new member id is stored (KIP-345, 814).
func (g *group) replace(st *step, r *joinRequest, m *member) {
	g.answerJoin(m, joinFailed(m.id, kerr.FencedInstanceID))
	g.answerSync(m, syncFailed(kerr.FencedInstanceID))
	leader := g.leader
	delete(g.members, m.id)
	if g.leader == m.id {
		g.leader = r.freshID
	}
	m.id = r.freshID
	g.members[m.id] = m
	g.update(m, r)
	m.isNew = false
	g.alive(st, m)
	switch {
	case g.state == CompletingRebalance, g.state == Stable && g.choose() != g.protocol:
		g.prepare(st, r.because("static member "+*m.instance+" was restarted"))
	case g.state == Stable:
		generation := g.generation
		g.put(st, func(m *member) []byte { return m.assignment }, func(st *step, err error) {
			if g.state == Stable && g.generation == generation && m.joining == r.reply {
				g.alive(st, m)
				g.answerJoin(m, g.replaced(m, leader, r.Version, err))
			}
		})
	}
}

// replaced answers the JoinGroup of a restarted static member without a rebalance. A leader must not assign again:
// since version 9 it is told so; before, it is told that its old member id leads.
func (g *group) replaced(m *member, oldLeader string, version int16, err error) *kmsg.JoinGroupResponse {
	resp := g.joined(m)
	if err == nil && version >= joinSkipsAssignment {
		resp.SkipAssignment = m.id == g.leader
		return resp
	}
	resp.LeaderID, resp.Members = oldLeader, nil
	if err != nil {
		resp.ErrorCode, resp.MemberID = errcode.Of(err), ""
	}
	return resp
}
