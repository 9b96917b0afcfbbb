package replica

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/seeds"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var seedFlag = flag.Uint64("seed", 0, "run the model test with this seed only")

// TestISRModel lets a leader change its ISR while requests and responses get lost, controllers come and go, the
// leadership moves, followers lag, restart and lose records that another leader does not have, and somebody else writes
// the state. The high watermark never passes what every in-sync replica has, what was acknowledged stays there however
// late a request checks, and once all is calm, all replicas get in sync.
func TestISRModel(t *testing.T) {
	first, count := uint64(1), seeds.Count(t, 300, 100)
	if *seedFlag != 0 {
		first, count = *seedFlag, 1
	}
	for seed := first; seed < first+count; seed++ {
		for _, direct := range []bool{false, true} {
			runISRModel(t, seed, direct)
		}
	}
}

func runISRModel(t *testing.T, seed uint64, direct bool) {
	t.Run(fmt.Sprintf("seed=%d/direct=%v", seed, direct), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newISRWorld(t, seed, direct)
			defer func() {
				if t.Failed() {
					t.Log(strings.Join(w.trace[max(0, len(w.trace)-80):], "\n"))
				}
			}()
			for range 150 {
				w.step()
			}
			w.settle()
		})
	})
}

const isrLag = 200 * time.Millisecond // replica.lag.time.max.ms

// isrWorld is a cluster of three brokers of which only the first one is real. It runs on the test's goroutine; the
// broker's own goroutines are waiting while it runs.
type isrWorld struct {
	*testing.T
	rng    *rand.Rand
	b      *broker
	p      *Partition
	direct bool // the leader writes the ISR itself
	trace  []string

	stored      isrStored
	controllers []*isrController // the last one is the active controller; the others do not know yet that they were deposed
	replicas    map[int32]*isrReplica
	records     int
	waiting     []isrProduced
	abandoned   []*isrRequest // requests whose sender has given up, but which may still arrive

	mu struct {
		sync.Mutex // between the test's goroutine and the broker's sender
		open       *isrRequest
	}
	over chan struct{}
}

// isrStored is the partition's state in ZooKeeper.
type isrStored struct {
	leader, epoch   int32
	isr             []int32
	version         int32
	controllerEpoch int32
}

func (s isrStored) with(change func(*isrStored)) isrStored {
	s.isr = slices.Clone(s.isr)
	change(&s)
	return s
}

// isrController is a controller that knows the state as of its last read or write, and has yet to send some states to
// the real broker.
type isrController struct {
	epoch int32
	knows isrStored
	told  []isrStored
}

// isrReplica is one of the replicas. The real replica's log is recorded here, too.
type isrReplica struct {
	alive       bool
	brokerEpoch int64
	leaderEpoch int32 // the newest that it has been told
	log         []int // each record is different
}

// isrProduced is a record whose request waits for all in-sync replicas.
type isrProduced struct {
	record      int
	leaderEpoch int32
	end         int64
}

// isrRequest is an ISR change in progress.
type isrRequest struct {
	leaderEpoch, partitionEpoch int32
	isr                         []int32
	epochs                      []int64
	answer                      chan isrOutcome
	result                      *isrOutcome // set once it has been handled
}

type isrOutcome struct {
	err   error // of the partition
	lost  bool
	state isrStored
}

func newISRWorld(t *testing.T, seed uint64, direct bool) *isrWorld {
	w := &isrWorld{T: t, rng: rand.New(rand.NewPCG(seed, 0)), direct: direct, over: make(chan struct{}), replicas: make(map[int32]*isrReplica)}
	for id := int32(1); id <= 3; id++ {
		w.replicas[id] = &isrReplica{alive: true, brokerEpoch: 100 + int64(id)}
	}
	n := &network{brokers: map[int32]*broker{}}
	if direct {
		n.isrs = isrWorldStore{w}
	}
	w.b = newBroker(t, 1, n)
	w.b.Manager.env.stored = w.read
	w.b.lag.Store(int64(isrLag))
	w.b.minInSync = 1 + w.rng.IntN(2)
	w.b.controller.mu.Lock()
	w.b.controller.answer = w.alterPartition
	w.b.controller.mu.Unlock()
	t.Cleanup(func() { close(w.over) }) // runs before the broker is closed
	w.stored = isrStored{leader: 1, isr: []int32{1, 2, 3}, controllerEpoch: 1}
	beforeTopic := &isrController{knows: isrStored{version: -1}}
	w.controllers = []*isrController{beforeTopic, {epoch: 1, knows: w.stored, told: []isrStored{w.stored}}}
	w.tell(w.controller())
	w.p, _ = w.b.Partition(tp0)
	return w
}

