package sim

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"barnabas/zkcoord"
	"barnabas/zkcoord/zksim"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stage is a simulated cluster in which only what a test triggers happens.
type stage struct {
	*world
	t *testing.T
}

func newStage(t *testing.T) stage {
	t.Helper()
	w := newWorld(History{Seed: 1})
	w.calm, w.old = true, false
	t.Cleanup(w.close)
	s := stage{w, t}
	s.rest()
	return s
}

// oldSeed is the first seed of a cluster in which leaders write the ISR themselves.
var oldSeed = sync.OnceValue(func() uint64 {
	for seed := uint64(1); ; seed++ {
		w := newWorld(History{Seed: seed})
		w.close()
		if w.old {
			return seed
		}
	}
})

// newOldStage is a stage in such a cluster.
func newOldStage(t *testing.T) stage {
	t.Helper()
	w := newWorld(History{Seed: oldSeed()})
	t.Cleanup(w.close)
	w.calm = true
	s := stage{w, t}
	s.rest()
	return s
}

// rest lets everything that is pending happen.
func (s stage) rest() {
	s.t.Helper()
	for range 1000 {
		busy := s.calmRound()
		s.checkStep()
		if s.failure != nil {
			s.t.Fatal(s.failure)
		}
		if !busy {
			return
		}
	}
	s.t.Fatal(errUnsettled)
}

func (s stage) create(topic string, replicas ...int32) topicPartition {
	s.t.Helper()
	if _, err := s.admin.CreateTopic(nobody, topic, map[int32][]int32{0: replicas}, nil); err != nil {
		s.t.Fatal(err)
	}
	s.rest()
	return topicPartition{Topic: topic}
}

// down kills a broker and expires its session.
func (s stage) down(id int32) {
	s.t.Helper()
	s.brokers[id].kill()
	s.brokers[id].left.Expire()
	s.rest()
}

func (s stage) up(id int32) {
	s.t.Helper()
	s.brokers[id].start()
	s.rest()
}

// controller returns the process of the active controller.
func (s stage) controller() *process {
	s.t.Helper()
	for _, p := range s.running() {
		if p.c.Active() {
			return p
		}
	}
	s.t.Fatal("nobody is the controller")
	return nil
}

// ask lets the controller handle a request, and then lets everything that is pending happen.
func ask[R kmsg.Response](s stage, req kmsg.Request) R {
	s.t.Helper()
	var answer kmsg.Response
	s.controller().c.Submit(req, func(resp kmsg.Response) { answer = resp })
	s.rest()
	return answer.(R)
}

// reassign requests a target assignment, or a cancellation with nil, and returns the partition's error code.
func (s stage) reassign(tp topicPartition, target []int32) int16 {
	s.t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = tp.Topic
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = tp.Partition, target
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return ask[*kmsg.AlterPartitionAssignmentsResponse](s, req).Topics[0].Partitions[0].ErrorCode
}

// want checks a partition's replicas, leader and ISR.
func (s stage) want(tp topicPartition, replicas []int32, leader int32, isr ...int32) {
	s.t.Helper()
	t, _, err := s.admin.Topic(nobody, tp.Topic)
	if err != nil {
		s.t.Fatal(err)
	}
	state := s.states(t)[tp]
	if !slices.Equal(t.Partitions[tp.Partition], replicas) || state.Leader != leader || !slices.Equal(state.ISR, isr) {
		s.t.Errorf("%v: replicas %v, leader %d, ISR %v; want %v, %d, %v", tp, t.Partitions[tp.Partition], state.Leader, state.ISR, replicas, leader, isr)
	}
}

func (s stage) gone(topic string) bool {
	topics, err := s.admin.Topics(nobody)
	if err != nil {
		s.t.Fatal(err)
	}
	return !slices.Contains(topics, topic)
}

func ids(ids ...int32) []int32 { return ids }

// TestUncleanElectionIsSwitchedOn: while unclean elections are disabled, the partition waits for an in-sync replica.
// When they are enabled at run time, it becomes available, and the election is counted.
func TestUncleanElectionIsSwitchedOn(t *testing.T) {
	s := newStage(t)
	tp := s.create("t", 1, 2)
	s.down(2)
	s.down(1)
	s.up(2)
	s.want(tp, ids(1, 2), zkcoord.NoLeader, 1)
	if err := s.setUnclean("t", true); err != nil {
		t.Fatal(err)
	}
	s.check.allowUnclean("t")
	s.controller().c.UncleanElectionAllowed("t")
	s.rest()
	s.want(tp, ids(1, 2), 2, 2)
	if n := s.controller().c.UncleanElections(); n != 1 {
		t.Errorf("%d unclean elections counted", n)
	}
}

