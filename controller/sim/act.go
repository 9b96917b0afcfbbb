package sim

import (
	"fmt"
	"slices"

	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// act makes one thing happen: most of the time normal progress.
func (w *world) act() {
	list := works
	if w.rng.IntN(w.eventInterval) == 0 {
		list = events
	}
	total := 0
	for _, a := range list {
		total += a.weight
	}
	n := w.rng.IntN(total)
	for _, a := range list {
		if n -= a.weight; n < 0 {
			a.do(w)
			return
		}
	}
}

// action is something that may happen, and how often.
type action struct {
	weight int
	do     func(*world)
}

var works = []action{
	{40, (*world).turnController},
	{30, (*world).stepChannel},
	{10, (*world).deliverEvents},
	{10, (*world).deliverPacket},
	{2, (*world).fireTimer},
	{6, (*world).produce},
	{15, (*world).fetch},
	{2, (*world).askAgain},
	{4, (*world).restoreConnection},
	{2, (*world).startBroker},
	{2, (*world).resumeBroker},
}

var events = []action{
	{6, (*world).killBroker},
	{6, (*world).startBroker},
	{4, (*world).pauseBroker},
	{6, (*world).breakConnection},
	{6, (*world).expireSession},
	{2, (*world).removeController},
	{3, (*world).failDirectory},
	{6, (*world).shutDown},
	{10, (*world).losePacket},
	{14, (*world).shrinkISR},

	{20, (*world).createTopic},
	{8, (*world).deleteTopic},
	{5, (*world).addPartitions},
	{20, (*world).reassign},
	{6, (*world).cancelReassignment},
	{4, (*world).reassignByNode},
	{5, (*world).electPreferred},
	{3, (*world).electPreferredByNode},
	{4, (*world).allowUnclean},
	{2, (*world).electUnclean},
}

func (w *world) turnController() {
	var ready []*process
	for _, p := range w.running() {
		if !p.idle || p.conn.Due() > 0 {
			ready = append(ready, p)
		}
	}
	if p, ok := pick(w, ready); ok {
		for range 1 + w.rng.IntN(8) {
			p.turn()
			w.checkStep() // it has seen every write
		}
	}
}

// poke makes the coroutines check for events that something outside may have caused.
func (w *world) poke() {
	for _, p := range w.running() {
		p.idle = false
	}
}

func (w *world) stepChannel() {
	var channels []*channel
	for _, p := range w.running() {
		for _, l := range p.channels {
			if len(l.queue) > 0 {
				channels = append(channels, l)
			}
		}
	}
	if l, ok := pick(w, channels); ok {
		for range 1 + w.rng.IntN(6) {
			l.step()
		}
		w.poke()
	}
}

func (w *world) deliverEvents() {
	if p, ok := pick(w, w.running()); ok {
		p.conn.Deliver()
		p.idle = false
	}
}

func (w *world) takePacket() *packet {
	if len(w.packets) == 0 {
		return nil
	}
	i := w.rng.IntN(len(w.packets))
	p := w.packets[i]
	w.packets = append(w.packets[:i:i], w.packets[i+1:]...)
	return p
}

func (w *world) deliverPacket() {
	if p := w.takePacket(); p != nil {
		w.say("%s arrives", p.name)
		p.deliver()
		w.poke()
	}
}

func (w *world) losePacket() {
	p := w.takePacket()
	switch {
	case p == nil:
	case p.sure:
		w.send(p)
	default:
		w.say("%s is lost", p.name)
		if p.lost != nil {
			p.lost()
		}
	}
}

func (w *world) fireTimer() {
	if p, ok := pick(w, w.running()); ok && len(p.timers) > 0 {
		if f := p.due(w.rng.IntN(len(p.timers))); f != nil {
			f()
			p.idle = false
		}
	}
}

// hosted is a replica on a running broker.
type hosted struct {
	p  *process
	tp topicPartition
	r  *replica
}

func (w *world) hosted(want role) []hosted {
	var found []hosted
	for _, p := range w.running() {
		for _, tp := range p.b.replicas() {
			if r := p.b.disk[tp]; r.role == want {
				found = append(found, hosted{p, tp, r})
			}
		}
	}
	return found
}

func (w *world) produce() {
	if h, ok := pick(w, w.hosted(leader)); ok {
		h.p.produce(h.tp)
	}
}

func (w *world) fetch() {
	if h, ok := pick(w, w.hosted(follower)); ok {
		h.p.fetch(h.tp, h.r, 2)
	}
}

func (w *world) shrinkISR() {
	if h, ok := pick(w, w.hosted(leader)); ok {
		if id, ok := pick(w, h.r.isr); ok {
			h.p.shrink(h.tp, h.r, id)
		}
	}
}

func (w *world) askAgain() {
	for _, h := range w.hosted(leader) {
		if h.r.proposed != nil && !h.r.asking {
			h.p.propose(h.tp, h.r)
		}
	}
}

func (w *world) killBroker() {
	if p, ok := pick(w, w.running()); ok {
		w.say("broker %d dies", p.id)
		p.b.kill()
	}
}

func (w *world) startBroker() {
	if b, ok := pick(w, w.brokers); ok && b.proc == nil {
		w.say("broker %d starts", b.id)
		b.start()
	}
}

func (w *world) pauseBroker() {
	if p, ok := pick(w, w.running()); ok {
		w.say("broker %d is paused", p.id)
		p.paused = true
	}
}

func (w *world) resumeBroker() {
	if b, ok := pick(w, w.brokers); ok && b.proc != nil && b.proc.paused {
		w.say("broker %d goes on", b.id)
		b.proc.paused = false
	}
}

func (w *world) breakConnection() {
	if p, ok := pick(w, w.running()); ok {
		w.say("broker %d: connection to zookeeper broken", p.id)
		p.conn.Break()
	}
}

func (w *world) restoreConnection() {
	for _, p := range w.running() {
		if !p.conn.Up() {
			w.say("broker %d: connection to zookeeper restored", p.id)
			p.conn.Restore()
			p.idle = false
		}
	}
}

func (w *world) expireSession() {
	b, _ := pick(w, w.brokers)
	if b.proc != nil {
		w.say("broker %d: session expires", b.id)
		b.proc.conn.Expire()
	} else if b.left != nil {
		w.say("broker %d: session of its dead process expires", b.id)
		b.left.Expire()
	}
}

func (w *world) removeController() {
	if w.raw.Delete("/controller", -1) == nil {
		w.say("the controller's node is removed by hand")
	}
}

// failDirectory makes some of a broker's replicas fail until it is restarted.
func (w *world) failDirectory() {
	p, ok := pick(w, w.running())
	if !ok || !p.registered {
		return
	}
	for _, tp := range p.b.replicas() {
		if r := p.b.disk[tp]; w.rng.IntN(2) == 0 {
			w.say("broker %d: directory of %v fails", p.id, tp)
			r.failed, r.role, r.proposed = true, idle, nil
		}
	}
	w.must(w.admin.NotifyLogDirFailure(nobody, p.id))
}

// shutDown stops a broker cleanly.
func (w *world) shutDown() {
	p, ok := pick(w, w.running())
	if !ok || !p.registered || p.stopping {
		return
	}
	w.say("broker %d wants to stop", p.id)
	p.stopping = true
	req := kmsg.NewPtrControlledShutdownRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, p.id, p.epoch
	w.ask(p.controllerID(), req, func(kmsg.Response) {
		if p.b.proc == p {
			w.say("broker %d stops", p.id)
			p.b.kill()
			p.conn.Expire()
			if w.calm {
				p.b.start()
			}
		}
	})
}

func (w *world) createTopic() {
	topics := w.topics()
	if len(topics) > 3 {
		return
	}
	name := fmt.Sprintf("t%d", w.rng.IntN(5))
	assignment := make(map[int32][]int32)
	for i := range int32(1 + w.rng.IntN(2)) {
		assignment[i] = w.someReplicas()
	}
	configs := make(map[string]string)
	if w.rng.IntN(8) == 0 {
		configs[uncleanKey] = "true"
	}
	if _, err := w.admin.CreateTopic(nobody, name, assignment, configs); err == nil {
		w.say("topic %s created: %v %v", name, assignment, configs)
		w.check.created(name, configs[uncleanKey] == "true")
		w.created++
	}
}

const uncleanKey = "unclean.leader.election.enable"

func (w *world) deleteTopic() {
	if t, ok := pick(w, w.topics()); ok {
		w.say("topic %s is to be deleted", t.Name)
		w.must(w.admin.RequestTopicDeletion(nobody, t.Name))
	}
}

func (w *world) addPartitions() {
	if t, ok := pick(w, w.topics()); ok && len(t.Partitions) < 4 {
		more := map[int32][]int32{int32(len(t.Partitions)): w.someReplicas()}
		if w.admin.AddPartitions(nobody, t.Name, more) == nil {
			w.say("topic %s gets %v", t.Name, more)
			w.check.grown(t.ID, len(t.Partitions)+1)
		}
	}
}

func (w *world) somePartition() (tp topicPartition, ok bool) {
	t, ok := pick(w, w.topics())
	if !ok || len(t.Partitions) == 0 {
		return topicPartition{}, false
	}
	return topicPartition{Topic: t.Name, Partition: int32(w.rng.IntN(len(t.Partitions)))}, true
}

// allowedAssignments says where a partition's replicas may end up, as far as the requesters know.
type allowedAssignments struct {
	topic     zkcoord.ID
	allowed   [][]int32
	cancelled bool // it may also be back where it was
}

func (w *world) reassign() {
	if tp, ok := w.somePartition(); ok {
		w.alterReassignment(tp, w.someReplicas())
	}
}

func (w *world) cancelReassignment() {
	if tp, ok := w.somePartition(); ok {
		w.alterReassignment(tp, nil)
	}
}

func (w *world) alterReassignment(tp topicPartition, target []int32) {
	w.say("reassignment of %v to %v asked", tp, target)
	w.check.mayMove(w, tp, target)
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = tp.Topic
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = tp.Partition, target
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	w.ask(w.someController(), req, func(kmsg.Response) {})
}

// someController returns a broker that believes it is the controller, or any.
func (w *world) someController() int32 {
	for _, p := range w.running() {
		if p.c.Active() {
			return p.id
		}
	}
	return int32(w.rng.IntN(brokerCount))
}

func (w *world) reassignByNode() {
	if tp, ok := w.somePartition(); ok {
		target := w.someReplicas()
		created, err := w.admin.RequestReassignments(nobody, map[topicPartition][]int32{tp: target})
		w.must(err)
		if created {
			w.say("reassignment of %v to %v asked by the node", tp, target)
			w.check.mayMove(w, tp, target)
		}
	}
}

func (w *world) elections(kind int8, done func()) {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.ElectionType = 2, kind
	w.ask(w.someController(), req, func(kmsg.Response) { done() })
}

func (w *world) electPreferred() { w.elections(0, func() {}) }

func (w *world) electUnclean() {
	w.say("unclean elections asked")
	for _, t := range w.topics() {
		w.check.allowUnclean(t.Name)
	}
	w.check.uncleanAsked++ // it also applies to topics that are created before it arrives
	w.elections(1, func() { w.check.uncleanAsked-- })
}

func (w *world) electPreferredByNode() {
	if tp, ok := w.somePartition(); ok {
		_, err := w.admin.RequestPreferredElection(nobody, []topicPartition{tp})
		w.must(err)
	}
}

func (w *world) setUnclean(topic string, on bool) error {
	return w.admin.UpdateEntityConfig(nobody, zkcoord.Entity{Kind: zkcoord.Topics, Name: topic}, func(settings map[string]string) (map[string]string, error) {
		settings[uncleanKey] = fmt.Sprint(on)
		return settings, nil
	})
}

// allowUnclean switches unclean.leader.election.enable of a topic.
func (w *world) allowUnclean() {
	t, ok := pick(w, w.topics())
	if !ok {
		return
	}
	on := w.rng.IntN(2) == 0
	err := w.setUnclean(t.Name, on)
	if err != nil || !on { // refused while there is no controller
		return
	}
	w.say("topic %s: unclean elections are allowed", t.Name)
	w.check.allowUnclean(t.Name)
	for _, b := range w.brokers {
		w.send(&packet{name: "change of a setting", sure: true, deliver: func() {
			if b.proc != nil {
				b.proc.c.UncleanElectionAllowed(t.Name)
			}
		}})
	}
}

// tooManyRequests is more requests to ZooKeeper than the work here can need.
const tooManyRequests = 10_000

// settle heals the cluster and lets it come to rest. Some brokers may stay down.
func (w *world) settle() {
	w.calm = true
	w.say("-- healed")
	stayDown := w.rng.IntN(3) == 0
	for _, b := range w.brokers {
		if b.proc == nil && (!stayDown || b.id == 0) {
			w.say("broker %d starts", b.id)
			b.start()
		}
		if b.left != nil {
			b.left.Expire()
		}
		if b.proc != nil {
			b.proc.paused = false
		}
	}
	const enough = 400
	for range enough {
		busy := w.calmRound()
		w.checkStep()
		if w.failure != nil {
			return
		}
		if !busy {
			return
		}
		w.step++
	}
	w.fail("%w", errUnsettled)
}

// calmRound lets everyone do pending work, and reports whether there was any.
func (w *world) calmRound() (busy bool) {
	packets := w.packets
	w.packets = nil
	for _, p := range packets {
		w.say("%s arrives", p.name)
		p.deliver()
		busy = true
	}
	for _, p := range w.running() {
		if !p.conn.Up() || p.conn.Due() > 0 {
			busy = true
		}
		p.conn.Restore()
		p.conn.Deliver()
		busy = w.calmTimers(p) || busy
		before := w.zk.Zxid()
		p.idle = false
		for n := 0; !p.idle && w.failure == nil; n++ {
			p.conn.Restore()
			p.turn()
			w.checkStep()
			busy = busy || n > 0
			if n > tooManyRequests {
				w.fail("broker %d: %w", p.id, errUnsettled)
			}
		}
		busy = busy || w.zk.Zxid() != before
		for _, l := range slices.Clone(p.channels) {
			for l.step() {
				busy = true
			}
		}
	}
	for _, h := range w.hosted(follower) {
		busy = h.p.fetch(h.tp, h.r, len(h.r.log)+1000) || busy
	}
	for _, h := range w.hosted(leader) {
		if h.r.proposed != nil && !h.r.asking {
			h.p.propose(h.tp, h.r)
			busy = true
		}
	}
	return busy
}

// calmTimers fires the timers for retries. The balance of leaders is no longer checked.
func (w *world) calmTimers(p *process) (fired bool) {
	for i := len(p.timers) - 1; i >= 0; i-- {
		if p.timers[i].after <= retrySoon {
			if f := p.due(i); f != nil {
				f()
				fired = true
			}
		}
	}
	return fired
}
