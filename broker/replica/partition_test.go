package replica

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/testwait"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func codeOf(err error) int16 {
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Code
	}
	return -1
}

func TestAssignments(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	b.must(t, 1, 5, []int32{1}, []int32{1})
	for _, test := range []struct {
		name  string
		epoch int32
		want  error
	}{{"older epoch", 4, kerr.StaleControllerEpoch}, {"same epoch", 5, kerr.StaleControllerEpoch}, {"newer epoch", 6, nil}} {
		if err := b.assign(t, 1, test.epoch, []int32{1}, []int32{1}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if err := b.assign(t, 1, 9, []int32{2, 3}, []int32{2}); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("a broker that is not among the replicas: %v", err)
	}
	state := kmsg.NewLeaderAndISRRequestTopicPartition()
	state.Leader, state.LeaderEpoch, state.Replicas, state.ISR = 1, 10, []int32{1}, []int32{1}
	errs, err := b.ApplyLeaderAndISR(1, []Assignment{{TP: tp0, Topic: [16]byte{8}, State: &state}}, nil)
	if err != nil || !errors.Is(errs[0], kerr.InconsistentTopicID) {
		t.Errorf("another topic id: %v, %v", errs, err)
	}
	if _, err := b.ApplyLeaderAndISR(0, nil, nil); !errors.Is(err, kerr.StaleControllerEpoch) {
		t.Errorf("an older controller: %v", err)
	}
}

// TestTopicIDIsTakenOver: an unknown topic id is adopted, in the same leader epoch too; another one is refused.
func TestTopicIDIsTakenOver(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	apply := func(id [16]byte) error {
		state := kmsg.NewLeaderAndISRRequestTopicPartition()
		state.Leader, state.LeaderEpoch, state.Replicas, state.ISR, state.IsNew = 1, 3, []int32{1}, []int32{1}, true
		errs, err := b.ApplyLeaderAndISR(1, []Assignment{{TP: tp0, Topic: id, State: &state}}, nil)
		return errors.Join(err, errs[0])
	}
	if err := apply([16]byte{}); err != nil {
		t.Fatal(err)
	}
	if err := apply([16]byte{7}); err != nil {
		t.Fatal(err)
	}
	if p, _ := b.Partition(tp0); p.Log().TopicID() != [16]byte{7} || p.State().TopicID != [16]byte{7} {
		t.Errorf("the log has the topic id %x, the partition %x", p.Log().TopicID(), p.State().TopicID)
	}
	if err := apply([16]byte{8}); !errors.Is(err, kerr.InconsistentTopicID) {
		t.Errorf("another topic id: %v", err)
	}
}

// TestReassignmentIsKnown: the leader knows of a reassignment from its beginning to its end.
func TestReassignmentIsKnown(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	for epoch, step := range []struct {
		adding, removing []int32
		want             bool
	}{{nil, nil, false}, {[]int32{2}, nil, true}, {nil, []int32{2}, true}, {nil, nil, false}} {
		state := kmsg.NewLeaderAndISRRequestTopicPartition()
		state.Leader, state.LeaderEpoch, state.Replicas, state.ISR, state.IsNew = 1, int32(epoch), []int32{1, 2}, []int32{1}, true
		state.AddingReplicas, state.RemovingReplicas = step.adding, step.removing
		if errs, err := b.ApplyLeaderAndISR(1, []Assignment{{TP: tp0, Topic: [16]byte{7}, State: &state}}, nil); errors.Join(err, errs[0]) != nil {
			t.Fatal(err, errs)
		}
		if p, _ := b.Partition(tp0); p.State().Reassigning != step.want {
			t.Errorf("adding %v, removing %v: reassigning is %v", step.adding, step.removing, !step.want)
		} else if p.Adding(2) != (step.adding != nil) || p.Adding(1) {
			t.Errorf("adding %v, removing %v: Adding(1) is %v, Adding(2) %v", step.adding, step.removing, p.Adding(1), p.Adding(2))
		}
	}
}

func TestEpochsOfRequests(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 5, []int32{1, 2}, []int32{1, 2})
	for epoch, want := range map[int32]error{-1: nil, 5: nil, 4: kerr.FencedLeaderEpoch, 6: kerr.UnknownLeaderEpoch} {
		if err := p.Check(epoch, true); !errors.Is(err, want) {
			t.Errorf("epoch %d at the leader: %v, want %v", epoch, err, want)
		}
	}
	b.must(t, 2, 6, []int32{1, 2}, []int32{1, 2})
	if err := p.Check(-1, true); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("a follower asked as the leader: %v", err)
	}
	if err := p.Check(6, false); err != nil {
		t.Errorf("a follower asked as any replica: %v", err)
	}
}

