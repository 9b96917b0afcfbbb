package group

import (
	"slices"
	"time"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// State is what a group is doing.
type State int8

// The states. Dead is that of a group which does not exist.
const (
	Empty               State = iota // no members; offsets may be kept
	PreparingRebalance               // waits for the members to join
	CompletingRebalance              // waits for the leader's assignment
	Stable
	Dead
)

func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// consumerProtocol is the protocol type of consumers, whose subscriptions a coordinator can read.
const consumerProtocol = "consumer"

// limits are the settings that the state machine goes by.
type limits struct {
	minSession, maxSession time.Duration
	initialDelay           time.Duration
	maxSize                int
	valueVersions          ValueVersions
}

// group is one group's state. Its methods are the state machine and need the shard's lock.
type group struct {
	id     string
	limits *limits

	state        State
	since        time.Time // when it came into state; zero: not known, the record was of an old format
	generation   int32
	protocolType string // empty: none yet
	protocol     string // chosen for this generation
	leader       string // member id, empty: none

	members    map[string]*member // by id
	order      []*member          // the same as they joined
	static     map[string]*member // by instance id
	pending    map[string]time.Time
	votes      map[string]int // how many members support a protocol
	subscribed topics         // of the members; nil: not known

	rebalance rebalance
	awaiting  int       // members whose JoinGroup waits
	unsynced  int       // members that have not sent SyncGroup in this generation
	syncUntil time.Time // when they are given up; zero: not waited for
	storing   bool      // the leader's assignment is being written

	offsets map[logstore.TopicPartition]*committed
	open    map[int64]map[logstore.TopicPartition]commit // of transactions under way, by producer id

	due time.Time // no timeout ends before; zero: there is none

	timer *time.Timer // of the shard, brings what is due
	armed time.Time   // what it is set to, zero: it is not
}

// rebalance is the waiting for members to join.
type rebalance struct {
	until     time.Time
	initial   bool          // of a group that was empty: it waits for more members than have come
	delay     time.Duration // how long it waits before it looks whether new ones came
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
	protocols        []protocol // most wanted first
	assignment       []byte

	until    time.Time                        // when its session ends
	isNew    bool                             // its first JoinGroup waits: it cannot send heartbeats yet
	unsynced bool                             // its SyncGroup is outstanding
	joining  promise[*kmsg.JoinGroupResponse] // its JoinGroup waits; nil: none
	syncing  promise[*kmsg.SyncGroupResponse] // its SyncGroup waits; nil: none
}

// protocol is a way to assign partitions that a member supports, with what the member tells the leader about itself.
type protocol struct {
	name     string
	metadata []byte
}

// step is one event's way through the state machine.
type step struct {
	now    time.Time
	reason string // why a rebalance began
	writes []write
}

// write is a group's record that is to be appended.
type write struct {
	value []byte
	// done goes on when the record is on all in-sync replicas, or with the error when it will not be. It may be nil.
	done func(st *step, err error)
}

func newGroup(id string, l *limits, now time.Time) *group {
	return &group{id: id, limits: l, since: now}
}

func (g *group) transition(st *step, to State) { g.state, g.since = to, st.now }

// wake notes that something is due at a time.
func (g *group) wake(at time.Time) {
	if g.due.IsZero() || at.Before(g.due) {
		g.due = at
	}
}

// put leaves the group's record in the step, with what assigned gives each member.
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

// remove takes a member or a pending member out of the group. Who waits for an answer gets UNKNOWN_MEMBER_ID.
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

// check tells whether a request may come from a member: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another process
// has taken the instance over.
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

// alive begins a member's session again.
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

// supports tells whether a member with some protocols can be in the group.
func (g *group) supports(protocolType string, protocols []protocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	return protocolType == g.protocolType && slices.ContainsFunc(protocols, func(p protocol) bool {
		return g.votes[p.name] == len(g.members)
	})
}

// choose is the protocol that most members want, of those that all support.
func (g *group) choose() string {
	wanted := make(map[string]int)
	best := ""
	for _, m := range g.order {
		i := slices.IndexFunc(m.protocols, func(p protocol) bool { return g.votes[p.name] == len(g.members) })
		if i < 0 {
			continue
		}
		name := m.protocols[i].name
		if wanted[name]++; wanted[name] > wanted[best] {
			best = name
		}
	}
	return best
}

// metadata is what the member told with a protocol.
func (m *member) metadata(name string) []byte {
	for _, p := range m.protocols {
		if p.name == name {
			return p.metadata
		}
	}
	return nil
}

// same tells whether the member has told exactly these protocols.
func (m *member) same(protocols []protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b protocol) bool {
		return a.name == b.name && string(a.metadata) == string(b.metadata)
	})
}

// subscriptions reads which topics the members subscribe to; nil when that cannot be known.
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

// read adds the topics of a consumer's subscription, whose first version is a prefix of the later ones.
// Layout: int16 version, array of topic, user data bytes.
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
