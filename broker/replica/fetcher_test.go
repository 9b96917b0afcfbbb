package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"barnabas/internal/testwait"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func pair(t *testing.T) (*network, *broker, *broker) {
	n := &network{brokers: make(map[int32]*broker)}
	return n, newBroker(t, 1, n), newBroker(t, 2, n)
}

var both = []int32{1, 2}

func sameLogs(t *testing.T, a, b *Partition) {
	t.Helper()
	testwait.Until(t, "the follower at the leader's end", func() bool { return a.Log().LogEndOffset() == b.Log().LogEndOffset() })
	if x, y := content(t, a.Log()), content(t, b.Log()); !slices.Equal(x, y) {
		t.Fatalf("the logs differ: %v and %v", x, y)
	}
}

func TestFollowerCopiesTheLeader(t *testing.T) {
	_, one, two := pair(t)
	leader := one.must(t, 1, 0, both, both)
	appendTo(t, leader, "a", "b")
	follower := two.must(t, 1, 0, both, both)
	appendTo(t, leader, "c")
	sameLogs(t, leader, follower)
	testwait.Until(t, "the leader's high watermark", func() bool { return leader.Log().HighWatermark() == 3 })
	testwait.Until(t, "the follower's high watermark", func() bool { return follower.Log().HighWatermark() == 3 })
	if _, err := leader.DeleteRecordsBefore(2); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the follower's log start", func() bool { return follower.Log().LogStartOffset() == 2 })
}

// TestFetcherStates: fetchers report what they have fetched, and the partitions that they cannot follow.
func TestFetcherStates(t *testing.T) {
	_, one, two := pair(t)
	leader, follower := one.must(t, 1, 0, both, both), two.must(t, 1, 0, both, both)
	appendTo(t, leader, "a", "b")
	sameLogs(t, leader, follower)
	failing := func(n int) func() bool {
		return func() bool { return two.Fetchers()[0].Failing == n }
	}
	all := two.Fetchers()
	if len(all) != 1 || all[0].Source.ID != 1 || all[0].Requests == 0 || all[0].Bytes != leader.Log().Size() || len(all[0].Lags) != 1 {
		t.Fatalf("%+v", all)
	}
	one.refuse.Store(int32(kerr.UnknownServerError.Code))
	testwait.Until(t, "a partition that fails", failing(1))
	one.refuse.Store(int32(kerr.FencedLeaderEpoch.Code))
	testwait.Until(t, "one whose leader moves", failing(0))
	one.refuse.Store(int32(kerr.KafkaStorageError.Code))
	testwait.Until(t, "a partition that fails again", failing(1))
	one.refuse.Store(0)
	appendTo(t, leader, "c")
	testwait.Until(t, "one that is followed again", failing(0))
	sameLogs(t, leader, follower)
}

// TestStoppingBrokerFollowsNoNewLeader: a broker that hands its leaderships over before it stops does not rejoin the
// ISR under its successors.
func TestStoppingBrokerFollowsNoNewLeader(t *testing.T) {
	_, one, two := pair(t)
	leaving := one.must(t, 1, 0, both, both)
	two.must(t, 1, 0, both, both)
	one.StopFollowing()
	one.must(t, 2, 1, both, []int32{2})
	successor := two.must(t, 2, 1, both, []int32{2})
	appendTo(t, successor, "a")
	one.fetchers.mu.Lock()
	defer one.fetchers.mu.Unlock()
	if leaving.State().Leader != 2 || len(one.fetchers.mu.of) != 0 {
		t.Errorf("leader %d, fetched partitions: %v", leaving.State().Leader, one.fetchers.mu.of)
	}
}

// TestFollowerTruncatesWhatTheLeaderDoesNotHave: a follower truncates records of an earlier leader that were never
// replicated.
func TestFollowerTruncatesWhatTheLeaderDoesNotHave(t *testing.T) {
	for _, test := range []struct {
		version   int16
		oldFormat bool
	}{{divergingVersion, false}, {11, false}, {5, false}, {divergingVersion, true}, {11, true}} {
		t.Run(fmt.Sprintf("Fetch v%d, old format %v", test.version, test.oldFormat), func(t *testing.T) {
			n := &network{brokers: make(map[int32]*broker), version: test.version, oldFormat: test.oldFormat}
			one, two := newBroker(t, 1, n), newBroker(t, 2, n)
			first := one.must(t, 1, 0, both, both)
			appendTo(t, first, "a")
			second := two.must(t, 1, 0, both, both)
			sameLogs(t, first, second)
			testwait.Until(t, "both know that they have it", func() bool { return first.Log().HighWatermark() == 1 && second.Log().HighWatermark() == 1 })

			two.must(t, 2, 1, both, []int32{2}) // broker 2 leads, while broker 1 does not know yet and appends more
			appendTo(t, first, "lost", "lost too")
			appendTo(t, second, "kept")
			one.must(t, 2, 1, both, []int32{2})
			sameLogs(t, second, first)
			if got := content(t, first.Log()); !slices.Equal(got, []string{"0=a", "1=kept"}) {
				t.Errorf("the log has %v", got)
			}
			if n := one.Counts().RecordsLost; n != 0 {
				t.Errorf("%d acknowledged records counted as lost, none was", n)
			}
		})
	}
}

