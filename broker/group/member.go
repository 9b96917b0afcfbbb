package group

import (
	"crypto/rand"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newMemberID returns a random UUID with a prefix that tells people whose it is.
func newMemberID(prefix string) string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// heartbeat keeps a member's session alive and notifies it of a rebalance.
func (g *group) heartbeat(st *step, req *kmsg.HeartbeatRequest) error {
	if err := g.check(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	if req.Generation != g.generation {
		return kerr.IllegalGeneration
	}
	if g.state == Empty {
		return kerr.UnknownMemberID
	}
	g.alive(st, g.members[req.MemberID])
	if g.state == PreparingRebalance {
		return kerr.RebalanceInProgress
	}
	return nil
}

// leave removes a member from the group. An operator may name only the instance of a static member (KIP-345).
func (g *group) leave(st *step, who kmsg.LeaveGroupRequestMember) error {
	if who.MemberID == "" {
		if who.InstanceID == nil || g.static[*who.InstanceID] == nil {
			return kerr.UnknownMemberID
		}
		who.MemberID = g.static[*who.InstanceID].id
	}
	if _, ok := g.pending[who.MemberID]; ok {
		g.remove(who.MemberID)
		g.completeJoinIfAll(st)
		return nil
	}
	if err := g.check(who.MemberID, who.InstanceID); err != nil {
		return err
	}
	reason := "member " + who.MemberID + " left"
	if who.Reason != nil {
		reason += ": " + *who.Reason
	}
	g.leaveMember(st, g.members[who.MemberID], reason)
	return nil
}

// leaveMember removes a member, so that the others share its partitions.
func (g *group) leaveMember(st *step, m *member, reason string) {
	g.remove(m.id)
	switch g.state {
	case Stable, CompletingRebalance:
		g.prepare(st, reason)
	case PreparingRebalance:
		g.completeJoinIfAll(st)
	}
}
