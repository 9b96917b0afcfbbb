package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/logstore"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

// inWorld runs a test in a cluster without faults.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 3)
		defer w.close()
		synctest.Wait()
		test(t, w)
	})
}

const testID = "id-0"

func (w *world) init(t *testing.T, id string) Identity {
	t.Helper()
	self, err := w.coordinator(id).InitProducerID(t.Context(), id, 10*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// begin opens a transaction with a record in each partition.
func (w *world) begin(t *testing.T, id string, tps ...logstore.TopicPartition) *producer {
	t.Helper()
	p := &producer{id: id, self: w.init(t, id), open: &attempt{}, seq: make(map[logstore.TopicPartition]int32)}
	if err := w.coordinator(id).AddPartitions(t.Context(), id, p.self, tps); err != nil {
		t.Fatal(err)
	}
	for _, tp := range tps {
		if err := (&history{world: w}).produce(p, tp); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (w *world) state(t *testing.T, id string) State {
	t.Helper()
	d, err := w.coordinator(id).Describe(id)
	if err != nil {
		t.Fatal(err)
	}
	return d.State
}

func want(t *testing.T, what string, err, code error) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("%s: %v, want %v", what, err, code)
	}
}

func TestRefusals(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx, c := t.Context(), w.coordinator(testID)
		for _, timeout := range []time.Duration{0, -time.Millisecond, 15*time.Minute + time.Millisecond} {
			_, err := c.InitProducerID(ctx, testID, timeout, nil)
			want(t, fmt.Sprint("timeout ", timeout), err, kerr.InvalidTransactionTimeout)
		}
		_, err := c.InitProducerID(ctx, "", time.Second, nil)
		want(t, "no id", err, kerr.InvalidRequest)
		want(t, "end without id", c.EndTxn(ctx, "", Identity{}, true), kerr.InvalidRequest)
		want(t, "end of an unknown id", c.EndTxn(ctx, testID, Identity{}, true), kerr.InvalidProducerIDMapping)
		want(t, "add to an unknown id", c.AddPartitions(ctx, testID, Identity{}, nil), kerr.InvalidProducerIDMapping)
		_, err = c.Describe(testID)
		want(t, "describe an unknown id", err, kerr.TransactionalIDNotFound)
		_, err = c.Verify(testID, Identity{}, nil)
		want(t, "verify an unknown id", err, kerr.InvalidProducerIDMapping)

		stranger := w.brokers[2] // a broker that leads neither log
		want(t, "at another broker", stranger.EndTxn(ctx, testID, Identity{}, true), kerr.NotCoordinator)
		c.Close()
		want(t, "after the end", c.EndTxn(ctx, testID, Identity{}, true), kerr.CoordinatorNotAvailable)
		_, err = c.List(Filter{OpenFor: -1})
		want(t, "list after the end", err, kerr.CoordinatorNotAvailable)
	})
}

func TestBusyWhileFollowersAreSilent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx, c := t.Context(), w.coordinator(testID)
		self := w.init(t, testID)
		r := w.logs[int(testID[len(testID)-1])%worldLogs]
		r.set(func() { r.mu.held = true })
		added := make(chan error)
		go func() { added <- c.AddPartitions(ctx, testID, self, []logstore.TopicPartition{p0}) }()
		synctest.Wait()
		want(t, "another request meanwhile", c.EndTxn(ctx, testID, self, true), kerr.ConcurrentTransactions)
		missing, err := c.Verify(testID, self, []logstore.TopicPartition{p0})
		want(t, "verify", err, nil)
		want(t, "a partition that not all replicas know of", missing[p0], kerr.TransactionAbortable)
		if got := w.state(t, testID); got != Empty {
			t.Errorf("described as %v before all replicas have it", got)
		}
		want(t, "the request after its time", <-added, kerr.CoordinatorNotAvailable)
		r.set(func() { r.mu.held = false })
		if got := w.state(t, testID); got != Ongoing {
			t.Errorf("described as %v when all replicas have it", got)
		}
		r.set(func() { r.mu.few = true })
		want(t, "too few replicas", c.EndTxn(ctx, testID, self, true), kerr.CoordinatorNotAvailable)
		r.set(func() { r.mu.few = false })
		want(t, "enough of them again", c.EndTxn(ctx, testID, self, true), nil)
	})
}