func (w *isrWorld) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *isrWorld) controller() *isrController { return w.controllers[len(w.controllers)-1] }

// await passes a change to the test and waits for its result.
func (w *isrWorld) await(r *isrRequest) isrOutcome {
	r.answer = make(chan isrOutcome, 1)
	w.mu.Lock()
	w.mu.open = r
	w.mu.Unlock()
	select {
	case out := <-r.answer:
		return out
	case <-w.over:
		return isrOutcome{lost: true}
	}
}

func (w *isrWorld) open() *isrRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.open
}

// alterPartition passes the leader's request on to a controller.
func (w *isrWorld) alterPartition(req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	asked := req.Topics[0].Partitions[0]
	r := &isrRequest{leaderEpoch: asked.LeaderEpoch, partitionEpoch: asked.PartitionEpoch}
	for _, member := range asked.NewEpochISR {
		r.isr, r.epochs = append(r.isr, member.BrokerID), append(r.epochs, member.BrokerEpoch)
	}
	out := w.await(r)
	resp := accept(req)
	if out.lost {
		return &kmsg.AlterPartitionResponse{ErrorCode: kerr.NotController.Code}
	}
	answer := &resp.Topics[0].Partitions[0]
	answer.ISR, answer.LeaderID, answer.LeaderEpoch, answer.PartitionEpoch = out.state.isr, out.state.leader, out.state.epoch, out.state.version
	if out.err != nil {
		answer.ErrorCode = codeOf(out.err)
	}
	return resp
}

// isrWorldStore is the ISRStore of a leader that writes the ISR itself.
type isrWorldStore struct{ w *isrWorld }

func (s isrWorldStore) WriteISR(_ context.Context, write ISRWrite) (int32, error) {
	out := s.w.await(&isrRequest{leaderEpoch: write.LeaderEpoch, partitionEpoch: write.PartitionEpoch, isr: write.ISR})
	if out.lost {
		return 0, errors.New("no answer")
	}
	return out.state.version, out.err
}

func (isrWorldStore) NotifyISRChange(context.Context, []logstore.TopicPartition) error { return nil }

// handle decides about a change, as a controller or as ZooKeeper.
func (w *isrWorld) handle(r *isrRequest, at *isrController) *isrOutcome {
	out := &isrOutcome{}
	switch {
	case w.direct:
		if out.err = w.write(r.partitionEpoch, isrStored{leader: 1, epoch: r.leaderEpoch, isr: r.isr, controllerEpoch: w.stored.controllerEpoch}); out.err == nil {
			out.state = w.stored
		}
	default:
		out.err = w.check(r, at.knows)
		if out.err == nil {
			next := at.knows.with(func(s *isrStored) { s.isr, s.controllerEpoch = r.isr, at.epoch })
			if at != w.controller() || w.write(r.partitionEpoch, next) != nil {
				w.depose(at) // it learns that it was deposed
				return &isrOutcome{lost: true}
			}
			at.knows = w.stored
		}
		if errors.Is(out.err, errAsItIs) {
			out.err = nil
		}
		out.state = at.knows
	}
	return out
}

var errAsItIs = errors.New("as it is")

// check is the controller's decision (see controller.model.checkISRChange).
func (w *isrWorld) check(r *isrRequest, now isrStored) error {
	switch {
	case now.version < 0:
		return kerr.UnknownTopicID
	case r.partitionEpoch > now.version || r.leaderEpoch > now.epoch:
		return kerr.NotController
	case r.leaderEpoch < now.epoch:
		return kerr.FencedLeaderEpoch
	case slices.Equal(r.isr, now.isr):
		return errAsItIs
	case r.partitionEpoch < now.version:
		return kerr.InvalidUpdateVersion
	}
	for i, id := range r.isr {
		if m := w.replicas[id]; !m.alive || r.epochs[i] >= 0 && r.epochs[i] != m.brokerEpoch {
			return kerr.IneligibleReplica
		}
	}
	return nil
}

func (w *isrWorld) write(version int32, s isrStored) error {
	if w.stored.version != version {
		return kerr.InvalidUpdateVersion
	}
	s.version = version + 1
	w.stored = s
	w.logf("  stored %+v", s)
	return nil
}

// read returns the partition's state to the broker's sender.
func (w *isrWorld) read(context.Context, logstore.TopicPartition) (StoredState, error) {
	s := w.stored
	return StoredState{s.leader, s.epoch, s.version, slices.Clone(s.isr)}, nil
}

