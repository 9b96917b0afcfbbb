package group

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var epoch = time.UnixMilli(1_790_000_000_000)

func testLimits() *limits {
	return &limits{
		minSession: time.Second, maxSession: time.Hour, initialDelay: 3 * time.Second, maxSize: 1 << 20,
		valueVersions: NewestVersions,
	}
}

// scriptRunner runs a script against one group. Members are named by letters; pending responses are printed when they
// arrive.
type scriptRunner struct {
	t      *testing.T
	g      *group
	now    time.Time
	holds  bool // records are not written until the script says so
	writes []write
	joins  map[string]promise[*kmsg.JoinGroupResponse]
	syncs  map[string]promise[*kmsg.SyncGroupResponse]
	names  map[string]string // names by member id
	out    strings.Builder
}

// TestScripts runs testdata/script. The commands:
//
//	limits initial-delay=3s max-size=2
//	join NAME [id=NAME] [session=10s] [rebalance=10s] [protocols=range,other] [metadata=x] [instance=i] [version=9] [type=consumer]
//	sync NAME [generation=n] [assign=NAME:x,NAME:y] [protocol=p] [instance=i]
//	heartbeat NAME [generation=n] [instance=i]
//	leave NAME... [instance=i]
//	advance 3s
//	hold, stored, failed: what becomes of records
//	restart: the group is loaded from its last record
//	state
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		b := &scriptRunner{t: t}
		b.reset(testLimits())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.t = t
			b.out.Reset()
			for line := range strings.Lines(d.Cmd + " " + argsOf(d) + "\n" + d.Input) {
				if line = strings.TrimSpace(line); line != "" && line != "do" {
					b.run(line)
				}
			}
			b.printState()
			return b.out.String()
		})
	})
}

func argsOf(d *datadriven.TestData) string {
	var args []string
	for _, a := range d.CmdArgs {
		args = append(args, strings.ReplaceAll(strings.ReplaceAll(a.String(), "(", ""), ")", ""))
	}
	return strings.Join(args, " ")
}

func (b *scriptRunner) reset(l *limits) {
	b.now = epoch
	b.g = newGroup("g", l, b.now)
	b.writes, b.holds = nil, false
	b.joins = make(map[string]promise[*kmsg.JoinGroupResponse])
	b.syncs = make(map[string]promise[*kmsg.SyncGroupResponse])
	b.names = make(map[string]string)
}

type options map[string]string

func (o options) get(key, otherwise string) string {
	if v, ok := o[key]; ok {
		return v
	}
	return otherwise
}

func (o options) ms(t *testing.T, key, otherwise string) int32 {
	d, err := time.ParseDuration(o.get(key, otherwise))
	if err != nil {
		t.Fatal(err)
	}
	return int32(d.Milliseconds())
}