// TestWithoutUncleanElectionNothingIsLost: the partition stays offline until an in-sync replica returns, and then has
// all records.
func TestWithoutUncleanElectionNothingIsLost(t *testing.T) {
	s := newStage(t)
	tp := s.create("t", 1, 2)
	s.down(2)
	s.process(1).produce(tp)
	s.down(1)
	s.up(2)
	s.want(tp, ids(1, 2), zkcoord.NoLeader, 1)
	s.up(1)
	s.want(tp, ids(1, 2), 1, 1, 2)
	if log := s.brokers[2].disk[tp].log; len(log) != 1 {
		t.Errorf("broker 2 has the records %v", log)
	}
}

// TestReassignmentKeepsTheRecords: another target, or a cancellation, must not leave the partition without an in-sync
// replica.
func TestReassignmentKeepsTheRecords(t *testing.T) {
	s := newStage(t)
	tp := s.create("t", 0)
	if code := s.reassign(tp, ids(1, 2)); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	s.want(tp, ids(1, 2), 1, 1, 2)

	tp = s.create("u", 3)
	s.brokers[2].kill() // its session has not expired: the target counts as alive, but is not in sync
	if code := s.reassign(tp, ids(1, 2)); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	s.want(tp, ids(1, 2, 3), 3, 3, 1)
	s.down(3)
	s.want(tp, ids(1, 2, 3), 1, 1)
	for _, target := range [][]int32{ids(0), nil} {
		if code := s.reassign(tp, target); code != kerr.InvalidReplicaAssignment.Code {
			t.Errorf("target %v: %v", target, kerr.ErrorForCode(code))
		}
	}
	s.want(tp, ids(1, 2, 3), 1, 1)
	s.brokers[2].left.Expire()
	s.up(2)
	s.want(tp, ids(1, 2), 1, 1, 2)
}

// TestReassignmentOfAPartitionWithoutAState: a partition whose replicas were never alive gets a leader by a
// reassignment.
func TestReassignmentOfAPartitionWithoutAState(t *testing.T) {
	s := newStage(t)
	s.down(2)
	tp := s.create("t", 2)
	if code := s.reassign(tp, ids(3)); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	s.want(tp, ids(3), 3, 3)
}

// TestFirstStateCompletesAReassignment: all of the target may be in sync as of the partition's first state.
func TestFirstStateCompletesAReassignment(t *testing.T) {
	s := newStage(t)
	s.down(2)
	s.down(3)
	tp := s.create("t", 2)
	s.up(3)
	s.brokers[3].kill()
	if code := s.reassign(tp, ids(3)); code != 0 { // it still counts as alive
		t.Fatal(kerr.ErrorForCode(code))
	}
	s.brokers[3].left.Expire()
	s.up(2)
	s.up(3)
	s.want(tp, ids(3), 3, 3)
}

// TestDeletionEndsReassignments: a topic is deleted although its reassignment could not complete.
func TestDeletionEndsReassignments(t *testing.T) {
	s := newStage(t)
	tp := s.create("t", 0)
	s.brokers[2].kill()
	if code := s.reassign(tp, ids(2)); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	if _, err := s.admin.RequestReassignments(nobody, map[topicPartition][]int32{tp: {2}}); err != nil {
		t.Fatal(err)
	}
	s.rest()
	if err := s.admin.RequestTopicDeletion(nobody, "t"); err != nil {
		t.Fatal(err)
	}
	s.rest()
	s.brokers[2].left.Expire()
	s.rest()
	if s.gone("t") {
		t.Error("the topic is gone although the broker of one of its replicas is down")
	}
	s.up(2)
	if !s.gone("t") {
		t.Error("the topic still exists")
	}
	s.checkNodes()
	if s.failure != nil {
		t.Error(s.failure)
	}
}

// TestReassignmentKeepsAddedPartitions: partitions that a tool adds while the controller writes a reassignment are
// kept.
func TestReassignmentKeepsAddedPartitions(t *testing.T) {
	s := newStage(t)
	tp := s.create("t", 0)
	if err := s.admin.AddPartitions(nobody, "t", map[int32][]int32{1: {1}}); err != nil {
		t.Fatal(err)
	}
	c := s.controller() // which has not been notified of it
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic = "t"
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Replicas = ids(2)
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	c.c.Submit(req, func(kmsg.Response) {})
	for c.idle = false; !c.idle; {
		c.turn()
	}
	s.rest()
	s.want(tp, ids(2), 2, 2)
	s.want(topicPartition{Topic: "t", Partition: 1}, ids(1), 1, 1)
}