// TestHighWatermarkWaitsForTheInSyncReplicas: the high watermark, and the acknowledgement with it, waits for all
// in-sync replicas.
func TestHighWatermarkWaitsForTheInSyncReplicas(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 0, []int32{1, 2, 3}, []int32{1, 2, 3})
	appendTo(t, p, "a", "b", "c")
	fetch := func(replica int32, offset int64) {
		t.Helper()
		v, err := p.Read(Reader{Replica: replica, BrokerEpoch: 1, Isolation: ReadToEnd, LeaderOnly: true}, Position{-1, -1, offset, 0, 1000, true, [16]byte{}})
		if err != nil {
			t.Fatal(err)
		}
		v.Records.Close()
	}
	mark := func(want int64) {
		t.Helper()
		if got := p.Log().HighWatermark(); got != want {
			t.Errorf("high watermark %d, want %d", got, want)
		}
	}
	mark(0)
	fetch(2, 3)
	mark(0) // replica 3 has not fetched yet
	fetch(3, 2)
	mark(2)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, kerr.RequestTimedOut)
	defer cancel()
	if err := p.AwaitReplicated(ctx, 0, 3); !errors.Is(err, kerr.RequestTimedOut) {
		t.Errorf("acknowledged too early: %v", err)
	}
	done := make(chan error)
	go func() { done <- p.AwaitReplicated(t.Context(), 0, 3) }()
	fetch(3, 3)
	if err := <-done; err != nil {
		t.Error(err)
	}
	mark(3)
	if _, err := p.Read(Reader{Replica: 9}, Position{-1, -1, 0, 0, 1000, true, [16]byte{}}); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("a fetch by a broker that is not a replica: %v", err)
	}
}

// TestHighWatermarkDoesNotWaitForDeadBrokers removes a broker from the ISR that had everything until it stopped.
func TestHighWatermarkDoesNotWaitForDeadBrokers(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 0, []int32{1, 2, 3}, []int32{1, 2, 3})
	fetch := func(replica int32, offset int64) {
		t.Helper()
		v, err := p.Read(Reader{Replica: replica, BrokerEpoch: 1, Isolation: ReadToEnd, LeaderOnly: true}, Position{-1, -1, offset, 0, 1000, true, [16]byte{}})
		if err != nil {
			t.Fatal(err)
		}
		v.Records.Close()
	}
	appendTo(t, p, "a")
	fetch(2, 1)
	fetch(3, 1)
	b.refuseISRs()
	b.must(t, 1, 1, []int32{1, 2, 3}, []int32{1, 2})
	fetch(3, 1)
	appendTo(t, p, "b")
	fetch(2, 2)
	if got := p.Log().HighWatermark(); got != 1 {
		t.Errorf("high watermark %d: it does not wait for a replica that is about to join the ISR", got)
	}
	b.gone.Store(3)
	fetch(2, 2)
	testwait.Until(t, "the high watermark without the dead broker", func() bool { return p.Log().HighWatermark() == 2 })
}

