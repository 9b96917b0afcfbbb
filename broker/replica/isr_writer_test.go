package replica

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/testlog"
	"barnabas/logstore"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

// isrTable is an ISRStore that checks nothing but versions.
type isrTable struct {
	mu       sync.Mutex
	writes   []ISRWrite
	reported [][]logstore.TopicPartition
	conflict bool
	fail     func() error // result of the next write; nil: it succeeds
}

func (s *isrTable) WriteISR(_ context.Context, w ISRWrite) (int32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, w)
	if fail := s.fail; fail != nil {
		s.fail = nil
		return 0, fail()
	}
	if s.conflict {
		return 0, kerr.InvalidUpdateVersion
	}
	return w.PartitionEpoch + 1, nil
}

func (s *isrTable) NotifyISRChange(_ context.Context, changed []logstore.TopicPartition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reported = append(s.reported, changed)
	return nil
}

// proposing returns a leader of t-0 with an ISR change in progress.
func proposing(isr ...int32) (*Partition, *isrChange) {
	p := &Partition{TP: tp0, env: &environment{counts: new(counts), brokerID: 1, stored: anotherEpoch}}
	p.mu.role, p.mu.leaderEpoch, p.mu.partitionEpoch = Leader, 4, 7
	p.mu.replicas = []int32{1, 2, 3}
	c := &isrChange{partition: p, controllerEpoch: 2, leaderEpoch: 4, partitionEpoch: 7, isr: isr}
	p.mu.isr = isrState{committed: []int32{1}, pending: c}
	return p, c
}

func TestISRWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &isrTable{conflict: true}
		w := newISRWriter(1, table, time.Now, testlog.Quiet())
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { w.run(ctx) })

		p, c := proposing(1, 2)
		w.submit(c)
		synctest.Wait()
		if p.mu.isr.pending == nil || len(table.reported) != 0 {
			t.Errorf("lost race: ISR %+v, reports %v; want it to wait for the controller", p.mu.isr, table.reported)
		}
		want := []ISRWrite{{TP: tp0, Leader: 1, LeaderEpoch: 4, ISR: []int32{1, 2}, ControllerEpoch: 2, PartitionEpoch: 7}}
		if diff := cmp.Diff(want, table.writes); diff != "" {
			t.Error(diff)
		}
		cancel()
		ended.Wait()
	})
}

// TestISRWriterAmidALeaderAndISR is TestISRChangeAmidALeaderAndISR for a leader that writes the ISR to ZooKeeper
// itself.
func TestISRWriterAmidALeaderAndISR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, first := proposing(1, 2)
		second := &isrChange{partition: p, controllerEpoch: 3, leaderEpoch: 5, partitionEpoch: 9, isr: []int32{1, 3}}
		table := &isrTable{conflict: true}
		w := newISRWriter(1, table, time.Now, testlog.Quiet())
		table.fail = func() error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.mu.leaderEpoch, p.mu.partitionEpoch, p.mu.isr.pending = second.leaderEpoch, second.partitionEpoch, second
			w.submit(second)
			return errors.New("connection lost")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { w.run(ctx) })
		w.submit(first)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(table.writes) != 2 || !slices.Equal(table.writes[1].ISR, second.isr) {
			t.Errorf("wrote %+v", table.writes)
		}
		cancel()
		ended.Wait()
	})
}

// TestISRWriterOfADeletedTopic: the state of a deleted topic cannot be written any more, and the writer gives it up.
func TestISRWriterOfADeletedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := proposing(1, 2)
		table := &isrTable{}
		var fail func() error
		fail = func() error { table.fail = fail; return errors.New("no such topic") }
		table.fail = fail
		w := newISRWriter(1, table, time.Now, testlog.Quiet())
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { w.run(ctx) })
		w.submit(c)
		time.Sleep(time.Second)
		synctest.Wait()
		p.goOffline()
		before := len(table.writes)
		time.Sleep(time.Second)
		synctest.Wait()
		if before < 2 || len(table.writes) != before {
			t.Errorf("%d writes while the topic existed, %d afterwards", before, len(table.writes)-before)
		}
		cancel()
		ended.Wait()
	})
}

func TestISRReports(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	r := isrReports{changed: make(map[logstore.TopicPartition]struct{}), lastReport: start}
	if _, ok := r.due(); ok {
		t.Error("due without a change")
	}
	r.note(tp0, at(10))
	if due, ok := r.due(); !ok || !due.Equal(at(15)) {
		t.Errorf("after a change: due at %v", due)
	}
	r.note(logstore.TopicPartition{Topic: "s"}, at(13))
	if due, _ := r.due(); !due.Equal(at(18)) {
		t.Errorf("after another one: due at %v", due)
	}
	r.note(tp0, at(58))
	if due, _ := r.due(); !due.Equal(at(60)) {
		t.Errorf("changes for a minute: due at %v", due)
	}
	if got := r.take(at(60)); !slices.Equal(got, []logstore.TopicPartition{{Topic: "s"}, tp0}) {
		t.Errorf("reported %v", got)
	}
	if _, ok := r.due(); ok {
		t.Error("due after the report")
	}
}
