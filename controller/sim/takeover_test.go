package sim

import (
	"fmt"
	"slices"
	"testing"

	"barnabas/internal/uuid"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// takeovers are the ways in which a controller can be deposed.
var takeovers = map[string]func(s stage, p *process){
	"the node is removed": func(s stage, _ *process) { s.removeController() },
	"the session ends":    func(_ stage, p *process) { p.conn.Expire() },
	"the broker dies": func(s stage, p *process) {
		p.b.kill()
		p.b.left.Expire()
	},
	"the broker stands still": func(s stage, p *process) { // it notices when it resumes
		p.paused = true
		p.conn.Expire()
	},
}

// operation is an operation that takes the controller several steps.
type operation struct {
	name  string
	ready func(s stage) // sets up the cluster
	begin func(s stage)
	done  func(s stage) // checks the result
	again func(s stage) // repeats the request, if it dies with its controller; nil: it is stored in ZooKeeper
}

// operations are what TestTakeovers interrupts.
var operations = []operation{
	{
		name: "the deletion of a topic",
		ready: func(s stage) {
			s.create("t", 0, 1, 2)
			s.create("other", 2, 3)
			s.rest()
		},
		begin: func(s stage) { s.must(s.admin.RequestTopicDeletion(nobody, "t")) },
		done: func(s stage) {
			if !s.gone("t") {
				s.t.Error("the topic still exists")
			}
			s.whole("other", ids(2, 3))
		},
	},
	{
		name:  "a deletion and the topic's next life",
		ready: func(s stage) { s.create("t", 0, 1) },
		begin: func(s stage) { s.must(s.admin.RequestTopicDeletion(nobody, "t")) },
		done: func(s stage) {
			if !s.gone("t") {
				s.t.Error("the topic still exists")
			}
			s.create("t", 3, 1)
			s.whole("t", ids(3, 1))
		},
	},
	{
		name:  "a reassignment by a node",
		ready: func(s stage) { s.create("t", 0, 1) },
		begin: func(s stage) {
			_, err := s.admin.RequestReassignments(nobody, map[topicPartition][]int32{{Topic: "t"}: {2, 3}})
			s.must(err)
		},
		done: func(s stage) { s.whole("t", ids(2, 3)) },
	},
	{
		name:  "a reassignment by a request",
		ready: func(s stage) { s.create("t", 0, 1) },
		begin: func(s stage) { submit(s, reassignment("t", 2, 0)) },
		again: func(s stage) { submit(s, reassignment("t", 2, 0)) },
		done:  func(s stage) { s.whole("t", ids(2, 0)) },
	},
	{
		name: "the end of a reassignment",
		ready: func(s stage) {
			s.create("t", 0, 1)
			s.brokers[3].proc.paused = true
			submit(s, reassignment("t", 2, 3))
			s.rest()
		},
		begin: func(s stage) { submit(s, reassignment("t")) },
		again: func(s stage) { submit(s, reassignment("t")) },
		done: func(s stage) {
			s.brokers[3].proc.paused = false
			s.rest()
			s.whole("t", ids(0, 1))
		},
	},
	{
		name:  "a preferred election by a node",
		ready: led1,
		begin: func(s stage) {
			_, err := s.admin.RequestPreferredElection(nobody, []topicPartition{{Topic: "t"}})
			s.must(err)
		},
		done: func(s stage) { s.whole("t", ids(0, 1), 0) },
	},
	{
		name:  "a preferred election by a request",
		ready: led1,
		begin: func(s stage) { submit(s, preferred()) },
		again: func(s stage) { submit(s, preferred()) },
		done:  func(s stage) { s.whole("t", ids(0, 1), 0) },
	},
}

// led1 makes 1 the leader of partition 0 of t, although 0 is alive.
func led1(s stage) {
	s.create("t", 0, 1)
	s.down(0)
	s.up(0)
	s.want(topicPartition{Topic: "t"}, ids(0, 1), 1, 1, 0)
}

// whole checks that all replicas of partition 0 are in sync, and that one of the given leaders, or any, leads.
func (s stage) whole(topic string, replicas []int32, leaders ...int32) {
	s.t.Helper()
	t, _, err := s.admin.Topic(nobody, topic)
	s.must(err)
	state := s.states(t)[topicPartition{Topic: topic}]
	isr := slices.Sorted(slices.Values(state.ISR))
	if !slices.Equal(t.Partitions[0], replicas) || !slices.Equal(isr, slices.Sorted(slices.Values(replicas))) ||
		len(leaders) > 0 && !slices.Contains(leaders, state.Leader) {
		s.t.Errorf("%s: replicas %v, led by %d, ISR %v; want %v, led by one of %v", topic, t.Partitions[0], state.Leader, isr, replicas, leaders)
	}
}

func submit(s stage, req kmsg.Request) {
	s.t.Helper()
	s.controller().c.Submit(req, func(kmsg.Response) {})
}

// reassignment returns a request to reassign partition 0 to a target; without one it cancels.
func reassignment(topic string, target ...int32) kmsg.Request {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = topic
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Replicas = target
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func preferred() kmsg.Request {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.ElectionType = 2, 0
	return req
}

// TestTakeovers deposes a controller after each single step of each operation, in each way, and once more while its
// successor takes over. The next controller completes the operation, and a deposed one changes nothing any more.
func TestTakeovers(t *testing.T) {
	for protocol, of := range map[string]struct {
		begin  func(*testing.T) stage
		stride int
	}{"": {newStage, 1}, ", old protocol": {newOldStage, 3}} {
		for _, e := range operations {
			for name, deed := range takeovers {
				t.Run(e.name+"/"+name+protocol, func(t *testing.T) {
					t.Parallel()
					n := 0
					for interrupted(of.begin(t), e, deed, n) && !t.Failed() {
						n += of.stride
					}
					if n < 10 {
						t.Errorf("it has only %d steps", n)
					}
				})
			}
		}
	}
}

// interrupted deposes the controller after n steps of an operation. It returns false if the operation has fewer.
func interrupted(s stage, e operation, deed func(stage, *process), n int) bool {
	defer func() {
		if s.t.Failed() {
			s.t.Logf("after %d steps", n)
		}
	}()
	e.ready(s)
	s.rest()
	holder := s.controller()
	e.begin(s)
	for range n {
		if !s.single() {
			return false
		}
	}
	deed(s, holder)
	const most = 40 // steps of a takeover
	for range n * 7 % most {
		s.single()
	}
	s.removeController()
	s.rest()
	if holder.b.proc == nil {
		s.up(holder.id)
	}
	holder.paused = false
	s.rest()
	if e.again != nil {
		e.again(s)
		s.rest()
	}
	e.done(s)
	s.checkSettled()
	if s.failure != nil {
		s.t.Error(s.failure)
	}
	return true
}

// single lets one thing happen, without faults: a broker runs up to its next request to ZooKeeper, a request or
// response between brokers is delivered, or one partition is fetched. It returns false if nothing is pending.
func (s stage) single() bool {
	s.t.Helper()
	s.checkStep()
	if s.failure != nil {
		s.t.Fatal(s.failure)
	}
	if len(s.packets) > 0 {
		p := s.packets[0]
		s.packets = s.packets[1:]
		p.deliver()
		s.poke()
		return true
	}
	for _, p := range s.running() {
		p.conn.Restore()
		p.conn.Deliver()
		before := s.zk.Zxid()
		if p.turn(); !p.idle || s.zk.Zxid() != before {
			return true
		}
	}
	for _, p := range s.running() {
		for _, l := range p.channels {
			if l.step() {
				return true
			}
		}
	}
	for _, h := range s.hosted(follower) {
		if h.p.fetch(h.tp, h.r, len(h.r.log)+1000) {
			return true
		}
	}
	for _, h := range s.hosted(leader) {
		if h.r.proposed != nil && !h.r.asking {
			h.p.propose(h.tp, h.r)
			return true
		}
	}
	for _, p := range s.running() {
		if s.calmTimers(p) {
			return true
		}
	}
	return false
}

func (s stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(fmt.Errorf("the tool: %w", err))
	}
}

// TestReplicaOfAFormerTopic: a broker that comes back with a replica of a topic whose name another one has since gets
// the replica of that one, once it has found out.
func TestReplicaOfAFormerTopic(t *testing.T) {
	s := newStage(t)
	s.down(2)
	tp := s.create("t", 1, 2)
	former := &replica{topic: uuid.New()}
	former.start()
	s.brokers[2].disk[tp] = former
	s.up(2)
	s.want(tp, []int32{1, 2}, 1, 1, 2)
}

// TestRequestsFromBeforeAStray: a broker that has deleted a replica, since ZooKeeper has it elsewhere by now, does not
// lead it again at the request of a controller that had yet to tell of that.
func TestRequestsFromBeforeAStray(t *testing.T) {
	s := newStage(t)
	tp := s.create("t", 1, 2)
	p := s.brokers[2].proc
	id := p.b.disk[tp].topic
	if code := s.reassign(tp, []int32{1, 3}); code != 0 {
		t.Fatalf("reassignment: %d", code)
	}
	was := &replica{topic: id}
	was.start()
	p.b.disk[tp] = was
	p.removeStrays()
	state := kmsg.NewLeaderAndISRRequestTopicPartition()
	state.Leader, state.LeaderEpoch, state.Replicas, state.ISR = 2, was.leaderEpoch+1, []int32{1, 2}, []int32{1, 2}
	if code := p.become(tp, id, &state); code == 0 || p.b.disk[tp] != nil {
		t.Errorf("it leads: code %d", code)
	}
}
