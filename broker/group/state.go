package group

import (
	"maps"
	"slices"
	"time"

	"barnabas/internal/javahash"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// State is the state of a group.
type State int8

// The states. Dead is that of a group that does not exist.
const (
	Empty               State = iota // no members; there may be offsets
	PreparingRebalance               // waits for the members to join
	CompletingRebalance              // waits for the leader's assignment
	Stable
	Dead
)

func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// consumerProtocol is the protocol type of consumers, whose subscriptions the coordinator can read.
const consumerProtocol = "consumer"

// limits are the settings of the state machine.
type limits struct {
	minSession, maxSession time.Duration
	initialDelay           time.Duration
	maxSize                int
	valueVersions          ValueVersions
}

// group is one group's state. Its methods are the state machine and require the shard's lock.
type group struct {
	id     string
	limits *limits

	state        State
	since        time.Time // when it entered the state; zero: unknown, since the record had an old format
	generation   int32
	protocolType string // empty: none yet
	protocol     string // chosen for this generation
	leader       string // member id; empty: none

	members    map[string]*member // by id
	order      []*member          // the same in the order in which they joined
	static     map[string]*member // by instance id
	pending    map[string]time.Time
	votes      map[string]int // number of members that support a protocol
	subscribed topics         // of the members; nil: unknown

	rebalance rebalance
	awaiting  int       // members whose JoinGroup is waiting
	unsynced  int       // members that have not sent SyncGroup in this generation
	syncUntil time.Time // when these are given up; zero: not waited for
	storing   bool      // the leader's assignment is being written

	offsets map[logstore.TopicPartition]*committed
	open    map[int64]*txnOffsets // of open transactions, by producer id
	ended   []endedOffsets        // of transactions whose markers are not on all in-sync replicas yet

	due time.Time // no timeout expires earlier; zero: there is none

	timer *time.Timer // belongs to the shard, and triggers what is due
	armed time.Time   // when it fires; zero: it is not set
}

// rebalance is the join phase of a rebalance.
type rebalance struct {
	until     time.Time
	initial   bool          // the group was empty: it waits for further members
	delay     time.Duration // until it checks whether new members came
	remaining time.Duration // by how much it may still be extended
	newMember bool          // one came since the delay began
}

// topics is a set of topic names.
type topics map[string]struct{}

// member is a member of a group.
type member struct {
	id               string
	instance         *string // group.instance.id of a static member (KIP-345)
	clientID         string
	clientHost       string
	rebalanceTimeout time.Duration
	sessionTimeout   time.Duration
	protocols        []protocol // in order of preference
	assignment       []byte

	until    time.Time                        // when its session expires
	isNew    bool                             // its first JoinGroup is waiting: it cannot send heartbeats yet
	unsynced bool                             // its SyncGroup is outstanding
	joining  promise[*kmsg.JoinGroupResponse] // for a waiting JoinGroup; nil: none
	syncing  promise[*kmsg.SyncGroupResponse] // for a waiting SyncGroup; nil: none
}

// protocol is an assignment protocol that a member supports, with the member's metadata for the leader.
type protocol struct {
	name     string
	metadata []byte
}

// step is the handling of one event by the state machine.
type step struct {
	now    time.Time
	reason string // why a rebalance began
	writes []write
}

// write is a group's record that is to be appended.
type write struct {
	value []byte
	// done continues when the record is on all in-sync replicas, or with an error if it will not be. May be nil.
	done func(st *step, err error)
}

func newGroup(id string, l *limits, now time.Time) *group {
	return &group{id: id, limits: l, since: now}
}

func (g *group) transition(st *step, to State) { g.state, g.since = to, st.now }

// wake records that something is due at a time.
func (g *group) wake(at time.Time) {
	if g.due.IsZero() || at.Before(g.due) {
		g.due = at
	}
}

// put adds the group's record to the step, with the assignments returned by assigned.
func (g *group) put(st *step, assigned func(*member) []byte, done func(*step, error)) {
	st.writes = append(st.writes, write{g.limits.valueVersions.groupValue(g, assigned), done})
}

// insert adds a member that is not in the group.
func (g *group) insert(m *member, protocolType string) {
	if len(g.members) == 0 {
		g.protocolType = protocolType
	}
	if g.members == nil {
		g.members = make(map[string]*member)
	}
	if m.instance != nil {
		if g.static == nil {
			g.static = make(map[string]*member)
		}
		g.static[*m.instance] = m
	}
	if g.leader == "" {
		g.leader = m.id
	}
	g.members[m.id] = m
	g.order = append(g.order, m)
	g.count(m, 1)
	delete(g.pending, m.id)
}

func (g *group) count(m *member, by int) {
	if g.votes == nil {
		g.votes = make(map[string]int)
	}
	for _, p := range m.protocols {
		if g.votes[p.name] += by; g.votes[p.name] == 0 {
			delete(g.votes, p.name)
		}
	}
}

// remove removes a member or a pending member from the group. Its waiting requests get UNKNOWN_MEMBER_ID.
func (g *group) remove(id string) {
	delete(g.pending, id)
	m := g.members[id]
	if m == nil {
		return
	}
	g.answerJoin(m, joinFailed("", kerr.UnknownMemberID))
	g.answerSync(m, syncFailed(kerr.UnknownMemberID))
	g.synced(m)
	g.count(m, -1)
	delete(g.members, id)
	g.order = slices.Delete(g.order, slices.Index(g.order, m), slices.Index(g.order, m)+1)
	if m.instance != nil {
		delete(g.static, *m.instance)
	}
	if g.leader == id {
		g.leader = ""
		if len(g.order) > 0 {
			g.leader = g.order[0].id
		}
	}
}

// check returns an error unless a request may come from a member: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another
// process has taken over the instance.
func (g *group) check(id string, instance *string) error {
	if instance != nil {
		switch m := g.static[*instance]; {
		case m == nil:
			return kerr.UnknownMemberID
		case m.id != id:
			return kerr.FencedInstanceID
		}
	}
	if g.members[id] == nil {
		return kerr.UnknownMemberID
	}
	return nil
}

// alive restarts a member's session.
func (g *group) alive(st *step, m *member) {
	m.until = st.now.Add(m.sessionTimeout)
	g.wake(m.until)
}

func (g *group) rebalanceTimeout() time.Duration {
	longest := time.Duration(0)
	for _, m := range g.order {
		longest = max(longest, m.rebalanceTimeout)
	}
	return longest
}

// supports reports whether a member with the given protocols can be in the group.
func (g *group) supports(protocolType string, protocols []protocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	return protocolType == g.protocolType && slices.ContainsFunc(protocols, func(p protocol) bool {
		return g.votes[p.name] == len(g.members)
	})
}

// choose returns the protocol that most members prefer, of those that all support. Among equals, Apache Kafka takes the
// first one in the order of a hash map (GroupMetadata.selectProtocol, 3.9); so that another coordinator chooses the
// same, so do we.
func (g *group) choose() string {
	wanted := make(map[string]int)
	for _, m := range g.order {
		i := slices.IndexFunc(m.protocols, func(p protocol) bool { return g.votes[p.name] == len(g.members) })
		if i >= 0 {
			wanted[m.protocols[i].name]++
		}
	}
	names := slices.Sorted(maps.Keys(wanted))
	javahash.MapOrder(names)
	best := ""
	for _, name := range names {
		if wanted[name] > wanted[best] {
			best = name
		}
	}
	return best
}

// metadata returns the member's metadata for a protocol.
func (m *member) metadata(name string) []byte {
	for _, p := range m.protocols {
		if p.name == name {
			return p.metadata
		}
	}
	return nil
}

// same reports whether the member has exactly these protocols.
func (m *member) same(protocols []protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b protocol) bool {
		return a.name == b.name && string(a.metadata) == string(b.metadata)
	})
}

// subscriptions returns the topics that the members subscribe to; nil if that is unknown.
func (g *group) subscriptions() topics {
	if g.protocolType != consumerProtocol {
		return nil
	}
	all := make(topics)
	for _, m := range g.order {
		if !all.read(m.metadata(g.protocol)) {
			return nil
		}
	}
	return all
}

// read adds the topics of a consumer's subscription, whose first version is a prefix of the later ones. Layout: int16
// version, array of topics, user data bytes.
func (t topics) read(subscription []byte) bool {
	r := kbin.Reader{Src: subscription}
	r.Int16()
	for range max(r.ArrayLen(), 0) {
		if name := r.String(); r.Ok() {
			t[name] = struct{}{}
		} else {
			return false
		}
	}
	r.NullableBytes()
	return r.Ok()
}