func TestLoading(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.begin(t, testID, p0)
		log := int(testID[len(testID)-1]) % worldLogs
		r := w.logs[log]
		w.lead(log, 2)()
		synctest.Wait()
		if got := w.state(t, testID); got != Ongoing {
			t.Errorf("the next coordinator has it as %v", got)
		}
		r.set(func() { r.mu.held = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = w.coordinator(testID).EndTxn(ctx, testID, p.self, true) // the marker's state is written, but not replicated to all
		r.mu.Lock()
		r.mu.epoch, r.mu.leader = r.mu.epoch+1, 1
		epoch := r.mu.epoch
		r.mu.Unlock()
		w.brokers[1].LeadershipChanged(int32(log), epoch, true)
		synctest.Wait()
		want(t, "while it loads", w.brokers[1].EndTxn(t.Context(), testID, p.self, true), kerr.CoordinatorLoadInProgress)
		_, err := w.brokers[1].List(Filter{OpenFor: -1})
		want(t, "list while it loads", err, kerr.CoordinatorLoadInProgress)
		r.set(func() { r.mu.held = false })
		synctest.Wait()
		if got := w.state(t, testID); got != CompleteCommit {
			t.Errorf("the coordinator after that has it as %v", got)
		}
		want(t, "the commit once more", w.brokers[1].EndTxn(t.Context(), testID, p.self, true), nil)
	})
}

func TestLeadershipGoesOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		self := w.init(t, testID)
		log := int(testID[len(testID)-1]) % worldLogs
		leader, _ := w.leader(logstore.TopicPartition{Topic: Topic, Partition: int32(log)})
		c := w.brokers[leader]
		before := c.mu.shards[int32(log)]
		w.lead(log, leader) // the replicas have changed, which counts as a new epoch
		if c.mu.shards[int32(log)] != before {
			t.Error("a shard that was loaded already was loaded again")
		}
		want(t, "in the new epoch", c.AddPartitions(t.Context(), testID, self, []logstore.TopicPartition{p0}), nil)

		// Another broker leads in between, and this one is not told.
		w.lead(log, (leader+1)%worldBrokers)
		synctest.Wait()
		want(t, "at the other one", w.coordinator(testID).EndTxn(t.Context(), testID, self, true), nil)
		synctest.Wait()
		w.lead(log, leader)
		synctest.Wait()
		if got := w.state(t, testID); got != CompleteCommit {
			t.Errorf("%v, although another coordinator has written since", got)
		}
	})
}

// A coordinator whose last record got lost with its leadership does not take another coordinator's record at the same
// offset for its own.
func TestLostRecordReplaced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.begin(t, testID, p0)
		log := int(testID[len(testID)-1]) % worldLogs
		r := w.logs[log]
		old, _ := w.leader(logstore.TopicPartition{Topic: Topic, Partition: int32(log)})
		r.set(func() { r.mu.held = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(t, "an abort that no follower gets", w.brokers[old].EndTxn(ctx, testID, p.self, false), context.DeadlineExceeded)
		other := (old + 1) % worldBrokers
		r.mu.Lock()
		r.mu.batches = r.mu.batches[:r.mu.high]
		r.mu.Unlock()
		w.lead(log, other)
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(t, "a commit that no follower gets yet", w.brokers[other].EndTxn(ctx, testID, p.self, true), context.DeadlineExceeded)
		r.mu.Lock()
		r.mu.leader, r.mu.epoch = old, r.mu.epoch+1 // with the same log
		epoch := r.mu.epoch
		r.mu.Unlock()
		w.brokers[old].LeadershipChanged(int32(log), epoch, true) // which was not told of what came between
		r.set(func() { r.mu.held = false })
		synctest.Wait()
		if got := w.state(t, testID); got != CompleteCommit {
			t.Errorf("%v, although the log has a commit", got)
		}
	})
}