// TestLostRecordsAreCounted: acknowledged records that a newly elected, out-of-sync leader does not have are counted.
func TestLostRecordsAreCounted(t *testing.T) {
	_, one, two := pair(t)
	first := one.must(t, 1, 0, both, []int32{1})
	appendTo(t, first, "a", "b", "c")
	if first.Log().HighWatermark() != 3 {
		t.Fatalf("high watermark %d", first.Log().HighWatermark())
	}
	second := two.must(t, 2, 1, both, []int32{2})
	appendTo(t, second, "x")
	one.must(t, 2, 1, both, []int32{2})
	sameLogs(t, second, first)
	if n := one.Counts().RecordsLost; n != 3 {
		t.Errorf("%d lost records counted, want 3", n)
	}
}

// TestNothingFetchedComesAfterLeading: a fetch response that arrives after the follower has become the leader is
// dropped.
func TestNothingFetchedComesAfterLeading(t *testing.T) {
	n, one, two := pair(t)
	underWay, release := make(chan struct{}), make(chan struct{})
	var late sync.Once
	n.answered = func(resp *kmsg.FetchResponse) {
		if len(resp.Topics) == 1 && len(resp.Topics[0].Partitions[0].RecordBatches) > 0 {
			late.Do(func() { close(underWay); <-release })
		}
	}
	first := one.must(t, 1, 0, both, both)
	second := two.must(t, 1, 0, both, both)
	appendTo(t, first, "late")
	<-underWay
	two.changed = func() { // it becomes the leader, then the response arrives
		close(release)
		for n := 0; n < 20 && second.Log().LogEndOffset() == 0; n++ {
			time.Sleep(5 * time.Millisecond)
		}
	}
	two.must(t, 2, 1, both, []int32{2})
	appendTo(t, second, "led")
	if got := content(t, second.Log()); !slices.Equal(got, []string{"0=led"}) {
		t.Fatalf("the new leader has %v", got)
	}
}

// idle reports whether the broker has no running fetcher.
func idle(b *broker) bool {
	b.fetchers.mu.Lock()
	defer b.fetchers.mu.Unlock()
	return len(b.fetchers.mu.byKey) == 0
}

// TestIdleFetchersEnd: a fetcher ends when the last partition that it fetched is led by this broker, moved or deleted.
func TestIdleFetchersEnd(t *testing.T) {
	_, one, two := pair(t)
	one.must(t, 1, 0, both, both)
	two.must(t, 1, 0, both, both)
	if idle(two) {
		t.Fatal("a follower does not fetch")
	}
	two.must(t, 2, 1, both, both)
	if !idle(two) {
		t.Error("a leader fetches")
	}
	two.must(t, 1, 2, both, both)
	if _, err := two.StopReplicas(1, []Stop{{TP: tp0, LeaderEpoch: -2, Delete: true}}); err != nil {
		t.Fatal(err)
	}
	if !idle(two) {
		t.Error("a deleted partition is still fetched")
	}
}

// TestFetchersChangeWhileTheyCopy: when the number of fetchers changes, the partitions are handed over, and no record
// is lost or duplicated.
func TestFetchersChangeWhileTheyCopy(t *testing.T) {
	_, one, two := pair(t)
	leader := one.must(t, 1, 0, both, both)
	follower := two.must(t, 1, 0, both, both)
	for i := range 40 {
		appendTo(t, leader, fmt.Sprint(i))
		two.SetFetchers(1 + i%3)
	}
	sameLogs(t, leader, follower)
	two.fetchers.mu.Lock()
	defer two.fetchers.mu.Unlock()
	if running := len(two.fetchers.mu.byKey); running != 1 {
		t.Errorf("%d fetchers run for one partition", running)
	}
}

// TestFollowerBehindTheLeadersStart: a follower whose log ends below the leader's log start offset begins anew there.
func TestFollowerBehindTheLeadersStart(t *testing.T) {
	_, one, two := pair(t)
	leader := one.must(t, 1, 0, both, []int32{1})
	for i := range 10 {
		appendTo(t, leader, fmt.Sprint(i))
	}
	if _, err := leader.DeleteRecordsBefore(7); err != nil {
		t.Fatal(err)
	}
	follower := two.must(t, 1, 0, both, []int32{1})
	sameLogs(t, leader, follower)
	testwait.Until(t, "both in the ISR", func() bool { return len(leader.State().ISR) == 2 })
}