func TestLeadershipLostWhileWaiting(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 0, []int32{1, 2}, []int32{1, 2})
	appendTo(t, p, "a")
	done := make(chan error)
	go func() { done <- p.AwaitReplicated(t.Context(), 0, 1) }()
	b.must(t, 2, 1, []int32{1, 2}, []int32{1, 2})
	if err := <-done; !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("the producer gets %v", err)
	}
}

// TestRecordsReplacedWhileWaiting: whoever waits for records does not take those of another leader at the same offsets
// for them, although this broker leads again when it looks.
func TestRecordsReplacedWhileWaiting(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 1, both, both)
	appendTo(t, p, "kept")
	fetchAt(t, p, 2, 1)
	info, err := p.Append(batchOf("lost"), true, logstore.LeaderAppend{ProduceVersion: 9})
	if err != nil {
		t.Fatal(err)
	}
	b.must(t, 2, 2, both, both)
	if err := p.cut(1); err != nil {
		t.Fatal(err)
	}
	b.must(t, 1, 3, both, both)
	appendTo(t, p, "another")
	fetchAt(t, p, 2, 2)
	for _, test := range []struct {
		epoch int32
		end   int64
		want  error
	}{{1, 1, nil}, {info.LeaderEpoch, info.LastOffset + 1, kerr.NotLeaderForPartition}, {3, 2, nil}} {
		done, err := p.Replicated(test.epoch, test.end)
		if done != (test.want == nil) || !errors.Is(err, test.want) {
			t.Errorf("up to %d in epoch %d: %v, %v", test.end, test.epoch, done, err)
		}
	}
}

func TestMinInSync(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	b.minInSync = 2
	p := b.must(t, 1, 0, []int32{1, 2}, []int32{1})
	info, err := p.Append(batchOf("a"), true, logstore.LeaderAppend{ProduceVersion: 9})
	if !errors.Is(err, kerr.NotEnoughReplicas) || info.LogStartOffset != 0 {
		t.Errorf("acks=all with one in-sync replica: %v, log start offset %d", err, info.LogStartOffset)
	}
	appendTo(t, p, "acks=1 is taken")
	if p.Log().HighWatermark() != 0 {
		t.Error("the high watermark moved below min.insync.replicas")
	}
	alone := b.must(t, 1, 1, []int32{1}, []int32{1})
	if _, err := alone.Append(batchOf("a"), true, logstore.LeaderAppend{ProduceVersion: 9}); err != nil {
		t.Errorf("with one replica there can be only one in sync: %v", err)
	}
}

// TestISRGrowsAndShrinks: the ISR changes through the controller; until it has answered, the larger of both sets
// counts.
func TestISRGrowsAndShrinks(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 0, []int32{1, 2}, []int32{1})
	appendTo(t, p, "a", "b")
	b.controller.mu.Lock()
	b.controller.answer = nil
	b.controller.mu.Unlock()
	read := func(offset int64) {
		v, err := p.Read(Reader{Replica: 2, BrokerEpoch: 77, Isolation: ReadToEnd, LeaderOnly: true}, Position{-1, -1, offset, 0, 1000, true, [16]byte{}})
		if err != nil {
			t.Fatal(err)
		}
		v.Records.Close()
	}
	read(1)
	if got := p.State().ISR; !slices.Equal(got, []int32{1}) {
		t.Fatalf("ISR %v before the follower has caught up", got)
	}
	read(2) // the leader proposes a change, and the controller does not answer
	appendTo(t, p, "c")
	if got := p.Log().HighWatermark(); got != 2 {
		t.Errorf("high watermark %d while replica 2 may be in sync, want 2", got)
	}
	b.controller.mu.Lock()
	b.controller.answer = accept
	b.controller.mu.Unlock()
	testwait.Until(t, "replica 2 in the ISR", func() bool { return slices.Equal(p.State().ISR, []int32{1, 2}) })
	b.controller.mu.Lock()
	last := b.controller.asked[len(b.controller.asked)-1]
	b.controller.mu.Unlock()
	if e := last.Topics[0].Partitions[0].NewEpochISR[1]; e.BrokerID != 2 || e.BrokerEpoch != 77 {
		t.Errorf("proposed %+v, want broker 2 with the epoch of its fetch", e)
	}
	b.lag.Store(0) // otherwise the high watermark would wait for a replica that may soon rejoin
	p.shrinkISR(time.Now().Add(2 * time.Hour))
	testwait.Until(t, "replica 2 out of the ISR", func() bool { return slices.Equal(p.State().ISR, []int32{1}) })
	testwait.Until(t, "the high watermark at the end", func() bool { return p.Log().HighWatermark() == 3 })
}