func TestTimeout(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.begin(t, testID, p0, p1)
		time.Sleep(10*time.Second - time.Millisecond)
		synctest.Wait()
		if got := w.state(t, testID); got != Ongoing {
			t.Fatalf("%v too early", got)
		}
		time.Sleep(2 * worldAbort)
		synctest.Wait()
		d, err := w.coordinator(testID).Describe(testID)
		if err != nil || d.State != CompleteAbort || d.Epoch != p.self.Epoch+1 || len(d.Partitions) != 0 {
			t.Fatalf("after its timeout: %+v, %v", d, err)
		}
		want(t, "its producer ends it", w.coordinator(testID).EndTxn(t.Context(), testID, p.self, true), kerr.ProducerFenced)
		want(t, "its producer writes", (&history{world: w}).produce(p, p0), kerr.ProducerFenced)
		for tp, log := range w.data {
			if log.LastStableOffset() != log.LogEndOffset() {
				t.Errorf("%v: last stable offset %d, log end %d", tp, log.LastStableOffset(), log.LogEndOffset())
			}
		}
	})
}

// TestNextEpochWithinATransaction: a producer that asks for its next epoch while its transaction is open, as after an
// error, has its transaction aborted and continues. The coordinator aborts it with an epoch that the producer never
// gets, and must recognize the producer nevertheless.
func TestNextEpochWithinATransaction(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.begin(t, testID, p0)
		next, err := w.coordinator(testID).InitProducerID(t.Context(), testID, 10*time.Second, &p.self)
		for errors.Is(err, kerr.ConcurrentTransactions) {
			synctest.Wait()
			next, err = w.coordinator(testID).InitProducerID(t.Context(), testID, 10*time.Second, &p.self)
		}
		want(t, "the next epoch", err, nil)
		if next != (Identity{p.self.ID, p.self.Epoch + 2}) {
			t.Errorf("%+v became %+v", p.self, next)
		}
		again, err := w.coordinator(testID).InitProducerID(t.Context(), testID, 10*time.Second, &p.self)
		want(t, "once more", err, nil)
		if again != next {
			t.Errorf("%+v, then %+v", next, again)
		}
		p.self = next
		want(t, "it writes", w.coordinator(testID).AddPartitions(t.Context(), testID, next, []logstore.TopicPartition{p0}), nil)
	})
}

func TestMarkersFollowLeaders(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.begin(t, testID, p0, p1)
		w.setLeader(p1, -1)
		want(t, "commit", w.coordinator(testID).EndTxn(t.Context(), testID, p.self, true), nil)
		synctest.Wait()
		d, err := w.coordinator(testID).Describe(testID)
		if diff := cmp.Diff([]logstore.TopicPartition{p1}, d.Partitions); err != nil || d.State != PrepareCommit || diff != "" {
			t.Fatalf("without a partition leader: %+v, %v", d, err)
		}
		_, err = w.coordinator(testID).InitProducerID(t.Context(), testID, time.Second, nil)
		want(t, "the next incarnation", err, kerr.ConcurrentTransactions)
		w.setLeader(p1, 2)
		synctest.Wait()
		if got := w.state(t, testID); got != CompleteCommit {
			t.Errorf("%v with a partition leader", got)
		}
	})
}

func TestDeletedTopic(t *testing.T) {
	other := logstore.TopicPartition{Topic: "t", Partition: 2}
	for name, change := range map[string]func(w *world){
		"deleted":   func(w *world) { delete(w.mu.leaders, other) },
		"made anew": func(w *world) { w.mu.topics["t"] = topicID{2} },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				p := w.begin(t, testID, other)
				end := w.data[other].LogEndOffset()
				w.mu.Lock()
				change(w)
				w.mu.Unlock()
				want(t, "commit", w.coordinator(testID).EndTxn(t.Context(), testID, p.self, true), nil)
				synctest.Wait()
				if got := w.state(t, testID); got != CompleteCommit {
					t.Errorf("%v", got)
				}
				if got := w.data[other].LogEndOffset(); got != end {
					t.Errorf("the partition got a marker")
				}
			})
		})
	}
}