// meddle lets somebody who is no controller write the state while the real broker leads, perhaps with fewer in-sync
// replicas.
func (w *isrWorld) meddle(id int32) {
	if w.stored.leader != 1 {
		return
	}
	next := w.stored.with(func(s *isrStored) {
		s.isr = slices.DeleteFunc(s.isr, func(one int32) bool { return one == id && w.rng.IntN(2) == 0 })
	})
	w.must(w.write(w.stored.version, next))
	w.controller().knows = w.stored
}

func (w *isrWorld) depose(c *isrController) {
	w.controllers = slices.DeleteFunc(w.controllers, func(one *isrController) bool { return one == c && c != w.controller() })
}

// lead writes the next leader epoch, as the controller does.
func (w *isrWorld) lead(leader int32, isr []int32) {
	c := w.controller()
	if leader > 1 { // it has nothing that the real broker never had
		w.replicas[leader].log = common(w.replicas[leader].log, w.replicas[1].log)
	}
	next := isrStored{leader: leader, epoch: w.stored.epoch + 1, isr: isr, controllerEpoch: c.epoch}
	_ = w.write(w.stored.version, next)
	c.knows = w.stored
	c.told = append(c.told, w.stored)
}

func common(a, b []int) []int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return slices.Clone(a[:n])
}

// tell delivers a controller's next LeaderAndIsr request to the real broker.
func (w *isrWorld) tell(c *isrController) {
	if len(c.told) == 0 {
		return
	}
	s := c.told[0]
	c.told = c.told[1:]
	state := kmsg.NewLeaderAndISRRequestTopicPartition()
	state.Leader, state.LeaderEpoch, state.ISR, state.ZKVersion, state.ControllerEpoch = s.leader, s.epoch, s.isr, s.version, s.controllerEpoch
	state.Replicas, state.IsNew = []int32{1, 2, 3}, true
	errs, err := w.b.ApplyLeaderAndISR(c.epoch, []Assignment{{TP: tp0, Topic: [16]byte{7}, State: &state}}, nil)
	w.logf("  LeaderAndIsr %+v: %v %v", s, errs, err)
	if w.p == nil || err != nil || errs[0] != nil || s.leader == 1 {
		return
	}
	if s.leader > 1 && s.epoch == w.stored.epoch { // the real broker is a follower
		kept := common(w.replicas[1].log, w.replicas[s.leader].log)
		w.must(w.p.cut(int64(len(kept))))
		w.replicas[1].log = kept
	}
}

func (w *isrWorld) must(err error) {
	if err != nil {
		w.Fatal(err)
	}
}

// hear tells a broker about the current leader. If both are followers' brokers that know of it, the follower copies the
// leader's log.
func (w *isrWorld) hear(id int32) {
	f, leader := w.replicas[id], w.replicas[w.stored.leader]
	if leader == nil {
		return
	}
	f.leaderEpoch = w.stored.epoch
	if w.stored.leader > 1 && leader.leaderEpoch == w.stored.epoch {
		f.log = slices.Clone(leader.log)
	}
}

// fetch lets a follower fetch from the real broker, and truncates its log to that broker's.
func (w *isrWorld) fetch(id int32) {
	f := w.replicas[id]
	if !f.alive || w.p.Check(f.leaderEpoch, true) != nil {
		return
	}
	f.log = common(f.log, w.replicas[1].log)
	v, err := w.p.Read(Reader{Replica: id, BrokerEpoch: f.brokerEpoch, Isolation: ReadToEnd, LeaderOnly: true},
		Position{f.leaderEpoch, noEpoch, int64(len(f.log)), 0, 1 << 20, true, [16]byte{}})
	w.must(err)
	v.Records.Close()
	f.log = slices.Clone(w.replicas[1].log[:v.Limit])
}

func (w *isrWorld) append() {
	info, err := w.p.Append(batchOf("v"), false, logstore.LeaderAppend{ProduceVersion: 9})
	if err != nil {
		return
	}
	w.records++
	w.replicas[1].log = append(w.replicas[1].log, w.records)
	w.waiting = append(w.waiting, isrProduced{w.records, info.LeaderEpoch, info.LastOffset + 1})
}

// acknowledge answers some of the requests that wait, whenever they happen to check. All in-sync replicas must have the
// records that are acknowledged.
func (w *isrWorld) acknowledge() {
	w.waiting = slices.DeleteFunc(w.waiting, func(r isrProduced) bool {
		if w.rng.IntN(2) == 0 {
			return false
		}
		done, err := w.p.Replicated(r.leaderEpoch, r.end)
		if !done {
			return err != nil
		}
		for _, id := range w.stored.isr {
			if log := w.replicas[id].log; int64(len(log)) < r.end || log[r.end-1] != r.record {
				w.Errorf("record %d is acknowledged at offset %d, but replica %d of the ISR %v does not have it", r.record, r.end-1, id, w.stored.isr)
			}
		}
		return true
	})
}