// TestISRChangeAmidALeaderAndISR: an ISR change that has to be sent again, since its controller was deposed, does not
// displace the newer one that the leader has proposed since its successor's LeaderAndIsr request.
func TestISRChangeAmidALeaderAndISR(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	replicas := []int32{1, 2, 3}
	p := b.must(t, 1, 0, replicas, []int32{1, 3})
	fetch := func() {
		v, err := p.Read(Reader{Replica: 2, Isolation: ReadToEnd, LeaderOnly: true}, Position{-1, -1, 0, 0, 1000, true, [16]byte{}})
		if err != nil {
			t.Error(err)
			return
		}
		v.Records.Close()
	}
	later := func(req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
		resp := accept(req)
		if change := req.Topics[0].Partitions[0]; change.LeaderEpoch != 1 {
			resp.Topics[0].Partitions[0].ErrorCode = kerr.FencedLeaderEpoch.Code
		}
		return resp
	}
	b.controller.mu.Lock()
	b.controller.answer = func(*kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
		b.must(t, 1, 1, replicas, []int32{1})
		fetch()
		b.controller.answer = later
		return &kmsg.AlterPartitionResponse{ErrorCode: kerr.NotController.Code}
	}
	b.controller.mu.Unlock()
	fetch()
	testwait.Until(t, "replica 2 in the ISR", func() bool { return slices.Equal(p.State().ISR, []int32{1, 2}) })
}

// TestISRChangeAskedOfAFormerController: the change was sent to a controller that knows neither the topic nor that it
// was deposed; the leader sends it again.
func TestISRChangeAskedOfAFormerController(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.UnknownTopicID, kerr.UnknownTopicOrPartition} {
		b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
		p := b.must(t, 1, 0, both, []int32{1})
		b.controller.mu.Lock()
		b.controller.answer = func(req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
			b.controller.answer = accept
			resp := accept(req)
			resp.Topics[0].Partitions[0].ErrorCode = code.Code
			return resp
		}
		b.controller.mu.Unlock()
		fetchAt(t, p, 2, 0)
		testwait.Until(t, "replica 2 in the ISR", func() bool { return slices.Equal(p.State().ISR, both) })
	}
}

// fetchAt makes a follower's fetch.
func fetchAt(t *testing.T, p *Partition, replica int32, offset int64) {
	t.Helper()
	v, err := p.Read(Reader{Replica: replica, BrokerEpoch: 1, Isolation: ReadToEnd, LeaderOnly: true}, Position{-1, -1, offset, 0, 1000, true, [16]byte{}})
	if err != nil {
		t.Fatal(err)
	}
	v.Records.Close()
}

// TestLeaderThatMissedAnEpoch: in an epoch that this leader has missed, followers may have truncated their logs to
// another leader's, so what they fetched before does not count. After an epoch that directly follows, it does.
func TestLeaderThatMissedAnEpoch(t *testing.T) {
	for next, mark := range map[int32]int64{6: 2, 7: 0} {
		b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
		replicas := []int32{1, 2, 3}
		p := b.must(t, 1, 5, replicas, replicas)
		appendTo(t, p, "a", "b")
		fetchAt(t, p, 2, 2)
		b.gone.Store(3)
		b.must(t, 1, next, replicas, both)
		if got := p.Log().HighWatermark(); got != mark {
			t.Errorf("epoch %d after 5: high watermark %d, want %d", next, got, mark)
		}
		fetchAt(t, p, 2, 1)
		fetchAt(t, p, 2, 2)
		if got := p.Log().HighWatermark(); got != 2 {
			t.Errorf("epoch %d after 5, fetched again: high watermark %d", next, got)
		}
	}
}

