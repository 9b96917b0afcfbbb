package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestGroupsBesideApacheKafka runs random histories of a group on a broker of each kind at the same time, request by
// request. Members are dynamic or static, two of them with the same instance id; they leave one by one or together,
// come back with a wrong id, and use old and new versions. Both brokers must give the same response to each request, or
// both must hold it back. GROUP_HISTORIES is the number of histories, GROUP_HISTORY_SEED the seed of the first one.
func TestGroupsBesideApacheKafka(t *testing.T) {
	t.Parallel()
	addrs := startBothKinds(t)
	first := environmentNumber(t, "GROUP_HISTORY_SEED", 1)
	for seed := first; seed < first+environmentNumber(t, "GROUP_HISTORIES", 15); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runHistory(t, addrs, seed) })
	}
}

// TestOffsetsExpireAsInApacheKafka: what remains of groups whose offsets expire.
func TestOffsetsExpireAsInApacheKafka(t *testing.T) {
	t.Parallel()
	addrs := startBothKinds(t, "offsets.retention.check.interval.ms=500")
	if diff := gocmp.Diff(expiry(t, addrs[0]), expiry(t, addrs[1])); diff != "" {
		t.Errorf("remaining groups of Apache Kafka (-) and of ours (+)\n%s", diff)
	}
}

// startBothKinds starts a broker of each kind and returns their addresses, Apache Kafka's first.
func startBothKinds(t *testing.T, more ...string) [2]string {
	t.Helper()
	settings := append([]string{"offsets.topic.num.partitions=3", "offsets.topic.replication.factor=1"}, more...)
	theirs, _, _ := startPeer(t, 0, zookeeper(t)+"/peer", settings...)
	ours := newProcess(t, 0, zookeeper(t), settings...)
	ours.start()
	addrs := [2]string{theirs, ours.addr()}
	for _, addr := range addrs {
		prepareHistories(t, addr)
	}
	return addrs
}

// prepareHistories creates the topics, and waits until all partitions of __consumer_offsets accept records.
func prepareHistories(t *testing.T, addr string) {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(addr))
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopics(t.Context(), 2, 1, nil, "t", "u"); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"a", "b", "c"} {
		until(t, "an offset of group "+group, func(ctx context.Context) bool {
			var offsets kadm.Offsets
			offsets.Add(kadm.Offset{Topic: "t", At: 1, LeaderEpoch: -1})
			committed, err := adm.CommitOffsets(ctx, group, offsets)
			return err == nil && committed.Ok()
		})
	}
}