// kill stops a follower's broker, unless the other one is down; revive registers it again.
func (w *isrWorld) kill(id int32) {
	if f := w.replicas[id]; !f.alive || !w.replicas[5-id].alive {
		return
	}
	w.replicas[id].alive = false
	w.b.gone.Store(id)
	w.b.LiveBrokersChanged()
	w.dropDead()
}

// dropDead lets the controller remove dead brokers as leaders, from the ISR, or both.
func (w *isrWorld) dropDead() {
	dead := func(id int32) bool { return id > 0 && !w.replicas[id].alive }
	leader, isr := w.stored.leader, slices.DeleteFunc(slices.Clone(w.stored.isr), dead)
	if len(isr) == 0 {
		isr = w.stored.isr
	}
	if dead(leader) || leader < 0 {
		if leader = isr[w.rng.IntN(len(isr))]; dead(leader) {
			leader = -1
		}
	}
	if leader != w.stored.leader || len(isr) < len(w.stored.isr) {
		w.lead(leader, isr)
	}
}

func (w *isrWorld) revive(id int32) {
	f := w.replicas[id]
	if f.alive {
		return
	}
	f.alive = true
	f.brokerEpoch += 10
	f.leaderEpoch = -1
	w.b.gone.Store(0)
	w.b.LiveBrokersChanged()
	w.dropDead() // there may have been no leader
}

// elected elects another controller.
func (w *isrWorld) elected() {
	c := &isrController{epoch: w.controller().epoch + 1, knows: w.stored, told: []isrStored{w.stored}}
	w.controllers = append(w.controllers, c)
}

// otherLeads lets a leader other than the real broker change the ISR.
func (w *isrWorld) otherLeads() {
	leader := w.stored.leader
	if leader < 2 || w.replicas[leader].leaderEpoch != w.stored.epoch {
		return
	}
	isr := []int32{leader}
	for id := int32(1); id <= 3; id++ {
		r := w.replicas[id]
		follows := r.leaderEpoch == w.stored.epoch
		if id == 1 {
			state := w.p.State()
			follows = state.Role == Follower && state.LeaderEpoch == w.stored.epoch
		}
		if id != leader && r.alive && follows && slices.Equal(r.log, w.replicas[leader].log) && w.rng.IntN(4) > 0 {
			isr = append(isr, id)
		}
	}
	if slices.Equal(isr, w.stored.isr) {
		return
	}
	w.must(w.write(w.stored.version, w.stored.with(func(s *isrStored) { s.isr = isr })))
	w.controller().knows = w.stored
}

// answered completes the pending request.
func (w *isrWorld) answered(r *isrRequest, out isrOutcome) {
	w.mu.Lock()
	w.mu.open = nil
	w.mu.Unlock()
	r.answer <- out
}

// handOver delivers the leader's pending request or its response, or loses either.
func (w *isrWorld) handOver() {
	r := w.open()
	if r == nil {
		return
	}
	switch lost := w.rng.IntN(3) == 0; {
	case lost && r.result == nil:
		w.logf("  lost %+v", *r)
		if !w.direct {
			w.abandoned = append(w.abandoned, r)
		}
		w.answered(r, isrOutcome{lost: true})
	case r.result == nil:
		r.result = w.handle(r, w.controllers[w.rng.IntN(len(w.controllers))])
		w.logf("  asked for %v in epochs %d/%d: %+v", r.isr, r.leaderEpoch, r.partitionEpoch, *r.result)
	case lost && !w.direct: // with ZooKeeper the client reads back whether it was written
		w.answered(r, isrOutcome{lost: true})
	default:
		w.answered(r, *r.result)
	}
}

func (w *isrWorld) handleAbandoned() {
	if len(w.abandoned) == 0 {
		return
	}
	i := w.rng.IntN(len(w.abandoned))
	r := w.abandoned[i]
	w.abandoned = slices.Delete(w.abandoned, i, i+1)
	w.logf("  late: %v in epochs %d/%d: %+v", r.isr, r.leaderEpoch, r.partitionEpoch, *w.handle(r, w.controller()))
}