// TestRequestsOfTwoControllers: requests of a controller are not applied during, or after, those of its successor.
func TestRequestsOfTwoControllers(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	begun, goOn, second := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_ = b.FromController(1, func() { close(begun); <-goOn })
	}()
	<-begun
	go func() { second <- b.FromController(2, func() {}) }()
	select {
	case <-second:
		t.Error("the successor's request has overtaken the first one")
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	if err := <-second; err != nil {
		t.Error(err)
	}
	if err := b.FromController(1, func() { t.Error("applied after the successor's request") }); !errors.Is(err, kerr.StaleControllerEpoch) {
		t.Error(err)
	}
}

// TestReplicasChangeWithoutALeaderEpoch: a controller has assigned them and was deposed before it wrote the next leader
// epoch; its successor repeats the present one.
func TestReplicasChangeWithoutALeaderEpoch(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	b.minInSync = 2
	p := b.must(t, 1, 5, []int32{1, 2, 3}, []int32{1})
	fetchAt(t, p, 2, 0)
	testwait.Until(t, "replica 2 in the ISR", func() bool { return slices.Equal(p.State().ISR, both) })
	b.must(t, 1, 6, []int32{1, 2, 3}, []int32{1})
	appendTo(t, p, "a")
	b.must(t, 1, 6, []int32{1}, []int32{1})
	if got := p.State().Replicas; !slices.Equal(got, []int32{1}) {
		t.Errorf("replicas %v", got)
	}
	if _, err := p.Append(batchOf("b"), true, logstore.LeaderAppend{ProduceVersion: 9}); err != nil {
		t.Error(err)
	}
	if got := p.Log().HighWatermark(); got != 2 {
		t.Errorf("high watermark %d", got)
	}
	if err := b.assign(t, 1, 6, []int32{1}, []int32{1}); !errors.Is(err, errSameEpoch) {
		t.Errorf("nothing new: %v", err)
	}
}

// TestFetchAmidAnElection: what a follower has fetched in a leader epoch is not recorded in the next one.
func TestFetchAmidAnElection(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 5, both, both)
	appendTo(t, p, "a")
	b.must(t, 1, 7, both, both)
	p.followerFetched(2, 5, 1, 0, 1)
	if got := p.Log().HighWatermark(); got != 0 {
		t.Errorf("high watermark %d", got)
	}
	p.followerFetched(2, 7, 1, 0, 1)
	if got := p.Log().HighWatermark(); got != 1 {
		t.Errorf("fetched in the new epoch: high watermark %d", got)
	}
}