func (o options) number(t *testing.T, key string, otherwise int32) int32 {
	n, err := strconv.Atoi(o.get(key, strconv.Itoa(int(otherwise))))
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

func (o options) pointer(key string) *string {
	if v, ok := o[key]; ok {
		return &v
	}
	return nil
}

func (b *scriptRunner) run(line string) {
	words := strings.Fields(line)
	var names []string
	opts := make(options)
	for _, w := range words[1:] {
		if key, value, ok := strings.Cut(w, "="); ok {
			opts[key] = value
		} else {
			names = append(names, w)
		}
	}
	switch words[0] {
	case "limits":
		l := testLimits()
		l.initialDelay = milliseconds(opts.ms(b.t, "initial-delay", "3s"))
		l.maxSize = int(opts.number(b.t, "max-size", 1<<20))
		b.reset(l)
	case "join":
		b.join(names[0], opts)
	case "sync":
		b.sync(names[0], opts)
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.MemberID, req.Generation, req.InstanceID = b.id(names[0]), opts.number(b.t, "generation", b.g.generation), opts.pointer("instance")
		b.step(func(g *group, st *step) { b.print("%s: heartbeat %s", names[0], name(g.heartbeat(st, req))) })
	case "leave":
		b.step(func(g *group, st *step) {
			for _, n := range names {
				who := kmsg.LeaveGroupRequestMember{MemberID: b.id(n), InstanceID: opts.pointer("instance")}
				b.print("%s: left %s", n, name(g.leave(st, who)))
			}
		})
	case "advance":
		d, err := time.ParseDuration(names[0])
		if err != nil {
			b.t.Fatal(err)
		}
		b.advance(d)
	case "hold":
		b.holds = true
	case "stored":
		b.store(nil)
	case "failed":
		b.store(kerr.NotCoordinator)
	case "restart":
		b.restart()
	case "state":
	default:
		b.t.Fatalf("unknown command %q", line)
	}
}

// id returns the member id for a name: an empty one for "-", and an unknown one for a name without a member.
func (b *scriptRunner) id(name string) string {
	if name == "-" {
		return ""
	}
	for id, n := range b.names {
		if n == name {
			return id
		}
	}
	return name
}

func (b *scriptRunner) join(who string, opts options) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(opts.number(b.t, "version", 9))
	req.MemberID = b.id(opts.get("id", who))
	if _, known := b.names[req.MemberID]; !known && opts["id"] == "" {
		req.MemberID = ""
	}
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = opts.ms(b.t, "session", "10s"), opts.ms(b.t, "rebalance", "20s")
	req.ProtocolType, req.InstanceID = opts.get("type", "consumer"), opts.pointer("instance")
	for _, p := range strings.Split(opts.get("protocols", "range"), ",") {
		if p != "none" {
			req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: []byte(opts.get("metadata", "m"))})
		}
	}
	r := newJoinRequest(req, Client{ID: who, Host: "/127.0.0.1"})
	if r.freshID != "" {
		r.freshID = fmt.Sprintf("%s#%d", who, len(b.names))
	}
	if old, ok := b.joins[who]; ok { // still pending: its response is to be printed as well
		b.joins[who+"'"] = old
	}
	b.joins[who] = r.reply
	b.step(func(g *group, st *step) { g.join(st, r) })
}

func (b *scriptRunner) sync(who string, opts options) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.MemberID, req.Generation = b.id(who), opts.number(b.t, "generation", b.g.generation)
	req.Protocol, req.InstanceID = opts.pointer("protocol"), opts.pointer("instance")
	for _, a := range strings.Split(opts["assign"], ",") {
		if n, what, ok := strings.Cut(a, ":"); ok {
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: b.id(n), MemberAssignment: []byte(what)})
		}
	}
	reply := newPromise[*kmsg.SyncGroupResponse]()
	b.syncs[who] = reply
	b.step(func(g *group, st *step) { g.sync(st, req, reply) })
}

func (b *scriptRunner) step(event func(*group, *step)) {
	st := &step{now: b.now}
	event(b.g, st)
	b.writes = append(b.writes, st.writes...)
	if !b.holds {
		b.store(nil)
	}
	b.answers()
	checkGroup(b.t, b.g)
}

func (b *scriptRunner) store(err error) {
	held := b.holds
	b.holds = false
	for len(b.writes) > 0 {
		w := b.writes[0]
		b.writes = b.writes[1:]
		if w.done != nil {
			b.step(func(_ *group, st *step) { w.done(st, err) })
		}
	}
	b.holds = held && err == nil
}

// advance advances the clock, stopping whenever something is due.
func (b *scriptRunner) advance(d time.Duration) {
	end := b.now.Add(d)
	for !b.g.due.IsZero() && !b.g.due.After(end) {
		if b.g.due.After(b.now) {
			b.now = b.g.due
		}
		b.step((*group).expire)
	}
	b.now = end
}

func (b *scriptRunner) restart() {
	st := &step{now: b.now}
	b.g.put(st, func(m *member) []byte { return m.assignment }, nil)
	e, err := decodeEntry(groupIDKey("g"), st.writes[0].value)
	if err != nil {
		b.t.Fatal(err)
	}
	g := newGroup("g", b.g.limits, b.now)
	g.restore(e.group)
	b.g.unload()
	b.answers()
	b.g = g
	b.step(func(_ *group, st *step) {
		for _, m := range g.order {
			g.alive(st, m)
		}
	})
}

func (b *scriptRunner) print(format string, args ...any) { fmt.Fprintf(&b.out, format+"\n", args...) }