// stop lets the controller send StopReplica to the real broker, whose replica is out of sync and about to be removed
// from the partition. Before the removal is written, another controller takes over, which knows nothing of it.
func (w *isrWorld) stop() {
	if w.stored.leader == 1 || slices.Contains(w.stored.isr, 1) {
		return
	}
	c := w.controller()
	for len(c.told) > 0 {
		w.tell(c)
	}
	_, _ = w.b.StopReplicas(c.epoch, []Stop{{TP: tp0, LeaderEpoch: w.stored.epoch}})
	w.elected()
}

func (w *isrWorld) step() {
	follower := 2 + w.rng.Int32N(2)
	actions := []struct {
		name   string
		weight int
		do     func()
	}{
		{"append", 6, w.append},
		{"fetch", 16, func() { w.fetch(follower) }},
		{"acknowledge", 4, w.acknowledge},
		{"hear", 12, func() { w.hear(follower) }},
		{"request", 16, w.handOver},
		{"late request", 2, w.handleAbandoned},
		{"tell", 10, func() { w.tell(w.controllers[w.rng.IntN(len(w.controllers))]) }},
		{"pass", 8, func() { time.Sleep(time.Duration(w.rng.IntN(150)) * time.Millisecond) }},
		{"elected", 2, w.elected},
		{"deposed", 2, func() { w.depose(w.controllers[0]) }},
		{"same leader", 1, func() { w.lead(w.stored.leader, w.stored.isr) }},
		{"another leader", 2, func() {
			if to := w.stored.isr[w.rng.IntN(len(w.stored.isr))]; w.replicas[to].alive {
				w.lead(to, w.stored.isr)
			}
		}},
		{"other leads", 6, w.otherLeads},
		{"kill", 1, func() { w.kill(follower) }},
		{"revive", 3, func() { w.revive(follower) }},
		{"stop", 1, w.stop},
		{"meddle", 1, func() { w.meddle(follower) }},
	}
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	at := w.rng.IntN(total)
	for _, a := range actions {
		if at -= a.weight; at < 0 {
			w.logf("%s %d", a.name, follower)
			a.do()
			break
		}
	}
	synctest.Wait()
	w.verify()
}

// verify checks that every in-sync replica has what is below the high watermark.
func (w *isrWorld) verify() {
	log := w.p.Log()
	if end := log.LogEndOffset(); end != int64(len(w.replicas[1].log)) {
		w.Fatalf("the log ends at %d, the model's at %d", end, len(w.replicas[1].log))
	}
	for _, id := range w.stored.isr {
		if has := int64(len(common(w.replicas[id].log, w.replicas[1].log))); has < log.HighWatermark() {
			w.Fatalf("high watermark %d, but replica %d of the ISR %v has %d records", log.HighWatermark(), id, w.stored.isr, has)
		}
	}
}

// settle requires that all replicas get in sync while the real broker is the leader.
func (w *isrWorld) settle() {
	w.logf("calm")
	w.controllers, w.abandoned = w.controllers[len(w.controllers)-1:], nil
	for range 40 {
		w.calmRound()
	}
	w.p.mu.RLock()
	pending := w.p.mu.isr.pending
	w.p.mu.RUnlock()
	state := w.p.State()
	slices.Sort(state.ISR)
	if pending != nil || w.open() != nil || state.Role != Leader || !slices.Equal(state.ISR, []int32{1, 2, 3}) ||
		w.p.Log().HighWatermark() != w.p.Log().LogEndOffset() {
		w.Fatalf("not settled: %+v, pending %+v, stored %+v, high watermark %d, end %d", state, pending, w.stored,
			w.p.Log().HighWatermark(), w.p.Log().LogEndOffset())
	}
}

func (w *isrWorld) calmRound() {
	for id := int32(2); id <= 3; id++ {
		w.revive(id)
	}
	for c := w.controller(); len(c.told) > 0; {
		w.tell(c)
	}
	if w.stored.leader != 1 && slices.Contains(w.stored.isr, 1) {
		w.lead(1, w.stored.isr)
	}
	for id := int32(2); id <= 3; id++ {
		w.hear(id)
		w.fetch(id)
	}
	w.otherLeads()
	w.append()
	for id := int32(2); id <= 3; id++ {
		w.fetch(id)
		w.fetch(id)
	}
	synctest.Wait()
	for r := w.open(); r != nil; r = w.open() {
		if r.result == nil {
			r.result = w.handle(r, w.controller())
		}
		w.logf("  asked for %v in epochs %d/%d: %+v", r.isr, r.leaderEpoch, r.partitionEpoch, *r.result)
		w.answered(r, *r.result)
		synctest.Wait()
	}
	time.Sleep(isrRetryDelay)
	synctest.Wait()
	w.verify()
}