func environmentNumber(t *testing.T, variable string, unset int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return unset
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// comparedHistory is the history of one group on two brokers.
type comparedHistory struct {
	t          *testing.T
	random     *rand.Rand
	group      string
	sides      [2]*comparedBroker
	members    []*comparedMember
	asked      []string
	leaderLeft bool // Apache Kafka then lets any member become the leader
}

// comparedBroker is a broker with its responses.
type comparedBroker struct {
	names    map[string]string // names by member id, the same on both sides
	at       *comparedConn     // for requests that are never held back
	answered []string
}

// comparedMember is a client that joins the group.
type comparedMember struct {
	number   int
	instance *string
	sides    [2]memberState
}

type memberState struct {
	at         *comparedConn
	id         string
	generation int32
	protocol   string
	given      int // number of member ids that it was given
}

// comparedConn is a connection with at most one pending request.
type comparedConn struct {
	name    string
	wire    *wire
	waiting kmsg.Request               // pending request; nil: none
	read    func(kmsg.Response) string // formats the response for the comparison
	answers chan []byte
}

func dialCompared(t *testing.T, name, addr string) *comparedConn {
	return &comparedConn{name: name, wire: dialWire(t, addr), answers: make(chan []byte, 1)}
}

func (c *comparedConn) ask(req kmsg.Request, read func(kmsg.Response) string) {
	c.waiting, c.read = req, read
	c.wire.send(req)
	go func() {
		if body, err := c.wire.frame(); err == nil { // the history may end before it is answered
			c.answers <- body
		}
	}()
}

func runHistory(t *testing.T, addrs [2]string, seed int) {
	d := &comparedHistory{t: t, random: rand.New(rand.NewPCG(uint64(seed), 0)), group: fmt.Sprint("history ", seed)}
	for i, addr := range addrs {
		d.sides[i] = &comparedBroker{names: make(map[string]string), at: dialCompared(t, "", addr)}
	}
	for number, instance := range []*string{nil, nil, new("one"), new("one"), new("two")} {
		m := &comparedMember{number: number, instance: instance}
		for i, addr := range addrs {
			m.sides[i] = memberState{at: dialCompared(t, fmt.Sprint("member ", number), addr), generation: -1}
		}
		d.members = append(d.members, m)
	}
	steps := []func(){d.join, d.join, d.join, d.join, d.join, d.sync, d.sync, d.sync, d.sync, d.heartbeat, d.commit, d.leave, d.describe, d.list, d.fetchOffsets, d.deleteOffsets, d.deleteGroup}
	for range 30 {
		steps[d.random.IntN(len(steps))]()
		d.settle()
		if diff := gocmp.Diff(d.sides[0].answered, d.sides[1].answered); diff != "" {
			t.Fatalf("after\n%s\nApache Kafka (-) and ours (+) answered\n%s", strings.Join(d.asked, "\n"), diff)
		}
	}
}

// note records a request, to be shown when the responses differ.
func (d *comparedHistory) note(format string, args ...any) {
	d.asked = append(d.asked, fmt.Sprintf(format, args...))
}

func (d *comparedHistory) chance(percent int) bool { return d.random.IntN(100) < percent }

func oneOf[T any](d *comparedHistory, all ...T) T { return all[d.random.IntN(len(all))] }

// settle waits until both brokers have answered the same requests, including those that are never held back, and
// nothing more arrives.
func (d *comparedHistory) settle() {
	var news [2][]string
	quiet := time.Now()
	for end := quiet.Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var waiting [2]string
		for side := range d.sides {
			for _, c := range d.conns(side) {
				if answer, ok := c.answer(); ok {
					news[side] = append(news[side], c.name+": "+answer)
					quiet = time.Now()
				}
				waiting[side] += fmt.Sprint(c.waiting != nil, " ")
			}
		}
		asked := d.sides[0].at.waiting != nil || d.sides[1].at.waiting != nil
		if !asked && waiting[0] == waiting[1] && time.Since(quiet) > 50*time.Millisecond {
			break
		}
	}
	for side, lines := range news {
		slices.Sort(lines)
		d.sides[side].answered = append(d.sides[side].answered, fmt.Sprintf("%d %s", len(d.asked), strings.Join(lines, "; ")))
	}
}

func (d *comparedHistory) conns(side int) []*comparedConn {
	all := []*comparedConn{d.sides[side].at}
	for _, m := range d.members {
		all = append(all, m.sides[side].at)
	}
	return all
}

func (c *comparedConn) answer() (string, bool) {
	select {
	case body := <-c.answers:
		resp := c.wire.decode(c.waiting, body)
		c.waiting = nil
		return c.read(resp), true
	default:
		return "", false
	}
}

// free picks a member without a pending request, or returns nil.
func (d *comparedHistory) free() *comparedMember {
	m := oneOf(d, d.members...)
	if m.sides[0].at.waiting != nil || m.sides[1].at.waiting != nil {
		return nil
	}
	return m
}

// name replaces a member id by its name, which is the same on both sides. A member that waits for its first response
// does not know its own id yet.
func (s *comparedBroker) name(id string) string {
	if name, ok := s.names[id]; ok {
		return name
	}
	return memberIDs.ReplaceAllString(id, "an unknown id")
}

func (d *comparedHistory) join() {
	m := d.free()
	if m == nil {
		return
	}
	version := oneOf[int16](d, 0, 1, 3, 5, 7, 8, 9)
	if m.instance != nil {
		version = max(version, 5)
	}
	protocols := oneOf(d, []string{"range"}, []string{"range", "sticky"}, []string{"sticky", "range"}, []string{"sticky", "range"}, []string{"other"})
	topics, kind, id := oneOf(d, []string{"t"}, []string{"t", "u"}), "consumer", ""
	switch {
	case d.chance(5):
		kind = "connect"
	case d.chance(10):
		id = "wrong"
	case d.chance(15):
		id = "none"
	}
	d.note("%d member %d joins v%d with %v of %v as a %s, id %q", len(d.asked)+1, m.number, version, protocols, topics, kind, id)
	for i := range d.sides {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType, req.InstanceID = version, d.group, kind, m.instance
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 60_000
		req.MemberID = map[string]string{"": m.sides[i].id, "wrong": "wrong", "none": ""}[id]
		subscription := kmsg.NewConsumerMemberMetadata()
		subscription.Topics = topics
		for _, name := range protocols {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = name, subscription.AppendTo(nil)
			req.Protocols = append(req.Protocols, p)
		}
		m.sides[i].at.ask(req, func(resp kmsg.Response) string { return d.joined(m, i, resp.(*kmsg.JoinGroupResponse)) })
	}
}