// TestFollowerBehindAStartInsideABatch: records are deleted up to the middle of a batch; a follower without that batch
// gets it whole.
func TestFollowerBehindAStartInsideABatch(t *testing.T) {
	_, one, two := pair(t)
	leader := one.must(t, 1, 0, both, []int32{1})
	appendTo(t, leader, "a")
	appendTo(t, leader, "b", "c", "d")
	if _, err := leader.DeleteRecordsBefore(2); err != nil {
		t.Fatal(err)
	}
	follower := two.must(t, 1, 0, both, []int32{1})
	sameLogs(t, leader, follower)
	testwait.Until(t, "both in the ISR", func() bool { return len(leader.State().ISR) == 2 })
	testwait.Until(t, "the follower's log start", func() bool { return follower.Log().LogStartOffset() == 2 })
}

// TestLeadershipMovesAtRandom: whatever order leaders change in, acknowledged records are kept and both logs agree in
// the end.
func TestLeadershipMovesAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			n := &network{brokers: make(map[int32]*broker)}
			if seed%2 == 1 {
				n.version = 11 // without diverging epochs
			}
			one, two := newBroker(t, 1, n), newBroker(t, 2, n)
			brokers := map[int32]*broker{1: one, 2: two}
			leader, epoch, isr := int32(1), int32(0), both
			var acked []string
			assignBoth := func() {
				for _, id := range random.Perm(2) {
					brokers[int32(id)+1].must(t, leader, epoch, both, isr)
				}
			}
			assignBoth()
			for step := range 25 {
				p, _ := brokers[leader].Partition(tp0)
				value := fmt.Sprint("v", step)
				info, err := p.Append(batchOf(value), false, logstore.LeaderAppend{ProduceVersion: 9})
				if err != nil {
					t.Fatal(err)
				}
				if random.IntN(2) == 0 { // acks=all
					if err := p.AwaitReplicated(t.Context(), info.LeaderEpoch, info.LastOffset+1); err != nil {
						t.Fatal(err)
					}
					acked = append(acked, fmt.Sprintf("%d=%s", info.FirstOffset, value))
				}
				if random.IntN(3) == 0 {
					isr = p.State().ISR
					if leader, epoch = 3-leader, epoch+1; !slices.Contains(isr, leader) {
						leader = 3 - leader // only an in-sync replica may lead
					}
					assignBoth()
				}
			}
			p, _ := brokers[leader].Partition(tp0)
			q, _ := brokers[3-leader].Partition(tp0)
			sameLogs(t, p, q)
			have := content(t, p.Log())
			for _, want := range acked {
				if !slices.Contains(have, want) {
					t.Fatalf("acknowledged record %s is missing: %v", want, have)
				}
			}
		})
	}
}

func TestFetchSessionSendsWhatChanged(t *testing.T) {
	var s fetchSession
	cfg := FetchConfig{Version: 12, MaxBytes: 1000}
	a, b := logstore.TopicPartition{Topic: "a"}, logstore.TopicPartition{Topic: "b", Partition: 3}
	wanted := map[logstore.TopicPartition]fetchFrom{a: {offset: 1}, b: {offset: 5}}
	req := s.request(wanted, cfg)
	if req.SessionID != 0 || req.SessionEpoch != 0 || len(req.Topics) != 2 {
		t.Fatalf("the first request is %+v", req)
	}
	s.answered(77)
	wanted[a] = fetchFrom{offset: 2}
	req = s.request(wanted, cfg)
	if req.SessionID != 77 || req.SessionEpoch != 1 || len(req.Topics) != 1 || req.Topics[0].Topic != "a" || len(req.ForgottenTopics) != 0 {
		t.Errorf("the second request is %+v", req)
	}
	s.answered(77)
	delete(wanted, b)
	req = s.request(wanted, cfg)
	if req.SessionEpoch != 2 || len(req.Topics) != 0 || len(req.ForgottenTopics) != 1 || req.ForgottenTopics[0].Topic != "b" {
		t.Errorf("the third request is %+v", req)
	}
	s.answered(0) // the leader has no free slot for a session
	if req = s.request(wanted, cfg); req.SessionID != 0 || len(req.Topics) != 1 {
		t.Errorf("without a session: %+v", req)
	}
}

