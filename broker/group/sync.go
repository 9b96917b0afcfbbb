package group

import (
	"slices"
	"time"

	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func syncFailed(err error) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode, resp.MemberAssignment = errcode.Of(err), []byte{}
	return resp
}

// sync gives a member its assignment once the leader has sent it and it is stored.
func (g *group) sync(st *step, req *kmsg.SyncGroupRequest, reply promise[*kmsg.SyncGroupResponse]) {
	if err := g.checkSync(req); err != nil {
		reply.resolve(syncFailed(err))
		return
	}
	m := g.members[req.MemberID]
	g.synced(m)
	if g.state == Stable {
		g.alive(st, m)
		reply.resolve(g.assignmentOf(m))
		return
	}
	g.answerSync(m, syncFailed(kerr.RebalanceInProgress)) // an earlier request, abandoned by its client
	m.syncing = reply
	if m.id == g.leader && !g.storing {
		g.storing = true
		g.assign(st, req.GroupAssignment)
	}
}

func (g *group) checkSync(req *kmsg.SyncGroupRequest) error {
	if err := g.check(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	switch {
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType,
		req.Protocol != nil && *req.Protocol != g.protocol:
		return kerr.InconsistentGroupProtocol
	case g.state == Empty:
		return kerr.UnknownMemberID
	case g.state == PreparingRebalance:
		return kerr.RebalanceInProgress
	}
	return nil
}

// assign stores the leader's assignment. Members that it does not name get an empty one.
func (g *group) assign(st *step, assignments []kmsg.SyncGroupRequestGroupAssignment) {
	byID := make(map[string][]byte, len(assignments))
	for _, a := range assignments {
		byID[a.MemberID] = slices.Clone(a.MemberAssignment)
	}
	assigned := func(m *member) []byte {
		if a := byID[m.id]; a != nil {
			return a
		}
		return []byte{}
	}
	generation := g.generation
	g.put(st, assigned, func(st *step, err error) {
		if g.state != CompletingRebalance || g.generation != generation {
			return // another rebalance began meanwhile
		}
		g.storing = false
		if err != nil {
			g.dropAssignments(st, err)
			g.prepare(st, "the assignment could not be stored: "+err.Error())
			return
		}
		g.transition(st, Stable)
		for _, m := range g.order {
			m.assignment = assigned(m)
			g.propagate(st, m, g.assignmentOf(m))
		}
	})
}

func (g *group) assignmentOf(m *member) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	protocolType, name := g.protocolType, g.protocol
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = &protocolType, &name, m.assignment
	return resp
}

// dropAssignments tells all members that wait for their assignment that there is none.
func (g *group) dropAssignments(st *step, err error) {
	for _, m := range g.order {
		m.assignment = []byte{}
		g.propagate(st, m, syncFailed(err))
	}
}

// propagate answers a member's SyncGroup and restarts its session, which was suspended.
func (g *group) propagate(st *step, m *member, resp *kmsg.SyncGroupResponse) {
	if m.syncing != nil {
		g.answerSync(m, resp)
		g.alive(st, m)
	}
}

// answerSync answers the member's SyncGroup if one is waiting.
func (g *group) answerSync(m *member, resp *kmsg.SyncGroupResponse) {
	if m.syncing != nil {
		m.syncing.resolve(resp)
		m.syncing = nil
	}
}

// synced records that the member has sent SyncGroup, or no longer needs to.
func (g *group) synced(m *member) {
	if !m.unsynced {
		return
	}
	m.unsynced = false
	if g.unsynced--; g.unsynced == 0 {
		g.forgetSyncs()
	}
}

// forgetSyncs ends the wait for the members' SyncGroup.
func (g *group) forgetSyncs() {
	for _, m := range g.order {
		m.unsynced = false
	}
	g.unsynced = 0
	g.syncUntil = time.Time{}
}

// syncTimeout removes the members that have joined but not sent SyncGroup within the rebalance timeout.
func (g *group) syncTimeout(st *step) {
	for _, m := range slices.Clone(g.order) {
		if m.unsynced {
			g.remove(m.id)
		}
	}
	g.prepare(st, "members did not send SyncGroup in time")
}