// TestStoppingBrokerStaysOutOfTheISR: a follower that still fetches while its broker shuts down does not rejoin the
// ISR.
func TestStoppingBrokerStaysOutOfTheISR(t *testing.T) {
	s := newStage(t)
	tp := s.create("t", 0, 1)
	req := kmsg.NewPtrControlledShutdownRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, 1, s.process(1).epoch
	if resp := ask[*kmsg.ControlledShutdownResponse](s, req); resp.ErrorCode != 0 {
		t.Fatal(kerr.ErrorForCode(resp.ErrorCode))
	}
	s.want(tp, ids(0, 1), 0, 0)
	leads := s.process(0)
	r := leads.b.disk[tp]
	r.proposed = ids(0, 1)
	leads.propose(tp, r)
	s.rest()
	s.want(tp, ids(0, 1), 0, 0)
	if r.proposed != nil {
		t.Error("the leader was not told that its ISR is refused")
	}
}

// TestCatchingUpWithAStoppingLeader: a follower that catches up while the only in-sync replica shuts down joins the
// ISR, so that it can take over.
func TestCatchingUpWithAStoppingLeader(t *testing.T) {
	s := newStage(t)
	tp := s.create("t", 0, 1)
	s.down(1)
	req := kmsg.NewPtrControlledShutdownRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, 0, s.process(0).epoch
	if resp := ask[*kmsg.ControlledShutdownResponse](s, req); resp.ErrorCode != 0 || len(resp.PartitionsRemaining) != 1 {
		t.Fatalf("%+v", resp)
	}
	s.up(1)
	s.want(tp, ids(0, 1), 0, 0, 1)
}

// TestDeletionIsNotEnabled: with delete.topic.enable=false a request to delete a topic is dropped, and the topic stays
// usable.
func TestDeletionIsNotEnabled(t *testing.T) {
	s := newStage(t)
	s.keep = true
	for id := range int32(brokerCount) {
		s.down(id)
		s.up(id)
	}
	tp := s.create("t", 0)
	if err := s.admin.RequestTopicDeletion(nobody, "t"); err != nil {
		t.Fatal(err)
	}
	s.rest()
	if left, err := s.admin.WatchTopicDeletions(nobody); err != nil || len(left) > 0 {
		t.Errorf("pending deletions: %v, %v", left, err)
	}
	s.want(tp, ids(0), 0, 0)
	if s.process(0).metadata.Current().Topics["t"] == nil {
		t.Error("the topic is not in the metadata")
	}
}

// TestEveryAnswerIsLostOnce: whichever response of ZooKeeper is lost, including that to the election, the broker is the
// controller in the end and has taken over.
func TestEveryAnswerIsLostOnce(t *testing.T) {
	for lost := range 80 {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			s := newStage(t)
			tp := s.create("t", 1, 2)
			for id := range int32(brokerCount) {
				s.brokers[id].kill()
			}
			s.brokers[1].start()
			n := 0
			s.process(1).conn.Fate = func() zksim.Fate {
				if n++; n == lost+1 {
					return zksim.AnswerLost
				}
				return zksim.Answered
			}
			for _, b := range s.brokers {
				if b.left != nil {
					b.left.Expire()
				}
			}
			s.rest()
			if c := s.controller(); c.id != 1 {
				t.Errorf("broker %d is the controller", c.id)
			}
			s.want(tp, ids(1, 2), 1, 1)
		})
	}
}

// TestSeveralReplicasLeave: several replicas are removed at once, and none of them is created again by what its broker
// is told of the others.
func TestSeveralReplicasLeave(t *testing.T) {
	s := newStage(t)
	tp := s.create("t", 0)
	s.brokers[1].kill() // and still counts as alive
	if code := s.reassign(tp, ids(2, 3, 1)); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	s.want(tp, ids(2, 3, 1, 0), 0, 0, 2, 3)
	if code := s.reassign(tp, nil); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	s.want(tp, ids(0), 0, 0)
	for _, id := range ids(2, 3) {
		if r := s.brokers[id].disk[tp]; r != nil {
			t.Errorf("broker %d still has its replica", id)
		}
	}
}

// TestControllerMeetsTheLeadersWrite: a leader writes the ISR just before any one of the requests in which the
// controller wants to write it. The controller's write fails because of the version, and it decides anew. Its abandoned
// decision is not sent to any broker.
func TestControllerMeetsTheLeadersWrite(t *testing.T) {
	for before := range 12 {
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			s := newOldStage(t)
			tp := s.create("t", 0, 1, 2)
			s.brokers[2].kill() // its session has not expired
			leads, requests, written := s.process(0), 0, false
			s.controller().conn.Fate = func() zksim.Fate {
				if requests++; requests == before+1 {
					leads.shrink(tp, leads.b.disk[tp], 2)
					s.packets[len(s.packets)-1].deliver()
					written = leads.b.disk[tp].proposed == nil
				}
				return zksim.Answered
			}
			s.down(1)
			if requests <= before {
				t.Skip("the controller has no more requests")
			}
			isr := ids(0, 2) // sent by the leader too late
			if written {
				isr = ids(0)
			}
			s.want(tp, ids(0, 1, 2), 0, isr...)
		})
	}
}