// TestDroppedStray: requests from before the controller took a replica off this broker, which come late, do not make it
// the leader with an empty log.
func TestDroppedStray(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	topic := [16]byte{7} // as in assign
	lead := func(epoch int32, topic [16]byte, isNew bool) error {
		state := kmsg.NewLeaderAndISRRequestTopicPartition()
		state.Leader, state.LeaderEpoch, state.Replicas, state.ISR, state.IsNew = 1, epoch, []int32{1, 2}, []int32{1, 2}, isNew
		errs, err := b.ApplyLeaderAndISR(1, []Assignment{{TP: tp0, Topic: topic, State: &state}}, nil)
		return errors.Join(err, errs[0])
	}
	for _, test := range []struct {
		name  string
		epoch int32
		topic [16]byte
		isNew bool
		want  error
	}{
		{"from before", 7, topic, false, kerr.StaleControllerEpoch},
		{"assigned again", 8, topic, false, nil},
		{"added again", 6, topic, true, nil},
		{"another topic of that name", 0, [16]byte{8}, false, nil},
	} {
		b.must(t, 2, 5, both, both)
		if dropped, err := b.DropStray(tp0, 5, topic, 7); err != nil || !dropped {
			t.Fatal(dropped, err)
		}
		if err := lead(test.epoch, test.topic, test.isNew); !errors.Is(err, test.want) || (err == nil) != b.Hosts("t") {
			t.Errorf("%s: %v", test.name, err)
		}
		if errs, err := b.StopReplicas(1, []Stop{{tp0, -2, true}}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		if err := lead(5, topic, true); err != nil { // forgotten once there was one
			t.Error(err)
		}
		if errs, err := b.StopReplicas(1, []Stop{{tp0, -2, true}}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
	}
}

// TestStoppedReplicaIsAssignedAgain: in the same leader epoch, since the controller that stopped the replica, in order
// to remove it from the partition, was deposed before it wrote that.
func TestStoppedReplicaIsAssignedAgain(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	for epoch, leader := range both {
		p := b.must(t, leader, int32(epoch), both, both)
		before := p.State()
		if errs, err := b.StopReplicas(1, []Stop{{TP: tp0, LeaderEpoch: int32(epoch)}}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		if p.State().Role != Offline {
			t.Errorf("stopped: %+v", p.State())
		}
		b.must(t, leader, int32(epoch), both, both)
		if again := p.State(); again.Role != before.Role || again.Role == Offline {
			t.Errorf("assigned again: %+v, before it was stopped %+v", again, before)
		}
	}
}

// TestFailedDirectory: clients and the controller are told of a failed log directory, whatever the leader epoch.
func TestFailedDirectory(t *testing.T) {
	b := newBroker(t, 1, nil)
	p := b.must(t, 1, 5, both, both)
	b.fs.SetFault(func(string, string) error { return errors.New("disk died") })
	if _, err := p.Append(batchOf("v"), false, logstore.LeaderAppend{ProduceVersion: 9}); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("append: %v", err)
	}
	b.DirectoryFailed(p.Log().Dir())
	if err := p.Check(5, true); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("check: %v", err)
	}
	for _, epoch := range []int32{4, 5, 6} {
		if err := b.assign(t, 1, epoch, both, both); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("assigned in leader epoch %d: %v", epoch, err)
		}
	}
}

// TestRolesOnAFullDisk: if a full disk keeps a partition from assuming its role, the controller is asked to repeat the
// role when there is free space again, and the same leader epoch is accepted then.
func TestRolesOnAFullDisk(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	b.must(t, 1, 4, both, both)
	b.SpaceFreed()
	if b.asked.Load() != 0 {
		t.Error("the controller was not asked to repeat roles")
	}
	b.fs.SetFault(func(string, string) error { return syscall.ENOSPC })
	for range 2 {
		if err := b.assign(t, 1, 5, both, both); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("becoming the leader without free space: %v", err)
		}
	}
	b.fs.SetFault(nil)
	b.SpaceFreed()
	b.SpaceFreed()
	if n := b.asked.Load(); n != 1 {
		t.Errorf("the controller was asked %d times", n)
	}
	if err := b.assign(t, 1, 5, both, both); err != nil {
		t.Errorf("becoming the leader with free space: %v", err)
	}
	if p, _ := b.Partition(tp0); p.Check(5, true) != nil {
		t.Errorf("it is not the leader: %v", p.Check(5, true))
	}
}

// TestOfflineLeaderDoesNotShrinkTheISR: a leader whose log directory has failed does not change the ISR.
func TestOfflineLeaderDoesNotShrinkTheISR(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 0, []int32{1, 2}, []int32{1, 2})
	appendTo(t, p, "a")
	b.DirectoryFailed(p.Log().Dir())
	if role := p.State().Role; role != Offline {
		t.Fatalf("its role is %v", role)
	}
	p.shrinkISR(time.Now().Add(2 * time.Hour))
	if p.mu.isr.pending != nil {
		t.Errorf("proposed ISR: %v", p.mu.isr.pending)
	}
}