func (d *comparedHistory) joined(m *comparedMember, side int, resp *kmsg.JoinGroupResponse) string {
	s, state := d.sides[side], &m.sides[side]
	if _, known := s.names[resp.MemberID]; !known && resp.MemberID != "" && resp.MemberID != "wrong" {
		state.given++
		s.names[resp.MemberID] = fmt.Sprintf("member %d's id %d", m.number, state.given)
	}
	switch resp.ErrorCode {
	case 0, 79: // MEMBER_ID_REQUIRED
		state.id, state.generation = resp.MemberID, resp.Generation
		state.protocol = orNull(resp.Protocol)
	case 25, 82: // UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
		state.id = ""
	}
	leads := fmt.Sprint(resp.LeaderID == resp.MemberID)
	if d.leaderLeft && resp.LeaderID != "" {
		leads = "perhaps"
	}
	return fmt.Sprintf("joined %d, generation %d, %s %s, leads %s, skips %v, id %q", resp.ErrorCode, resp.Generation, orNull(resp.ProtocolType), orNull(resp.Protocol),
		leads, resp.SkipAssignment, s.name(resp.MemberID))
}

// sync makes a member request its assignment, or all members if it is not known which one leads. All of them send the
// same assignment.
func (d *comparedHistory) sync() {
	who := d.members
	if !d.leaderLeft {
		m := d.free()
		if m == nil {
			return
		}
		who = []*comparedMember{m}
	}
	stale, version, other := int32(0), oneOf[int16](d, 0, 3, 5, 5), d.chance(10)
	if d.chance(10) {
		stale = 1
	}
	for _, m := range who {
		if m.sides[0].at.waiting != nil || m.sides[1].at.waiting != nil {
			continue
		}
		d.note("%d member %d syncs v%d, generation less %d, another protocol: %v", len(d.asked)+1, m.number, version, stale, other)
		for i := range d.sides {
			state := &m.sides[i]
			req := kmsg.NewPtrSyncGroupRequest()
			req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = version, d.group, state.id, state.generation-stale, m.instance
			req.ProtocolType, req.Protocol = new("consumer"), new(state.protocol)
			if other {
				req.Protocol = new("nonsense")
			}
			for _, to := range d.members {
				if id := to.sides[i].id; id != "" {
					a := kmsg.NewSyncGroupRequestGroupAssignment()
					a.MemberID, a.MemberAssignment = id, fmt.Appendf(nil, "share %d", to.number)
					req.GroupAssignment = append(req.GroupAssignment, a)
				}
			}
			state.at.ask(req, func(resp kmsg.Response) string {
				r := resp.(*kmsg.SyncGroupResponse)
				return fmt.Sprintf("synced %d, %s %s, %q", r.ErrorCode, orNull(r.ProtocolType), orNull(r.Protocol), r.MemberAssignment)
			})
		}
	}
}

// ask sends a request that is answered at once.
func (d *comparedHistory) ask(request func(side int) kmsg.Request, read func(s *comparedBroker, resp kmsg.Response) string) {
	for i, s := range d.sides {
		s.at.ask(request(i), func(resp kmsg.Response) string { return read(s, resp) })
	}
}

// asJSON formats a response as JSON, with names instead of member ids.
func asJSON(s *comparedBroker, resp kmsg.Response) string {
	data, _ := json.Marshal(resp)
	return memberIDs.ReplaceAllStringFunc(string(data), s.name)
}

