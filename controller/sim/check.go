package sim

import (
	"maps"
	"slices"
	"time"

	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// retrySoon is longer than the controller's pause before a retry, and shorter than its interval between checks of the
// balance of leaders.
const retrySoon = 2 * time.Second

// leadership is one leader epoch of a partition.
type leadership struct {
	tp    topicPartition
	topic zkcoord.ID
	epoch int32
}

// checks is what has been observed so far.
type checks struct {
	zxid            int64
	controllerEpoch int32
	states          map[topicPartition]seenState
	written         map[version]zkcoord.PartitionState
	leaders         map[leadership]int32 // according to the roles that brokers assumed
	unclean         map[string]bool      // topics that may have lost records
	uncleanAsked    int                  // pending unclean elections of all topics
	acked           map[leadership][]int // numbers, in order; the epoch is 0
	partitions      map[zkcoord.ID]int   // number of partitions of a topic
}

// version is one that a partition's state has, or had, in ZooKeeper.
type version struct {
	tp    topicPartition
	topic zkcoord.ID
	epoch int32 // of the partition
}

type seenState struct {
	topic zkcoord.ID
	zkcoord.PartitionState
}

func newChecks() checks {
	return checks{
		states:  make(map[topicPartition]seenState),
		written: make(map[version]zkcoord.PartitionState),
		leaders: make(map[leadership]int32),
		unclean: make(map[string]bool),
		acked:   make(map[leadership][]int),

		partitions: make(map[zkcoord.ID]int),
	}
}

// created records that a topic was created: nothing about an earlier one with its name counts.
func (c *checks) created(topic string, unclean bool) {
	c.unclean[topic] = unclean || c.uncleanAsked > 0
}

// grown records a topic's number of partitions, none of which may be lost.
func (c *checks) grown(id zkcoord.ID, partitions int) { c.partitions[id] = partitions }

func (c *checks) allowUnclean(topic string) { c.unclean[topic] = true }

// mayMove records where a partition may end up; with a nil target, where it was.
func (c *checks) mayMove(w *world, tp topicPartition, target []int32) {
	t, _, err := w.admin.Topic(nobody, tp.Topic)
	if err != nil {
		return
	}
	may := w.allowed[tp]
	if may == nil || may.topic != t.ID {
		next := newAllowedAssignments(t, tp.Partition)
		if may != nil { // requests for an earlier topic with this name may still be in transit
			next.allowed, next.cancelled = append(next.allowed, may.allowed...), may.cancelled
		}
		may = next
		w.allowed[tp] = may
	}
	if target == nil {
		may.cancelled = true
		return
	}
	may.allowed = append(may.allowed, target)
}

func newAllowedAssignments(t zkcoord.TopicInfo, partition int32) *allowedAssignments {
	origin := slices.DeleteFunc(slices.Clone(t.Partitions[partition]), func(id int32) bool { return slices.Contains(t.Adding[partition], id) })
	return &allowedAssignments{topic: t.ID, allowed: [][]int32{origin}}
}

// leads records that a broker has assumed a leadership.
func (c *checks) leads(w *world, tp topicPartition, topic zkcoord.ID, epoch, broker int32) {
	key := leadership{tp, topic, epoch}
	if before, ok := c.leaders[key]; ok && before != broker {
		w.fail("%v has two leaders, %d and %d, in epoch %d", tp, before, broker, epoch)
	}
	c.leaders[key] = broker
}

// told checks that a broker is told only what was written. Otherwise a leader that writes the ISR itself could make
// true what its controller only believes.
func (c *checks) told(w *world, tp topicPartition, topic zkcoord.ID, s *kmsg.LeaderAndISRRequestTopicPartition) {
	is, known := c.written[version{tp, topic, s.ZKVersion}]
	if t, _, err := w.admin.Topic(nobody, tp.Topic); !known && err == nil && t.ID == topic {
		now := w.states(t)[tp]
		if now.PartitionEpoch > s.ZKVersion {
			return // a version that was not observed
		}
		is, known = now, true
	}
	if known && (is.PartitionEpoch != s.ZKVersion || is.LeaderEpoch != s.LeaderEpoch || is.Leader != s.Leader || !slices.Equal(is.ISR, s.ISR)) {
		w.fail("brokers are told that %v is led by %d in epoch %d, ISR %v, version %d; ZooKeeper has %+v",
			tp, s.Leader, s.LeaderEpoch, s.ISR, s.ZKVersion, is)
	}
}

func (c *checks) acknowledged(tp topicPartition, topic zkcoord.ID, number int) {
	key := leadership{tp, topic, 0}
	c.acked[key] = append(c.acked[key], number)
}

// checkStep checks what the last step has written.
func (w *world) checkStep() {
	c := &w.check
	if w.zk.Zxid() == c.zxid {
		return
	}
	c.zxid = w.zk.Zxid()
	term, _, err := w.admin.ControllerEpoch(nobody)
	w.must(err)
	if term.Epoch < c.controllerEpoch {
		w.fail("the controller epoch fell from %d to %d", c.controllerEpoch, term.Epoch)
	}
	c.controllerEpoch = term.Epoch
	for _, t := range w.topics() {
		states := w.states(t)
		for _, tp := range slices.SortedFunc(maps.Keys(states), topicPartition.Compare) {
			w.checkState(tp, t, states[tp])
		}
	}
}

func (w *world) states(t zkcoord.TopicInfo) map[topicPartition]zkcoord.PartitionState {
	var partitions []topicPartition
	for p := range t.Partitions {
		partitions = append(partitions, topicPartition{Topic: t.Name, Partition: p})
	}
	states, err := w.admin.PartitionStates(nobody, partitions)
	w.must(err)
	return states
}

func (w *world) checkState(tp topicPartition, t zkcoord.TopicInfo, now zkcoord.PartitionState) {
	c := &w.check
	before, known := c.states[tp]
	if known && before.topic == t.ID && before.PartitionEpoch == now.PartitionEpoch {
		return
	}
	w.say("%v: %+v", tp, now)
	c.states[tp] = seenState{t.ID, now}
	c.written[version{tp, t.ID, now.PartitionEpoch}] = now
	if now.ControllerEpoch != c.controllerEpoch && !(w.old && known && now.LeaderEpoch == before.LeaderEpoch) {
		w.fail("%v was written by the controller of epoch %d, in epoch %d", tp, now.ControllerEpoch, c.controllerEpoch)
	}
	if now.Leader != zkcoord.NoLeader && !slices.Contains(now.ISR, now.Leader) {
		w.fail("%v: leader %d is not in the ISR %v", tp, now.Leader, now.ISR)
	}
	if len(now.ISR) == 0 {
		w.fail("%v has no replica in sync", tp)
	}
	if !known || before.topic != t.ID {
		return
	}
	switch {
	case now.LeaderEpoch < before.LeaderEpoch:
		w.fail("%v: the leader epoch fell from %d to %d", tp, before.LeaderEpoch, now.LeaderEpoch)
	case now.LeaderEpoch == before.LeaderEpoch && now.Leader != before.Leader:
		w.fail("%v: leader %d and then %d in epoch %d", tp, before.Leader, now.Leader, now.LeaderEpoch)
	case now.Leader != before.Leader && now.Leader != zkcoord.NoLeader && !slices.Contains(before.ISR, now.Leader) && !c.unclean[tp.Topic]:
		w.fail("%v: new leader %d was not in the ISR %v", tp, now.Leader, before.ISR)
	}
}

// checkSettled checks the cluster at rest.
func (w *world) checkSettled() {
	w.checkController()
	w.checkNodes()
	topics := w.topics()
	for _, t := range topics {
		states := w.states(t)
		if want := w.check.partitions[t.ID]; len(t.Partitions) < want && !w.deleting(t.Name) {
			w.fail("topic %s has %d of its %d partitions", t.Name, len(t.Partitions), want)
		}
		for p := range t.Partitions {
			w.checkPartition(t, topicPartition{Topic: t.Name, Partition: p}, states)
		}
	}
	for _, p := range w.running() {
		w.checkMetadata(p, topics)
		w.checkDisk(p, topics)
	}
}

func (w *world) checkController() {
	id, err := w.admin.ControllerID(nobody)
	w.must(err)
	for _, p := range w.running() {
		if p.c.Active() != (p.id == id) {
			w.fail("controller is %d, but broker %d active: %v", id, p.id, p.c.Active())
		}
		if p.c.ControllerID() != id {
			w.fail("controller is %d, but broker %d takes it for %d", id, p.id, p.c.ControllerID())
		}
	}
	if w.process(id) == nil {
		w.fail("controller is %d, which is down", id)
	}
}

// checkNodes looks for nodes that controllers should have removed.
func (w *world) checkNodes() {
	deletions, err := w.admin.WatchTopicDeletions(nobody)
	w.must(err)
	for _, name := range deletions {
		if !w.mustWait(name) {
			w.fail("topic %s is not deleted", name)
		}
	}
	if targets, present, err := w.admin.WatchReassignments(nobody); err != nil || present {
		for tp := range targets {
			if t, _, err := w.admin.Topic(nobody, tp.Topic); err != nil || w.allServing(t, tp) {
				w.fail("asked reassignments are left: %v", targets)
			}
		}
	}
	if _, present, err := w.admin.WatchPreferredElection(nobody); err != nil || present {
		w.fail("asked preferred elections are left")
	}
	if _, numbers, err := w.admin.WatchLogDirEvents(nobody); err != nil || len(numbers) > 0 {
		w.fail("events of log directories are left")
	}
	if _, numbers, err := w.admin.WatchISRNotifications(nobody); err != nil || len(numbers) > 0 {
		w.fail("notifications of ISRs are left")
	}
}

// serving reports whether a replica can serve.
func (w *world) serving(id int32, tp topicPartition) bool {
	p := w.process(id)
	if p == nil {
		return false
	}
	r := p.b.disk[tp]
	return r == nil || !r.failed
}

func (w *world) allServing(t zkcoord.TopicInfo, tp topicPartition) bool {
	return !slices.ContainsFunc(t.Partitions[tp.Partition], func(id int32) bool { return !w.serving(id, tp) })
}

// mustWait reports whether a topic's deletion has to wait for a broker or a directory.
func (w *world) mustWait(name string) bool {
	t, _, err := w.admin.Topic(nobody, name)
	if err != nil {
		return false
	}
	for p := range t.Partitions {
		if !w.allServing(t, topicPartition{Topic: name, Partition: p}) {
			return true
		}
	}
	return false
}

func (w *world) checkPartition(t zkcoord.TopicInfo, tp topicPartition, states map[topicPartition]zkcoord.PartitionState) {
	if w.deleting(t.Name) {
		return
	}
	replicas := t.Partitions[tp.Partition]
	live := slices.DeleteFunc(slices.Clone(replicas), func(id int32) bool { return !w.serving(id, tp) })
	state, ok := states[tp]
	if !ok {
		if len(live) > 0 {
			w.fail("%v of %v has no state", tp, replicas)
		}
		return
	}
	for _, id := range state.ISR {
		if !slices.Contains(replicas, id) {
			w.fail("%v: in sync are %v, its replicas %v", tp, state.ISR, replicas)
		}
	}
	canLead := slices.ContainsFunc(state.ISR, func(id int32) bool { return slices.Contains(live, id) })
	switch {
	case state.Leader == zkcoord.NoLeader && canLead:
		w.fail("%v has no leader though one of the ISR %v serves", tp, state.ISR)
	case state.Leader == zkcoord.NoLeader && w.allowsUnclean(t.Name) &&
		slices.ContainsFunc(live, func(id int32) bool { return !slices.Contains(t.Adding[tp.Partition], id) }):
		w.fail("%v has no leader though %v serve and may be out of sync", tp, live)
	case state.Leader != zkcoord.NoLeader && !w.serving(state.Leader, tp):
		w.fail("%v is led by %d, which does not serve", tp, state.Leader)
	}
	w.checkMove(t, tp, live)
	w.checkRecords(t, tp, state)
}

func (w *world) allowsUnclean(topic string) bool {
	settings, err := w.admin.EntityConfig(nobody, zkcoord.Entity{Kind: zkcoord.Topics, Name: topic})
	w.must(err)
	return settings[uncleanKey] == "true"
}

func (w *world) deleting(topic string) bool {
	deletions, err := w.admin.WatchTopicDeletions(nobody)
	w.must(err)
	return slices.Contains(deletions, topic)
}

// checkMove checks that reassignments have completed.
func (w *world) checkMove(t zkcoord.TopicInfo, tp topicPartition, live []int32) {
	replicas := t.Partitions[tp.Partition]
	if len(t.Adding[tp.Partition])+len(t.Removing[tp.Partition]) > 0 {
		if len(live) == len(replicas) {
			w.fail("%v still moves: %v, adding %v, removing %v", tp, replicas, t.Adding[tp.Partition], t.Removing[tp.Partition])
		}
		return
	}
	may := w.allowed[tp]
	if may == nil || may.topic != t.ID {
		return
	}
	for _, one := range may.allowed {
		if slices.Equal(one, replicas) {
			return
		}
		// A cancellation restores the replicas, in the order of the target.
		if may.cancelled && slices.Equal(slices.Sorted(slices.Values(one)), slices.Sorted(slices.Values(replicas))) {
			return
		}
	}
	w.fail("%v has moved to %v, where nobody wanted it: %v", tp, replicas, may.allowed)
}

// checkRecords looks for all acknowledged records in the leader's log.
func (w *world) checkRecords(t zkcoord.TopicInfo, tp topicPartition, state zkcoord.PartitionState) {
	p := w.process(state.Leader)
	if p == nil || w.check.unclean[tp.Topic] {
		return
	}
	r := p.b.disk[tp]
	if r == nil || r.topic != t.ID {
		w.fail("%v: its leader %d has no replica", tp, p.id)
		return
	}
	there := make(map[int]bool, len(r.log))
	for _, rec := range r.log {
		there[rec.number] = true
	}
	for _, number := range w.check.acked[leadership{tp, t.ID, 0}] {
		if !there[number] {
			w.fail("%v: acknowledged record %d is lost at its leader %d", tp, number, p.id)
			return
		}
	}
}

// checkMetadata compares a broker's snapshot with ZooKeeper.
func (w *world) checkMetadata(p *process, topics []zkcoord.TopicInfo) {
	snapshot := p.metadata.Current()
	for _, b := range w.brokers {
		if (snapshot.Brokers[b.id] != nil) != (b.proc != nil) {
			w.fail("broker %d takes broker %d for alive: %v", p.id, b.id, snapshot.Brokers[b.id] != nil)
		}
	}
	present := make(map[string]bool)
	for _, t := range topics {
		present[t.Name] = true
		if w.deleting(t.Name) {
			continue
		}
		for tp, state := range w.states(t) {
			known, ok := snapshot.Partition(tp.Topic, tp.Partition)
			if !ok {
				w.fail("broker %d does not know %v", p.id, tp)
				continue
			}
			if known.Leader != state.Leader || known.LeaderEpoch != state.LeaderEpoch || known.PartitionEpoch != state.PartitionEpoch ||
				!slices.Equal(known.ISR, state.ISR) || !slices.Equal(known.Replicas, t.Partitions[tp.Partition]) {
				w.fail("broker %d believes of %v %+v, but it is %+v of %v", p.id, tp, *known, state, t.Partitions[tp.Partition])
			}
			if id := snapshot.Topics[tp.Topic].ID; id != t.ID {
				w.fail("broker %d has another id of %v", p.id, tp)
			}
		}
	}
	for name := range snapshot.Topics {
		if !present[name] {
			w.fail("broker %d still knows topic %s, which was deleted", p.id, name)
		}
	}
}

// checkDisk looks for replicas that should not exist, or have the wrong role.
func (w *world) checkDisk(p *process, topics []zkcoord.TopicInfo) {
	byName := make(map[string]zkcoord.TopicInfo)
	for _, t := range topics {
		byName[t.Name] = t
	}
	for _, tp := range p.b.replicas() {
		r := p.b.disk[tp]
		t, ok := byName[tp.Topic]
		if !ok || t.ID != r.topic || !slices.Contains(t.Partitions[tp.Partition], p.id) {
			if !r.failed {
				w.fail("broker %d still has a replica of %v", p.id, tp)
			}
			continue
		}
		state, ok := w.states(t)[tp]
		if !ok || r.failed || w.deleting(t.Name) {
			continue
		}
		if r.leaderEpoch != state.LeaderEpoch || (r.role == leader) != (state.Leader == p.id) {
			w.fail("broker %d: %v has role %d in epoch %d, but it is led by %d in epoch %d",
				p.id, tp, r.role, r.leaderEpoch, state.Leader, state.LeaderEpoch)
		}
		if r.role == leader && (r.partitionEpoch != state.PartitionEpoch || !slices.Equal(r.isr, state.ISR)) {
			w.fail("broker %d leads %v with ISR %v at %d, but it is %v at %d", p.id, tp, r.isr, r.partitionEpoch, state.ISR, state.PartitionEpoch)
		}
	}
}