func TestRefusedISRChange(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.IneligibleReplica, kerr.FencedLeaderEpoch, kerr.InvalidUpdateVersion} {
		t.Run(code.Message, func(t *testing.T) {
			b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
			b.controller.mu.Lock()
			b.controller.answer = func(req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
				resp := accept(req)
				resp.Topics[0].Partitions[0].ErrorCode = code.Code
				return resp
			}
			b.controller.mu.Unlock()
			p := b.must(t, 1, 0, []int32{1, 2}, []int32{1, 2})
			appendTo(t, p, "a")
			p.shrinkISR(time.Now().Add(2 * time.Hour))
			testwait.Until(t, "the proposal", func() bool {
				b.controller.mu.Lock()
				defer b.controller.mu.Unlock()
				return len(b.controller.asked) > 0
			})
			if got := p.State().ISR; !slices.Equal(got, []int32{1, 2}) || p.Log().HighWatermark() != 0 {
				t.Errorf("ISR %v, high watermark %d after a refusal", got, p.Log().HighWatermark())
			}
		})
	}
}

func TestDeleteRecords(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 0, []int32{1}, []int32{1})
	appendTo(t, p, "a", "b", "c")
	for _, test := range []struct {
		offset, want int64
		err          error
	}{{2, 2, nil}, {1, 1, nil}, {4, 0, kerr.OffsetOutOfRange}, {-2, 0, kerr.OffsetOutOfRange}, {-1, 3, nil}} {
		got, err := p.DeleteRecordsBefore(test.offset)
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("to %d: %d, %v", test.offset, got, err)
		}
	}
	if low, err := p.LowWatermark(); low != 3 || err != nil {
		t.Errorf("low watermark %d, %v", low, err)
	}
}

func TestStopReplica(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 5, []int32{1}, []int32{1})
	stop := func(epoch int32, del bool) error {
		errs, err := b.StopReplicas(1, []Stop{{tp0, epoch, del}})
		if err != nil {
			t.Fatal(err)
		}
		return errs[0]
	}
	if err := stop(4, true); !errors.Is(err, kerr.FencedLeaderEpoch) {
		t.Errorf("an older epoch: %v", err)
	}
	if err := stop(5, false); err != nil || p.State().Role != Offline {
		t.Errorf("stop without delete: %v, role %v", err, p.State().Role)
	}
	if err := stop(-2, true); err != nil {
		t.Errorf("delete with the topic: %v", err)
	}
	if _, ok := b.Partition(tp0); ok {
		t.Error("it still exists")
	}
	if err := p.Check(-1, false); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("the removed partition returns %v", err)
	}
}

// TestHighWatermarkGoesOnWithoutADeadBroker: the high watermark does not wait for a dead broker that is out of sync,
// but caught up just before it died.
func TestHighWatermarkGoesOnWithoutADeadBroker(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 0, []int32{1, 2}, []int32{1, 2})
	appendTo(t, p, "a")
	b.refuseISRs()
	b.must(t, 1, 1, []int32{1, 2}, []int32{1})
	fetchAt(t, p, 2, 1)
	appendTo(t, p, "b")
	if got := p.Log().HighWatermark(); got != 1 {
		t.Fatalf("high watermark %d while the follower is about to join the ISR", got)
	}
	done := make(chan error)
	go func() { done <- p.AwaitReplicated(t.Context(), 1, 2) }()
	b.gone.Store(2)
	b.LiveBrokersChanged()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestHighWatermarkGoesOnWithoutALaggingBroker: the high watermark does not wait for a lagging broker, although it was
// about to join the ISR when it last fetched.
func TestHighWatermarkGoesOnWithoutALaggingBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
		b.refuseISRs()
		p := b.must(t, 1, 0, both, []int32{1})
		fetchAt(t, p, 2, 0)
		appendTo(t, p, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Duration(b.lag.Load()))
		defer cancel()
		if err := p.AwaitReplicated(ctx, 0, 1); err != nil {
			t.Error(err)
		}
	})
}

