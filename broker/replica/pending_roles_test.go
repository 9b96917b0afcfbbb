package replica

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testwait"
	"barnabas/internal/vfs"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lateBroker is a broker whose log of tp0, which has records, is loading until a test lets it finish.
type lateBroker struct {
	*broker
	gates   *vfs.Gates
	mem     *vfs.Mem
	changes atomic.Int32 // notifications of changed leadership
}

func newLateBroker(t *testing.T, id int32, n *network, values ...string) *lateBroker {
	t.Helper()
	mem := vfs.NewMem(time.Now)
	cfg := logsConfig(id, mem, "/data")
	logs, err := logstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	log, err := logs.GetOrCreate(tp0, [16]byte{7}, cfg.Default, true)
	for _, v := range values {
		if err == nil {
			_, err = log.AppendLeader(batchOf(v), logstore.LeaderAppend{ProduceVersion: 9, LeaderEpoch: 1})
		}
	}
	// Without the clean-shutdown file it is as if the broker had been killed.
	if err := errors.Join(err, logs.Close(), mem.Remove("/data/.kafka_cleanshutdown")); err != nil {
		t.Fatal(err)
	}
	b := &lateBroker{gates: vfs.NewGates(mem), mem: mem}
	b.gates.Shut("/data/" + tp0.String())
	t.Cleanup(b.letGo)
	cfg.FS = b.gates
	cfg.OnLoaded = func(tp logstore.TopicPartition) { b.Loaded(tp) }
	if logs, err = logstore.Begin(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	b.broker = newBrokerOver(t, id, n, logs, cfg)
	b.changed = func() { b.changes.Add(1) }
	return b
}

func (b *lateBroker) letGo() { b.gates.Open("/data/" + tp0.String()) }

// hosts reports whether the partition is hosted and has its role, which it gets a moment later.
func (b *lateBroker) hosts() bool {
	p, ok := b.Partition(tp0)
	return ok && len(p.State().Replicas) > 0
}

// TestRoleWaitsForTheLog: LeaderAndIsr requests for a partition whose log is still being loaded are answered at once,
// the last of them applies, and the partition is not hosted until the log is loaded.
func TestRoleWaitsForTheLog(t *testing.T) {
	b := newLateBroker(t, 1, &network{brokers: map[int32]*broker{}}, "a", "b")
	for _, step := range []struct {
		epoch int32
		want  error
	}{{5, nil}, {5, errSameEpoch}, {4, kerr.StaleControllerEpoch}, {6, nil}} {
		if err := b.assign(t, 1, step.epoch, []int32{1}, []int32{1}); !errors.Is(err, step.want) {
			t.Errorf("leader epoch %d: %v, want %v", step.epoch, err, step.want)
		}
	}
	if b.hosts() || b.changes.Load() != 0 || b.HostedEpoch(tp0) != 6 {
		t.Errorf("hosted %v, %d changes, epoch %d", b.hosts(), b.changes.Load(), b.HostedEpoch(tp0))
	}
	if dropped, err := b.DropStray(tp0, NotHosted, [16]byte{}, NotHosted); dropped || err != nil {
		t.Errorf("treated as stray: %v %v", dropped, err)
	}
	if err := b.MoveTo(tp0, "/data"); !errors.Is(err, kerr.ReplicaNotAvailable) {
		t.Errorf("move: %v", err)
	}
	b.letGo()
	testwait.Until(t, "it leads", b.hosts)
	p, _ := b.Partition(tp0)
	if s := p.State(); s.Role != Leader || s.LeaderEpoch != 6 || !slices.Equal(content(t, p.Log()), []string{"0=a", "1=b"}) || b.changes.Load() != 1 {
		t.Errorf("%+v, %v, %d changes", s, content(t, p.Log()), b.changes.Load())
	}
	appendTo(t, p, "c")
	if epoch, ok := p.Log().LatestEpoch(); !ok || epoch != 6 || p.Log().HighWatermark() != 3 {
		t.Errorf("epoch %d, high watermark %d", epoch, p.Log().HighWatermark())
	}
}

// TestNothingIsCutWhileTheLeaderLoads: a follower that fetches from a leader whose log is not loaded yet keeps its
// records, and continues when the log is loaded.
func TestNothingIsCutWhileTheLeaderLoads(t *testing.T) {
	asked := make(chan struct{}, 100)
	n := &network{brokers: map[int32]*broker{}, answered: func(*kmsg.FetchResponse) {
		select {
		case asked <- struct{}{}:
		default:
		}
	}}
	leader := newLateBroker(t, 1, n, "a", "b")
	follower := newBroker(t, 2, n)
	replicas := []int32{1, 2}
	f := follower.must(t, 1, 1, replicas, replicas)
	batch := record.Batch(batchOf("a"))
	batch.SetLeaderEpoch(1)
	if _, err := f.Log().AppendFollower(batch); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*broker{leader.broker, follower} {
		if err := b.assign(t, 1, 2, replicas, replicas); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		<-asked
	}
	if got := content(t, f.Log()); !slices.Equal(got, []string{"0=a"}) {
		t.Errorf("while the leader loads the follower has %v", got)
	}
	leader.letGo()
	testwait.Until(t, "the follower has everything", func() bool { return f.Log().LogEndOffset() == 2 })
	p, _ := leader.Partition(tp0)
	testwait.Until(t, "the high watermark covers it", func() bool { return p.Log().HighWatermark() == 2 })
	if got := content(t, f.Log()); !slices.Equal(got, []string{"0=a", "1=b"}) {
		t.Errorf("the follower has %v", got)
	}
}

// TestFollowerIsNotInSyncWhileItLoads: the leader continues without a follower that is loading, and takes it back into
// the ISR when it has caught up.
func TestFollowerIsNotInSyncWhileItLoads(t *testing.T) {
	n := &network{brokers: map[int32]*broker{}}
	late := newLateBroker(t, 2, n, "a")
	leader := newBroker(t, 1, n)
	replicas := []int32{1, 2}
	p := leader.must(t, 1, 1, replicas, []int32{1})
	appendTo(t, p, "a")
	appendTo(t, p, "b")
	if err := late.assign(t, 1, 1, replicas, []int32{1}); err != nil {
		t.Fatal(err)
	}
	appendTo(t, p, "c")
	if s := p.State(); !slices.Equal(s.ISR, []int32{1}) || p.Log().HighWatermark() != 3 || p.FollowerEnds()[2] != -1 {
		t.Errorf("in sync %v, high watermark %d, follower at %v", s.ISR, p.Log().HighWatermark(), p.FollowerEnds())
	}
	late.letGo()
	testwait.Until(t, "both are in sync", func() bool { return len(p.State().ISR) == 2 })
	f, _ := late.Partition(tp0)
	if got := content(t, f.Log()); !slices.Equal(got, []string{"0=a", "1=b", "2=c"}) {
		t.Errorf("the follower has %v", got)
	}
}

// TestReplicasChangeWhileTheLogIsLoaded without a new leader epoch (see TestReplicasChangeWithoutALeaderEpoch).
func TestReplicasChangeWhileTheLogIsLoaded(t *testing.T) {
	b := newLateBroker(t, 1, &network{brokers: map[int32]*broker{}}, "a")
	if err := b.assign(t, 1, 5, both, []int32{1}); err != nil {
		t.Fatal(err)
	}
	if err := b.assign(t, 1, 5, []int32{1}, []int32{1}); !errors.Is(err, errSameEpoch) {
		t.Error(err)
	}
	b.letGo()
	testwait.Until(t, "it is served", b.hosts)
	p, _ := b.Partition(tp0)
	if got := p.State().Replicas; !slices.Equal(got, []int32{1}) {
		t.Errorf("replicas %v", got)
	}
}

func TestStopWhileTheLogIsLoaded(t *testing.T) {
	b := newLateBroker(t, 1, &network{brokers: map[int32]*broker{}}, "a")
	stop := func(epoch int32, remove bool) error {
		errs, err := b.StopReplicas(1, []Stop{{tp0, epoch, remove}})
		return errors.Join(err, errors.Join(errs...))
	}
	if err := errors.Join(b.assign(t, 1, 5, []int32{1}, []int32{1}), stop(6, false)); err != nil {
		t.Fatal(err)
	}
	b.letGo()
	testwait.Until(t, "the log is there", func() bool { _, ok := b.cfg.Logs.Log(tp0); return ok })
	if b.hosts() {
		t.Error("it is served although it was stopped")
	}
	if p := b.must(t, 1, 7, []int32{1}, []int32{1}); !slices.Equal(content(t, p.Log()), []string{"0=a"}) {
		t.Errorf("it is served again with %v", content(t, p.Log()))
	}
}

func TestDeleteWhileTheLogIsLoaded(t *testing.T) {
	b := newLateBroker(t, 1, &network{brokers: map[int32]*broker{}}, "a")
	if err := b.assign(t, 1, 5, []int32{1}, []int32{1}); err != nil {
		t.Fatal(err)
	}
	if errs, err := b.StopReplicas(1, []Stop{{tp0, 4, true}}); err != nil || !errors.Is(errs[0], kerr.FencedLeaderEpoch) {
		t.Errorf("of an older leader epoch: %v %v", errs, err)
	}
	done := make(chan error)
	go func() {
		errs, err := b.StopReplicas(1, []Stop{{tp0, -2, true}})
		done <- errors.Join(err, errors.Join(errs...))
	}()
	b.letGo()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if p := b.must(t, 1, 0, []int32{1}, []int32{1}); len(content(t, p.Log())) != 0 {
		t.Errorf("the next partition of that name has %v", content(t, p.Log()))
	}
}

// TestLogIsLostWhileLoading: the disk fails after the controller got a successful response.
func TestLogIsLostWhileLoading(t *testing.T) {
	b := newLateBroker(t, 1, &network{brokers: map[int32]*broker{}}, "a")
	if err := b.assign(t, 1, 5, []int32{1}, []int32{1}); err != nil {
		t.Fatal(err)
	}
	b.mem.SetFault(func(_, name string) error {
		if strings.HasPrefix(name, "/data/"+tp0.String()) {
			return syscall.EIO
		}
		return nil
	})
	b.letGo()
	testwait.Until(t, "the controller is to ask", func() bool { return b.asked.Load() == 1 })
	state := kmsg.NewLeaderAndISRRequestTopicPartition()
	state.Leader, state.LeaderEpoch, state.Replicas, state.ISR = 1, 5, []int32{1}, []int32{1}
	errs, err := b.ApplyLeaderAndISR(1, []Assignment{{TP: tp0, Topic: [16]byte{7}, State: &state}}, nil)
	if err != nil || !errors.Is(errs[0], kerr.KafkaStorageError) || b.hosts() {
		t.Errorf("after asking: %v %v", errs, err)
	}
}