// memberIDs matches member ids that a broker generates.
var memberIDs = regexp.MustCompile(`(test|one|two)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func (d *comparedHistory) heartbeat() {
	m, ahead, anonymous, version := oneOf(d, d.members...), int32(0), d.chance(20), oneOf[int16](d, 0, 3, 4)
	if d.chance(20) {
		ahead = 1
	}
	d.note("%d member %d's heartbeat v%d, generation plus %d, without its instance: %v", len(d.asked)+1, m.number, version, ahead, anonymous)
	d.ask(func(i int) kmsg.Request {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.Generation = version, d.group, m.sides[i].id, m.sides[i].generation+ahead
		if !anonymous {
			req.InstanceID = m.instance
		}
		return req
	}, asJSON)
}

func (d *comparedHistory) commit() {
	m, simple, offset, version := oneOf(d, d.members...), d.chance(30), d.random.Int64N(100), oneOf[int16](d, 1, 2, 5, 7, 8)
	d.note("%d member %d commits %d v%d, without a generation: %v", len(d.asked)+1, m.number, offset, version, simple)
	d.ask(func(i int) kmsg.Request {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = version, d.group, -1
		if !simple {
			req.MemberID, req.Generation, req.InstanceID = m.sides[i].id, m.sides[i].generation, m.instance
		}
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = "t"
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset = offset
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		return req
	}, asJSON)
}

func (d *comparedHistory) leave() {
	version, count := oneOf[int16](d, 0, 2, 3, 4, 5, 5), 1
	if version >= 3 {
		count += d.random.IntN(3)
	}
	type leaving struct {
		m         *comparedMember
		as        string // "": the id that it has
		anonymous bool
	}
	var who []leaving
	for range count {
		l := leaving{m: oneOf(d, d.members...), anonymous: d.chance(20)}
		if d.chance(30) {
			l.as = oneOf(d, "wrong", "none")
		}
		who = append(who, l)
		d.note("%d member %d leaves v%d, id %q, without its instance: %v", len(d.asked)+1, l.m.number, version, l.as, l.anonymous)
	}
	d.leaderLeft = true
	d.ask(func(i int) kmsg.Request {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group = version, d.group
		for _, l := range who {
			entry := kmsg.NewLeaveGroupRequestMember()
			entry.MemberID = map[string]string{"": l.m.sides[i].id, "wrong": "wrong", "none": ""}[l.as]
			if !l.anonymous {
				entry.InstanceID = l.m.instance
			}
			req.Members = append(req.Members, entry)
			req.MemberID = entry.MemberID
		}
		return req
	}, asJSON)
}

func (d *comparedHistory) describe() {
	d.note("%d describe", len(d.asked)+1)
	d.ask(func(int) kmsg.Request {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups, req.IncludeAuthorizedOperations = 5, []string{d.group}, true
		return req
	}, func(s *comparedBroker, resp kmsg.Response) string {
		members := resp.(*kmsg.DescribeGroupsResponse).Groups[0].Members
		slices.SortFunc(members, func(a, b kmsg.DescribeGroupsResponseGroupMember) int {
			return cmp.Compare(s.name(a.MemberID)+orNull(a.InstanceID)+string(a.ProtocolMetadata), s.name(b.MemberID)+orNull(b.InstanceID)+string(b.ProtocolMetadata))
		})
		return asJSON(s, resp)
	})
}

func (d *comparedHistory) list() {
	states := oneOf(d, nil, []string{"Stable"}, []string{"Empty", "Dead"}, []string{"PreparingRebalance", "CompletingRebalance"}, []string{"stable", "empty"}, []string{"Nonsense"})
	types := oneOf(d, nil, nil, []string{"classic"}, []string{"Classic", "consumer"}, []string{"consumer"}, []string{"nonsense"})
	version := oneOf[int16](d, 3, 4, 5)
	d.note("%d list v%d %v %v", len(d.asked)+1, version, states, types)
	d.ask(func(int) kmsg.Request {
		req := kmsg.NewPtrListGroupsRequest()
		req.Version, req.StatesFilter, req.TypesFilter = version, states, types
		return req
	}, func(s *comparedBroker, resp kmsg.Response) string {
		r := resp.(*kmsg.ListGroupsResponse)
		r.Groups = slices.DeleteFunc(r.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group != d.group })
		return asJSON(s, r)
	})
}

func (d *comparedHistory) fetchOffsets() {
	version := oneOf[int16](d, 1, 2, 5, 7)
	d.note("%d fetch offsets v%d", len(d.asked)+1, version)
	d.ask(func(int) kmsg.Request {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = version, d.group
		topic := kmsg.NewOffsetFetchRequestTopic()
		topic.Topic, topic.Partitions = "t", []int32{0, 1}
		req.Topics = append(req.Topics, topic)
		return req
	}, asJSON)
}

func (d *comparedHistory) deleteOffsets() {
	topic := oneOf(d, "t", "u", "nosuch")
	d.note("%d delete offsets of %s", len(d.asked)+1, topic)
	d.ask(func(int) kmsg.Request {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = d.group
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = topic
		t.Partitions = append(t.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
		req.Topics = append(req.Topics, t)
		return req
	}, asJSON)
}

func (d *comparedHistory) deleteGroup() {
	d.note("%d delete the group", len(d.asked)+1)
	d.ask(func(int) kmsg.Request {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Version, req.Groups = 2, []string{d.group}
		return req
	}, asJSON)
}

// expiry creates groups with offsets that expire at once, as old clients may request (up to version 4), and returns
// what is left of them.
func expiry(t *testing.T, addr string) (left []string) {
	t.Helper()
	w := dialWire(t, addr)
	var groups []*memberWire
	for _, g := range []struct {
		name, kind string
		topics     []string // that it consumes; nil: the group has no member
		leaves     bool
		retention  int64 // of its offset of t, in ms; -1: the broker's default
	}{
		{name: "empty", retention: 1},
		{name: "empty, kept", retention: -1},
		{name: "reads it", kind: "consumer", topics: []string{"t"}, retention: 1},
		{name: "reads another", kind: "consumer", topics: []string{"u"}, retention: 1},
		{name: "has left", kind: "consumer", topics: []string{"t"}, leaves: true, retention: 1},
		{name: "of another kind", kind: "connect", topics: []string{"u"}, retention: 1},
	} {
		m := &memberWire{wire: w, group: g.name, generation: -1}
		if g.topics != nil {
			m.joinAs(g.kind, g.topics...)
		}
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Version, commit.Group, commit.MemberID, commit.Generation, commit.RetentionTimeMillis = 4, g.name, m.id, m.generation, g.retention
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = "t", []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}}
		commit.Topics = append(commit.Topics, topic)
		left = append(left, fmt.Sprintf("%s: committed %d", g.name, w.call(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode))
		if g.leaves {
			m.leave()
		}
		groups = append(groups, m)
	}
	until(t, "what expires is gone", func(context.Context) bool { return strings.Contains(groups[0].left("t"), "Dead") })
	time.Sleep(1500 * time.Millisecond) // what remains by then is still there after some more checks
	for _, m := range groups {
		left = append(left, m.left("t"))
	}
	return left
}

// joinAs joins as the only member of a group of the given kind. If the group was removed after the member got its id,
// since it had neither members nor offsets, it joins once more without an id; this happens with both kinds of brokers.
func (m *memberWire) joinAs(kind string, topics ...string) {
	m.t.Helper()
	for code := int16(-1); code != 0; {
		req := m.joinRequest(topics...)
		req.ProtocolType = kind
		resp := m.call(req).(*kmsg.JoinGroupResponse)
		m.id, m.generation, code = resp.MemberID, resp.Generation, resp.ErrorCode
		switch code {
		case 0, kerr.MemberIDRequired.Code:
		case kerr.UnknownMemberID.Code:
			m.id = ""
		default:
			m.t.Fatalf("group %s: %v", m.group, kerr.ErrorForCode(code))
		}
	}
	if err := m.sync(); err != nil {
		m.t.Fatalf("group %s: %v", m.group, err)
	}
}

// left describes the state of a group and its offset of a topic.
func (m *memberWire) left(topic string) string {
	m.t.Helper()
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version, describe.Groups = 5, []string{m.group}
	group := m.call(describe).(*kmsg.DescribeGroupsResponse).Groups[0]
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version, fetch.Group, fetch.Topics = 5, m.group, []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	list := kmsg.NewPtrListGroupsRequest()
	listed := slices.ContainsFunc(m.call(list).(*kmsg.ListGroupsResponse).Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group == m.group })
	return fmt.Sprintf("%s: %s, %s, listed: %v, offset %d", m.group, group.State, group.ProtocolType, listed, m.call(fetch).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].Offset)
}