// TestHighWatermarkDoesNotWaitForWhoWasTakenOut: the high watermark does not wait for a replica that the controller has
// removed from the ISR because its log directory has failed.
func TestHighWatermarkDoesNotWaitForWhoWasTakenOut(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 0, both, both)
	appendTo(t, p, "a")
	fetchAt(t, p, 2, 1)
	b.must(t, 1, 1, both, []int32{1})
	appendTo(t, p, "b")
	if got := p.Log().HighWatermark(); got != 2 {
		t.Errorf("high watermark %d", got)
	}
}

// TestRecordsDeletedWithoutADeadBroker: a caller that waits for a dead broker's log start offset is woken when the
// broker is gone.
func TestRecordsDeletedWithoutADeadBroker(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: map[int32]*broker{}})
	p := b.must(t, 1, 0, both, both)
	appendTo(t, p, "a")
	fetchAt(t, p, 2, 1)
	if _, err := p.DeleteRecordsBefore(1); err != nil {
		t.Fatal(err)
	}
	checked, done := make(chan bool, 10), make(chan error)
	go func() {
		done <- await.Until(t.Context(), func() (bool, error) {
			low, err := p.LowWatermark()
			checked <- low == 1
			return low == 1, err
		}, &p.Changed)
	}()
	if <-checked {
		t.Error("the follower has deleted nothing")
	}
	b.gone.Store(2)
	b.LiveBrokersChanged()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestISRChangesOfTopicsWithoutIDs: ISR changes of topics without ids are sent by name, in a request of their own.
func TestISRChangesOfTopicsWithoutIDs(t *testing.T) {
	c := &controller{answer: accept}
	s := newISRSender(1, func() int64 { return 1 }, 3, c, newBroker(t, 1, nil).log)
	env := &environment{counts: new(counts)}
	named := &Partition{TP: logstore.TopicPartition{Topic: "named"}, env: env}
	numbered := &Partition{TP: logstore.TopicPartition{Topic: "numbered"}, env: env}
	s.send(t.Context(), []*isrChange{
		{partition: named, isr: []int32{1}, epochs: []int64{1}},
		{partition: numbered, topicID: [16]byte{7}, isr: []int32{1}, epochs: []int64{1}},
	})
	if len(c.asked) != 2 {
		t.Fatalf("%d requests", len(c.asked))
	}
	for _, req := range c.asked {
		topic := req.Topics[0]
		if byID := topic.TopicID != [16]byte{}; byID != (req.Version == 3) || !byID && (topic.Topic != "named" || req.Version != 1) {
			t.Errorf("v%d: %+v", req.Version, topic)
		}
	}
}

// TestLongReadsHoldUpNothing: while the log is read for long, the role can change and records are appended; only
// replacing or removing the log waits, and later readers find it gone.
func TestLongReadsHoldUpNothing(t *testing.T) {
	b := newBrokerIn(t, 1, &network{brokers: make(map[int32]*broker)}, "/a")
	p := b.must(t, 1, 0, []int32{1}, []int32{1})
	appendTo(t, p, "v")
	removed := make(chan error, 1)
	err := p.ReadLog(func(log *logstore.Log) error {
		b.must(t, 1, 1, []int32{1}, []int32{1})
		if epoch := p.State().LeaderEpoch; epoch != 1 {
			t.Errorf("leader epoch %d", epoch)
		}
		appendTo(t, p, "w")
		go func() {
			errs, err := b.StopReplicas(1, []Stop{{TP: tp0, LeaderEpoch: 1, Delete: true}})
			removed <- errors.Join(append(errs, err)...)
		}()
		testwait.Until(t, "the removal to begin", func() bool { _, there := b.Partition(tp0); return !there })
		r, err := log.Read(0, 1000, 2, true)
		r.Close()
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	if err := p.ReadLog(func(*logstore.Log) error { return nil }); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("after it was removed: %v", err)
	}
}
