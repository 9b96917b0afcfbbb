package controller

import (
	"errors"
	"slices"
	"testing"

	"barnabas/zkcoord"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var tp0 = topicPartition{Topic: "t"}

// world describes a cluster from which a model with one partition t-0 is built.
type world struct {
	live, shuttingDown, failedDir []int32
	replicas, adding, removing    []int32
	state                         *zkcoord.PartitionState
}

func (w world) model() *model {
	m := newModel()
	for _, id := range slices.Concat(w.live, w.shuttingDown) {
		m.brokers[id] = &broker{
			info: zkcoord.BrokerInfo{ID: id, Epoch: int64(100 + id), Endpoints: []zkcoord.Endpoint{
				{Name: "IN", Protocol: "SSL", Host: "h", Port: 9000 + id}}},
			shuttingDown: slices.Contains(w.shuttingDown, id),
			offline:      make(map[topicPartition]struct{}),
		}
		if slices.Contains(w.failedDir, id) {
			m.brokers[id].offline[tp0] = struct{}{}
		}
	}
	m.addTopic(zkcoord.TopicInfo{Name: "t", ID: zkcoord.ID{1}, Partitions: map[int32][]int32{0: w.replicas},
		Adding: map[int32][]int32{0: w.adding}, Removing: map[int32][]int32{0: w.removing}})
	m.partition(tp0).state = w.state
	return m
}

func led(leader int32, isr ...int32) *zkcoord.PartitionState {
	return &zkcoord.PartitionState{Leader: leader, LeaderEpoch: 5, ISR: isr, ControllerEpoch: 1, PartitionEpoch: 8}
}

func ids(ids ...int32) []int32 { return ids }

func TestRules(t *testing.T) {
	never, always := func(string) bool { return false }, func(string) bool { return true }
	clean, unclean, old := electOffline(never, true), electOffline(always, true), electOffline(always, false)
	none := errNobody
	tests := []struct {
		name  string
		rule  rule
		world world
		want  electionResult
		err   error
	}{
		{"offline: next in sync leads", clean, world{live: ids(2, 3), replicas: ids(1, 2, 3), state: led(1, 1, 3, 2)},
			electionResult{leader: 2, isr: ids(3, 2), tell: ids(2, 3)}, nil},
		{"offline: in sync before preferred", clean, world{live: ids(2, 3), replicas: ids(1, 2, 3), state: led(1, 1, 3)},
			electionResult{leader: 3, isr: ids(3), tell: ids(2, 3)}, nil},
		{"offline: nobody in sync", clean, world{live: ids(2), replicas: ids(1, 2), state: led(1, 1)}, electionResult{}, none},
		{"offline: unclean", unclean, world{live: ids(2, 3), replicas: ids(1, 2, 3), state: led(1, 1)},
			electionResult{leader: 2, isr: ids(2), recovering: true, tell: ids(2, 3)}, nil},
		{"offline: unclean, not one that was just added", unclean, world{live: ids(2, 3), replicas: ids(3, 1, 2), adding: ids(3), state: led(1, 1)},
			electionResult{leader: 2, isr: ids(2), recovering: true, tell: ids(3, 2)}, nil},
		{"offline: unclean, only one that was just added", unclean, world{live: ids(3), replicas: ids(3, 1), adding: ids(3), state: led(1, 1)},
			electionResult{leader: 3, isr: ids(3), recovering: true, tell: ids(3)}, nil},
		{"offline: unclean before 3.2", old, world{live: ids(2), replicas: ids(1, 2), state: led(1, 1)},
			electionResult{leader: 2, isr: ids(2), tell: ids(2)}, nil},
		{"offline: unclean, but one is in sync", unclean, world{live: ids(2, 3), replicas: ids(1, 2, 3), state: led(1, 1, 3)},
			electionResult{leader: 3, isr: ids(3), tell: ids(2, 3)}, nil},
		{"offline: unclean and nobody there", unclean, world{replicas: ids(1, 2), state: led(1, 1)}, electionResult{}, none},
		{"offline: the only one in sync shuts down", clean, world{live: ids(1), shuttingDown: ids(2), replicas: ids(1, 2), state: led(-1, 2)}, electionResult{}, none},
		{"offline: its log directory failed", clean, world{live: ids(1, 2), failedDir: ids(1), replicas: ids(1, 2), state: led(1, 1, 2)},
			electionResult{leader: 2, isr: ids(2), tell: ids(2)}, nil},
		{"preferred", electPreferred, world{live: ids(1, 2), replicas: ids(1, 2), state: led(2, 2, 1)},
			electionResult{leader: 1, isr: ids(2, 1), tell: ids(1, 2)}, nil},
		{"preferred is down", electPreferred, world{live: ids(2), replicas: ids(1, 2), state: led(2, 2, 1)}, electionResult{}, none},
		{"preferred is out of sync", electPreferred, world{live: ids(1, 2), replicas: ids(1, 2), state: led(2, 2)}, electionResult{}, none},
		{"preferred shuts down", electPreferred, world{live: ids(2), shuttingDown: ids(1), replicas: ids(1, 2), state: led(2, 2, 1)}, electionResult{}, none},
		{"preferred of no replicas", electPreferred, world{live: ids(2), state: led(2, 2)}, electionResult{}, none},
		{"reassigned", electAmong(ids(3, 2), ids(3, 2, 1)), world{live: ids(1, 2, 3), replicas: ids(3, 2, 1), adding: ids(3), removing: ids(1), state: led(1, 1, 2, 3)},
			electionResult{leader: 3, isr: ids(1, 2, 3), tell: ids(3, 2)}, nil},
		{"reassigned, another replica dropped before", electAmong(ids(3), ids(3, 1)), world{live: ids(1, 2, 3), replicas: ids(3, 1), removing: ids(1), state: led(1, 1, 2, 3)},
			electionResult{leader: 3, isr: ids(1, 3), tell: ids(3)}, nil},
		{"reassigned, target out of sync", electAmong(ids(3), ids(3, 1)), world{live: ids(1, 3), replicas: ids(3, 1), removing: ids(1), state: led(1, 1)}, electionResult{}, none},
		{"shutdown", electForShutdown, world{live: ids(2, 3), shuttingDown: ids(1), replicas: ids(1, 2, 3), state: led(1, 1, 2, 3)},
			electionResult{leader: 2, isr: ids(2, 3), tell: ids(1, 2, 3)}, nil},
		{"shutdown, no other in sync", electForShutdown, world{live: ids(2), shuttingDown: ids(1), replicas: ids(1, 2), state: led(1, 1)}, electionResult{}, none},
		{"drop a follower", dropReplica(2), world{live: ids(1), replicas: ids(1, 2), state: led(1, 2, 1)},
			electionResult{leader: 1, isr: ids(1), tell: ids(1)}, nil},
		{"drop the leader", dropReplica(1), world{live: ids(2), replicas: ids(1, 2), state: led(1, 1, 2)},
			electionResult{leader: -1, isr: ids(2), tell: ids(2)}, nil},
		{"drop the last one in sync", dropReplica(1), world{live: ids(2), replicas: ids(1, 2), state: led(1, 1)},
			electionResult{leader: -1, isr: ids(1), tell: ids(2)}, nil},
		{"drop the last one in sync beside a former replica", dropReplica(1), world{live: ids(2, 9), replicas: ids(1, 2), state: led(1, 1, 9)},
			electionResult{leader: -1, isr: ids(1), tell: ids(2)}, nil},
		{"drop one that is not in sync", dropReplica(2), world{live: ids(1), replicas: ids(1, 2), state: led(1, 1)}, electionResult{}, errUnchanged},
		{"keep", keepLeader(ids(1), ids(1, 7)), world{live: ids(1), replicas: ids(1), state: led(1, 1)},
			electionResult{leader: 1, isr: ids(1), tell: ids(1, 7)}, nil},
		{"keep, but for one that was moved off", keepLeader(ids(1, 2), ids(1, 2)), world{live: ids(1), replicas: ids(1, 2), state: led(1, 1, 3)},
			electionResult{leader: 1, isr: ids(1), tell: ids(1, 2)}, nil},
		{"first", firstState, world{live: ids(3, 2), replicas: ids(1, 3, 2)},
			electionResult{leader: 3, isr: ids(3, 2), tell: ids(3, 2)}, nil},
		{"first with nobody there", firstState, world{replicas: ids(1)}, electionResult{}, none},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := test.world.model()
			got, err := test.rule(m, tp0, m.partition(tp0))
			if !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(electionResult{})); err == nil && diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestCheckISRChange(t *testing.T) {
	three := world{live: ids(1, 2), shuttingDown: ids(3), replicas: ids(1, 2, 3), state: led(1, 1)}
	recovering := three
	recovering.state = led(1, 1)
	recovering.state.Recovering = true
	tests := []struct {
		name    string
		world   world
		ask     isrChange
		version int16
		want    error
	}{
		{"expand", three, isrChange{1, 5, ids(1, 2), false, 8, nil}, 3, nil},
		{"newer leader epoch", three, isrChange{1, 6, ids(1, 2), false, 8, nil}, 3, kerr.NotController},
		{"newer partition epoch", three, isrChange{1, 5, ids(1, 2), false, 9, nil}, 3, kerr.NotController},
		{"older leader epoch", three, isrChange{1, 4, ids(1, 2), false, 8, nil}, 3, kerr.FencedLeaderEpoch},
		{"older partition epoch", three, isrChange{1, 5, ids(1, 2), false, 7, nil}, 3, kerr.InvalidUpdateVersion},
		{"done already", three, isrChange{1, 5, ids(1), false, 7, nil}, 3, errUnchanged},
		{"shutting down", three, isrChange{1, 5, ids(1, 3), false, 8, nil}, 3, kerr.IneligibleReplica},
		{"shutting down, version 1", three, isrChange{1, 5, ids(1, 3), false, 8, nil}, 1, kerr.OperationNotAttempted},
		{"let in by a leader that shuts down", world{live: ids(2), shuttingDown: ids(1), replicas: ids(1, 2), state: led(1, 1)}, isrChange{1, 5, ids(1, 2), false, 8, nil}, 3, nil},
		{"as they are registered", three, isrChange{1, 5, ids(1, 2), false, 8, []int64{101, 102}}, 3, nil},
		{"epoch not told", three, isrChange{1, 5, ids(1, 2), false, 8, []int64{101, -1}}, 3, nil},
		{"started anew since it fetched", three, isrChange{1, 5, ids(1, 2), false, 8, []int64{101, 99}}, 3, kerr.IneligibleReplica},
		{"replica taken off the partition", world{live: ids(1, 2, 3), replicas: ids(1, 2), state: led(1, 1, 2)}, isrChange{1, 5, ids(1, 3), false, 8, nil}, 3, kerr.IneligibleReplica},
		{"unknown replica", three, isrChange{1, 5, ids(1, 9), false, 8, nil}, 2, kerr.IneligibleReplica},
		{"recovered cannot become recovering", three, isrChange{1, 5, ids(1), true, 8, nil}, 3, kerr.InvalidRequest},
		{"recovering alone only", recovering, isrChange{1, 5, ids(1, 2), true, 8, nil}, 3, kerr.InvalidRequest},
		{"recovered now", recovering, isrChange{1, 5, ids(1), false, 8, nil}, 3, nil},
		{"no state", world{replicas: ids(1)}, isrChange{1, 0, ids(1), false, 0, nil}, 3, kerr.UnknownTopicOrPartition},
	}
	for _, test := range tests {
		if err := test.world.model().checkISRChange(tp0, test.ask, test.version); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

func TestCompareMembers(t *testing.T) {
	m := world{live: ids(1, 2, 3, 4)}.model()
	registered := []zkcoord.BrokerInfo{m.brokers[1].info, m.brokers[2].info, m.brokers[3].info, {ID: 5, Epoch: 1}}
	registered[1].Epoch = 999
	registered[2].Endpoints = nil
	got := compareMembers(m.brokers, registered)
	want := membership{joined: registered[3:], bounced: registered[1:2], changed: registered[2:3], left: ids(4)}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(membership{})); diff != "" {
		t.Fatal(diff)
	}
}

func TestAssignmentTo(t *testing.T) {
	tests := []struct {
		name   string
		from   assignment
		target []int32
		want   assignment
	}{
		{"another broker", assignment{replicas: ids(2, 0)}, ids(1, 2), assignment{ids(1, 2, 0), ids(1), ids(0)}},
		{"the same", assignment{replicas: ids(2, 0)}, ids(2, 0), assignment{ids(2, 0), ids(), ids()}},
		{"another order", assignment{replicas: ids(2, 0)}, ids(0, 2), assignment{ids(0, 2), ids(), ids()}},
		{"fewer", assignment{replicas: ids(2, 1, 0)}, ids(1, 0), assignment{ids(1, 0, 2), ids(), ids(2)}},
		{"another target meanwhile", assignment{ids(1, 2, 0), ids(1), ids(0)}, ids(3, 2), assignment{ids(3, 2, 0), ids(3), ids(0)}},
		{"back", assignment{ids(1, 2, 0), ids(1), ids(0)}, ids(2, 0), assignment{ids(2, 0), ids(), ids()}},
	}
	for _, test := range tests {
		if got := test.from.to(test.target); !got.equal(test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestCheckTarget(t *testing.T) {
	m := world{live: ids(1, 2), shuttingDown: ids(3), replicas: ids(1, 4), state: led(1, 1)}.model()
	for _, target := range [][]int32{ids(), ids(1, 1), ids(-1), ids(1, 9), ids(3)} {
		if err := m.checkTarget(tp0, target); !errors.Is(err, kerr.InvalidReplicaAssignment) {
			t.Errorf("%v: %v", target, err)
		}
	}
	for _, target := range [][]int32{ids(2, 1), ids(1, 4), ids(4)} { // 4 is down, but already a replica
		if err := m.checkTarget(tp0, target); err != nil {
			t.Errorf("%v: %v", target, err)
		}
	}
}

func TestNextDeletionStep(t *testing.T) {
	asked := func(states ...replicaDeletion) *deletion {
		d := &deletion{begun: true, replicas: make(map[replica]replicaDeletion)}
		for i, s := range states {
			d.replicas[replica{0, int32(i + 1)}] = s
		}
		return d
	}
	held := asked(deletionFailed, deletionDone)
	held.held = true
	tests := []struct {
		name string
		d    *deletion
		want deletionStep
	}{
		{"asked for", &deletion{}, askReplicas},
		{"held before it began", &deletion{held: true}, waitDeletion},
		{"under way", asked(deletionAsked, deletionDone), waitDeletion},
		{"a failed one waits for the others", asked(deletionAsked, deletionFailed), waitDeletion},
		{"a broker is down", held, waitDeletion},
		{"the broker is back", asked(deletionFailed, deletionDone), askReplicas},
		{"done", asked(deletionDone, deletionDone), finishDeletion},
	}
	for _, test := range tests {
		topic := world{replicas: ids(1, 2)}.model().topics["t"]
		topic.deletion = test.d
		if got := topic.nextStep(); got != test.want {
			t.Errorf("%s: step %d, want %d", test.name, got, test.want)
		}
	}
}

func TestUnbalanced(t *testing.T) {
	m := world{live: ids(1, 2)}.model()
	partitions := make(map[int32][]int32)
	for p := range int32(10) {
		partitions[p] = ids(1, 2)
	}
	m.addTopic(zkcoord.TopicInfo{Name: "b", Partitions: partitions})
	for p := range int32(10) {
		m.topics["b"].partitions[p].state = led(1, 1, 2)
	}
	m.topics["b"].partitions[3].state = led(2, 1, 2)
	if got := m.unbalanced(10); len(got) != 0 {
		t.Fatalf("leads are less than 10%% out of balance, which is allowed: %v", got)
	}
	if got := m.unbalanced(9); !slices.Equal(got, []topicPartition{{Topic: "b", Partition: 3}}) {
		t.Fatalf("got %v", got)
	}
	m.topics["b"].partitions[4].state = led(2, 2) // 1 is not in sync for this partition
	if got := m.unbalanced(10); !slices.Equal(got, []topicPartition{{Topic: "b", Partition: 3}}) {
		t.Fatalf("got %v", got)
	}
}

func TestBatchMessages(t *testing.T) {
	m := world{live: ids(1, 2), replicas: ids(1, 2, 3), state: led(1, 1, 2)}.model()
	p := NewestProtocol()
	from := sender{id: 1, epoch: 4, listener: "IN", protocol: p}
	b := newBatch()
	b.lead(m, ids(1, 3), tp0, true)
	b.lead(m, ids(1), tp0, false) // it is still marked as new
	b.stopReplica(2, tp0, false)
	b.stopReplica(2, tp0, true)
	var api []string
	msgs := b.messages(m, from)
	for _, msg := range msgs {
		api = append(api, kmsg.NameForKey(msg.req.Key()))
	}
	if diff := cmp.Diff([]string{"LeaderAndISR", "UpdateMetadata", "UpdateMetadata", "StopReplica"}, api); diff != "" {
		t.Fatal(diff)
	}
	lead := msgs[0].req.(*kmsg.LeaderAndISRRequest)
	if s := lead.TopicStates[0].PartitionStates[0]; !s.IsNew || s.Leader != 1 || s.ZKVersion != 8 || lead.BrokerEpoch != 101 ||
		lead.ControllerEpoch != 4 || lead.LiveLeaders[0].Port != 9001 {
		t.Errorf("%+v", lead)
	}
	update := msgs[1].req.(*kmsg.UpdateMetadataRequest)
	if s := update.TopicStates[0].PartitionStates[0]; !slices.Equal(s.OfflineReplicas, ids(3)) || len(update.LiveBrokers) != 2 ||
		update.LiveBrokers[0].Endpoints[0].SecurityProtocol != 1 {
		t.Errorf("%+v", update)
	}
	if s := msgs[3].req.(*kmsg.StopReplicaRequest).Topics[0].PartitionStates[0]; !s.Delete || s.LeaderEpoch != 5 {
		t.Errorf("%+v", s)
	}

	m.topics["t"].deletion = &deletion{}
	b = newBatch()
	b.update(ids(2), tp0)
	b.stopReplica(2, tp0, true)
	msgs = b.messages(m, from)
	if s := msgs[0].req.(*kmsg.UpdateMetadataRequest).TopicStates[0].PartitionStates[0]; s.Leader != -2 {
		t.Errorf("%+v", s)
	}
	if s := msgs[1].req.(*kmsg.StopReplicaRequest).Topics[0].PartitionStates[0]; s.LeaderEpoch != -2 {
		t.Errorf("%+v", s)
	}
}

// TestAnswerFromBeforeADeletion: a broker that had to delete a replica because it was moved away, and answers after the
// topic is to be deleted, has not deleted what was assigned to it again since.
func TestAnswerFromBeforeADeletion(t *testing.T) {
	m := world{live: ids(1, 2), replicas: ids(1, 2), state: led(1, 1, 2)}.model()
	ac := &activeController{m: m, c: &Controller{}, b: newBatch()}
	stop := func(epoch int32) (*kmsg.StopReplicaRequest, *kmsg.StopReplicaResponse) {
		req := kmsg.NewPtrStopReplicaRequest()
		req.Version = 3
		addStop(req, tp0, epoch, true)
		resp := req.ResponseKind().(*kmsg.StopReplicaResponse)
		resp.Partitions = append(resp.Partitions, kmsg.StopReplicaResponsePartition{Topic: "t"})
		return req, resp
	}
	of2 := replica{0, 2}
	d := &deletion{begun: true, replicas: map[replica]replicaDeletion{{0, 1}: deletionAsked, of2: deletionAsked}}
	m.topics["t"].deletion = d
	for _, test := range []struct {
		epoch int32
		want  replicaDeletion
	}{{5, deletionAsked}, {epochDuringDelete, deletionDone}} {
		req, resp := stop(test.epoch)
		if err := ac.stopAnswered(t.Context(), m.brokers[2], req, resp); err != nil {
			t.Fatal(err)
		}
		if got := d.replicas[of2]; got != test.want {
			t.Errorf("after the answer to a request with leader epoch %d: %d, want %d", test.epoch, got, test.want)
		}
	}
}