func TestExpiry(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const count = 10_000 // more than fit into the batches of one round
		for i := range count {
			w.init(t, fmt.Sprintf("unused-%05d-0", i))
		}
		p := w.begin(t, testID, p0) // its producer is active from time to time
		r := w.logs[int(testID[len(testID)-1])%worldLogs]
		c := w.coordinator(testID)
		for range 5 { // until just before the others expire
			want(t, "commit", c.EndTxn(t.Context(), testID, p.self, true), nil)
			time.Sleep(worldKeep/5 - time.Second)
			want(t, "begin", c.AddPartitions(t.Context(), testID, p.self, []logstore.TopicPartition{p0}), nil)
		}
		want(t, "commit", c.EndTxn(t.Context(), testID, p.self, true), nil)
		synctest.Wait()
		r.set(func() { r.mu.few = true })
		time.Sleep(worldExpire + time.Minute) // the tombstones cannot be written
		synctest.Wait()
		r.set(func() { r.mu.few = false })
		if list, err := c.List(Filter{OpenFor: -1}); err != nil || len(list) != count+1 {
			t.Fatalf("%d ids, %v", len(list), err)
		}
		w.init(t, "unused-00000-0") // used again just in time
		time.Sleep(worldExpire)
		synctest.Wait()
		list, err := c.List(Filter{OpenFor: -1})
		slices.SortFunc(list, func(a, b Listing) int { return len(a.ID) - len(b.ID) })
		if err != nil || len(list) != 2 || list[0].ID != testID || list[1].ID != "unused-00000-0" {
			t.Fatalf("left are %v, %v", list, err)
		}
		for _, b := range r.mu.batches {
			if len(b.batch) > (replica{}).MaxBatchBytes() {
				t.Errorf("a batch of %d bytes", len(b.batch))
			}
		}
		if again := w.init(t, "unused-00001-0"); again.Epoch != 0 {
			t.Errorf("a forgotten id continues with epoch %d", again.Epoch)
		}
	})
}

func TestDescribeAndList(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.coordinator("a-0")
		empty := w.init(t, "a-0")
		open := w.begin(t, "b-0", p1, p0)
		began := time.Now().UnixMilli()
		time.Sleep(5 * time.Second)
		got, err := c.Describe("b-0")
		wanted := Description{open.self, Ongoing, 10 * time.Second, began, []logstore.TopicPartition{p0, p1}}
		if diff := cmp.Diff(wanted, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		a, b := Listing{"a-0", empty.ID, Empty}, Listing{"b-0", open.self.ID, Ongoing}
		for _, test := range []struct {
			name   string
			filter Filter
			want   []Listing
		}{
			{"all", Filter{OpenFor: -1}, []Listing{a, b}},
			{"by state", Filter{OpenFor: -1, States: []State{Ongoing, PrepareAbort}}, []Listing{b}},
			{"by no state that exists", Filter{OpenFor: -1, States: []State{}}, nil},
			{"by producer", Filter{OpenFor: -1, Producers: []int64{empty.ID}}, []Listing{a}},
			{"open for long", Filter{OpenFor: time.Hour, States: []State{Ongoing}}, nil},
			{"open for a while", Filter{OpenFor: 4 * time.Second, States: []State{Ongoing}}, []Listing{b}},
		} {
			list, err := c.List(test.filter)
			slices.SortFunc(list, func(a, b Listing) int { return int(a.Producer - b.Producer) })
			if diff := cmp.Diff(test.want, list); diff != "" || err != nil {
				t.Errorf("%s: %s%v", test.name, diff, err)
			}
		}
	})
}

func TestAskAnotherBroker(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.begin(t, testID, p0)
		asker := w.brokers[2]
		var all sync.WaitGroup
		for i := range 50 { // many at once: they share requests, and those for the same id are sent one after the other
			all.Go(func() {
				tp := []logstore.TopicPartition{p0, p1}[i%2]
				missing, err := asker.VerifyAtCoordinator(t.Context(), testID, p.self, []logstore.TopicPartition{tp})
				if err != nil || (missing[tp] == nil) != (tp == p0) {
					t.Errorf("%v: missing %v, %v", tp, missing, err)
				}
			})
		}
		all.Wait()
		missing, err := asker.VerifyAtCoordinator(t.Context(), testID, Identity{p.self.ID, p.self.Epoch + 1}, []logstore.TopicPartition{p0})
		want(t, "another epoch", err, nil)
		want(t, "another epoch", missing[p0], kerr.ProducerFenced)
		w.mu.Lock()
		w.mu.trouble = 1
		w.mu.Unlock()
		_, err = asker.VerifyAtCoordinator(t.Context(), testID, p.self, []logstore.TopicPartition{p0})
		want(t, "no answer", err, kerr.NetworkException)
		r := w.logs[int(testID[len(testID)-1])%worldLogs]
		r.set(func() { r.mu.leader = -1 })
		_, err = asker.VerifyAtCoordinator(t.Context(), testID, p.self, []logstore.TopicPartition{p0})
		want(t, "no coordinator", err, kerr.CoordinatorNotAvailable)
	})
}