// TestTopicsWithoutIDs: topics without ids are fetched by name, in a session without topic ids.
func TestTopicsWithoutIDs(t *testing.T) {
	var s fetchSession
	cfg := FetchConfig{Version: 17, MaxBytes: 1000}
	a, b := logstore.TopicPartition{Topic: "a"}, logstore.TopicPartition{Topic: "b"}
	wanted := map[logstore.TopicPartition]fetchFrom{a: {topicID: [16]byte{1}}}
	if req := s.request(wanted, cfg); req.Version != 17 || req.Topics[0].TopicID != [16]byte{1} {
		t.Errorf("with an id: %+v", req)
	}
	s.answered(77)
	wanted[b] = fetchFrom{}
	if req := s.request(wanted, cfg); req.Version != 12 || req.SessionID != 77 || req.SessionEpoch != 0 || len(req.Topics) != 2 {
		t.Errorf("with a topic without an id: %+v", req)
	}
	s.answered(78)
	delete(wanted, b)
	if req := s.request(wanted, cfg); req.Version != 17 || req.SessionID != 78 || req.SessionEpoch != 0 || len(req.Topics) != 1 || len(req.ForgottenTopics) != 0 {
		t.Errorf("without it: %+v", req)
	}
}

// TestBrokerEpochIsSentInVersionsThatHaveIt: the broker epoch is sent only in versions that have the field. Apache
// Kafka does not accept it in others (TestMessagesAreLaidOutAsInApacheKafka).
func TestBrokerEpochIsSentInVersionsThatHaveIt(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: make(map[int32]*broker), version: 17})
	f := newFetcher(b.fetchers, fetcherKey{}, func() {})
	for version := range int16(18) {
		req := kmsg.NewPtrFetchRequest()
		req.Version = version
		f.introduce(req)
		byID, told := req.ReplicaID == 1, req.ReplicaState.ID == 1
		if byID != (version < 15) || told != (version >= 15) {
			t.Errorf("version %d: %+v", version, req)
		}
	}
}

// emptyEpochEnds is a leader whose OffsetForLeaderEpoch response is empty.
type emptyEpochEnds struct{}

func (emptyEpochEnds) Close() {}

func (emptyEpochEnds) Do(context.Context, kmsg.Request) (kmsg.Response, error) {
	return kmsg.NewPtrOffsetForLeaderEpochResponse(), nil
}

// TestNoTruncationWithoutAnOffset: a partition that the leader leaves out of its response is not truncated.
func TestNoTruncationWithoutAnOffset(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: make(map[int32]*broker), version: 11})
	p := b.must(t, 1, 0, []int32{1}, []int32{1})
	appendTo(t, p, "kept")
	f := newFetcher(b.fetchers, fetcherKey{}, func() {})
	f.add(following{partition: p})
	if left, err := f.settle(t.Context(), emptyEpochEnds{}, f.wanted(time.Now())); err != nil || len(left) != 0 {
		t.Fatalf("%v, %v", left, err)
	}
	if got := content(t, p.Log()); !slices.Equal(got, []string{"0=kept"}) {
		t.Errorf("the log has %v", got)
	}
}

// TestNewLogIsFetchedAtOnce: a partition that needs no truncation is in the very next request. Otherwise a leader may
// first wait replica.fetch.wait.max.ms for records of other partitions.
func TestNewLogIsFetchedAtOnce(t *testing.T) {
	b := newBroker(t, 1, &network{brokers: make(map[int32]*broker)})
	p := b.must(t, 1, 0, []int32{1}, []int32{1})
	f := newFetcher(b.fetchers, fetcherKey{}, func() {})
	f.add(following{partition: p, leaderEpoch: 0})
	wanted, err := f.settle(t.Context(), nil, map[logstore.TopicPartition]fetchFrom{p.TP: {lastEpoch: noEpoch}})
	if _, asked := wanted[p.TP]; err != nil || !asked {
		t.Errorf("a partition with a new log is left out: %v, %v", wanted, err)
	}
}

// TestFollowerAmidChanges appends to a follower's log while its role is read and changed all the time: a goroutine that
// locks the same mutex for reading twice deadlocks with a writer that comes in between.
func TestFollowerAmidChanges(t *testing.T) {
	_, one, two := pair(t)
	leader, follower := one.must(t, 1, 0, both, both), two.must(t, 1, 0, both, both)
	done := make(chan struct{})
	var changes sync.WaitGroup
	for range 4 {
		changes.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					follower.mu.Lock()
					follower.mu.Unlock() //nolint:staticcheck // nothing is changed
				}
			}
		})
	}
	defer changes.Wait()
	defer close(done)
	for i := range 300 {
		appendTo(t, leader, fmt.Sprint(i))
	}
	testwait.Until(t, "the follower at the leader's end", func() bool { return follower.Log().LogEndOffset() == 300 })
}