// answers prints the responses that have arrived.
func (b *scriptRunner) answers() {
	for _, who := range slices.Sorted(maps.Keys(b.joins)) {
		select {
		case resp := <-b.joins[who]:
			delete(b.joins, who)
			if resp.MemberID != "" && (resp.ErrorCode == 0 || resp.ErrorCode == kerr.MemberIDRequired.Code) {
				b.names[resp.MemberID] = strings.TrimSuffix(who, "'")
				b.dropOld(resp.MemberID)
			}
			b.print("%s: joined %s", who, b.joined(resp))
		default:
		}
	}
	for _, who := range slices.Sorted(maps.Keys(b.syncs)) {
		select {
		case resp := <-b.syncs[who]:
			delete(b.syncs, who)
			b.print("%s: synced %s %q", who, name(kerr.ErrorForCode(resp.ErrorCode)), resp.MemberAssignment)
		default:
		}
	}
}

// dropOld forgets the former member id of a name.
func (b *scriptRunner) dropOld(id string) {
	for other, n := range b.names {
		if other != id && n == b.names[id] {
			delete(b.names, other)
			b.names[other] = n + "-old"
		}
	}
}

func (b *scriptRunner) joined(resp *kmsg.JoinGroupResponse) string {
	if resp.ErrorCode != 0 {
		return name(kerr.ErrorForCode(resp.ErrorCode))
	}
	leader := b.names[resp.LeaderID]
	if leader == "" {
		leader = resp.LeaderID
	}
	text := fmt.Sprintf("generation %d, %s, led by %s", resp.Generation, *resp.Protocol, leader)
	if len(resp.Members) > 0 {
		text += fmt.Sprintf(", %d members", len(resp.Members))
	}
	if resp.SkipAssignment {
		text += ", no assignment"
	}
	return text
}

func (b *scriptRunner) printState() {
	g := b.g
	b.print("%s generation %d members %d pending %d", g.state, g.generation, len(g.members), len(g.pending))
}

func name(err error) string {
	if err == nil {
		return "ok"
	}
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Message
	}
	return err.Error()
}

// checkGroup checks the invariants of every group.
func checkGroup(t testing.TB, g *group) {
	t.Helper()
	awaiting, unsynced := 0, 0
	votes := make(map[string]int)
	for _, m := range g.order {
		if g.members[m.id] != m {
			t.Fatalf("member %s is in the order but not in the group", m.id)
		}
		if m.instance != nil && g.static[*m.instance] != m {
			t.Fatalf("instance %s is not that of member %s", *m.instance, m.id)
		}
		if m.joining != nil {
			awaiting++
		}
		if m.unsynced {
			unsynced++
		}
		for _, p := range m.protocols {
			votes[p.name]++
		}
		if m.expires() && (g.due.IsZero() || g.due.After(m.until)) {
			t.Fatalf("nothing ends the session of member %s", m.id)
		}
	}
	switch {
	case len(g.order) != len(g.members):
		t.Fatalf("%d members in the order, %d in the group", len(g.order), len(g.members))
	case awaiting != g.awaiting:
		t.Fatalf("%d members wait to join, %d are counted", awaiting, g.awaiting)
	case unsynced != g.unsynced:
		t.Fatalf("%d members have not synced, %d are counted", unsynced, g.unsynced)
	case fmt.Sprint(votes) != fmt.Sprint(g.votes):
		t.Fatalf("votes %v, counted as %v", votes, g.votes)
	case len(g.members) > 0 && g.members[g.leader] == nil:
		t.Fatalf("leader %q is not a member", g.leader)
	case g.state == Empty && len(g.members) > 0:
		t.Fatalf("an empty group has %d members", len(g.members))
	case (g.state == Stable || g.state == CompletingRebalance) && (len(g.members) == 0 || g.protocol == ""):
		t.Fatalf("a group in state %s has %d members and protocol %q", g.state, len(g.members), g.protocol)
	}
	for id, until := range g.pending {
		if g.due.IsZero() || g.due.After(until) {
			t.Fatalf("nothing ends the session of pending member %s", id)
		}
	}
}
