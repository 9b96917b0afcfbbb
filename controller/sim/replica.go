package sim

import (
	"maps"
	"math"
	"slices"

	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type role int

const (
	idle role = iota
	follower
	leader
)

// record is a record: the epoch of the leader that appended it, and a unique number.
type record struct {
	epoch  int32
	number int
}

// replica is a replica on a broker's disk, and its process's view of it.
type replica struct {
	topic  zkcoord.ID
	log    []record
	hw     int
	failed bool // in a log directory that has failed

	role            role
	leader          int32
	leaderEpoch     int32
	partitionEpoch  int32
	replicas        []int32
	isr             []int32
	proposed        []int32 // nil: no change of the ISR is pending
	asking          bool    // the controller has not answered yet
	controllerEpoch int32
	ends            map[int32]int
	epochs          map[int32]int64 // of the brokers that fetched
	epochStart      int             // log end when it became leader
}

// start sets what a new process knows of a replica on its disk. Its directory has been repaired.
func (r *replica) start() {
	*r = replica{topic: r.topic, log: r.log, hw: r.hw, leader: -1, leaderEpoch: -1, partitionEpoch: -1}
}

func (b *broker) replicas() []topicPartition {
	return slices.SortedFunc(maps.Keys(b.disk), topicPartition.Compare)
}

// receive answers the controller's requests (it simulates package broker/api).
func (p *process) receive(req kmsg.Request) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.LeaderAndISRRequest:
		resp := req.ResponseKind().(*kmsg.LeaderAndISRResponse)
		if resp.ErrorCode = p.stale(req.BrokerEpoch, req.ControllerEpoch); resp.ErrorCode == 0 {
			p.leaderAndISR(req, resp)
		}
		return resp
	case *kmsg.UpdateMetadataRequest:
		resp := req.ResponseKind().(*kmsg.UpdateMetadataResponse)
		if resp.ErrorCode = p.stale(req.BrokerEpoch, req.ControllerEpoch); resp.ErrorCode == 0 {
			p.w.say("broker %d: UpdateMetadata of %d in epoch %d, %d topics", p.id, req.ControllerID, req.ControllerEpoch, len(req.TopicStates))
			p.metadata.Update(req)
		}
		return resp
	case *kmsg.StopReplicaRequest:
		resp := req.ResponseKind().(*kmsg.StopReplicaResponse)
		if resp.ErrorCode = p.stale(req.BrokerEpoch, req.ControllerEpoch); resp.ErrorCode == 0 {
			p.stopReplica(req, resp)
		}
		return resp
	}
	panic("sim: no request of a controller")
}

// knownEpochs says which controller knows which registration of a broker.
type knownEpochs struct {
	brokerEpoch     int64
	controllerEpoch int32
}

func (p *process) stale(brokerEpoch int64, controllerEpoch int32) int16 {
	switch {
	case brokerEpoch < p.epoch:
		return kerr.StaleBrokerEpoch.Code
	case controllerEpoch < p.controllerEpoch:
		return kerr.StaleControllerEpoch.Code
	}
	if note := (knownEpochs{brokerEpoch, controllerEpoch}); p.known != note {
		p.known = note
		p.w.send(&packet{name: "look for strays", sure: true, deliver: func() {
			if p.b.proc == p {
				p.removeStrays()
			}
		}})
	}
	p.controllerEpoch = controllerEpoch
	return 0
}

func (p *process) leaderAndISR(req *kmsg.LeaderAndISRRequest, resp *kmsg.LeaderAndISRResponse) {
	for _, t := range req.TopicStates {
		out := kmsg.NewLeaderAndISRResponseTopic()
		out.TopicID = t.TopicID
		for i := range t.PartitionStates {
			s := &t.PartitionStates[i]
			answer := kmsg.NewLeaderAndISRResponseTopicPartition()
			answer.Partition = s.Partition
			answer.ErrorCode = p.become(topicPartition{Topic: t.Topic, Partition: s.Partition}, t.TopicID, s)
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
}

func (p *process) become(tp topicPartition, topic zkcoord.ID, s *kmsg.LeaderAndISRRequestTopicPartition) int16 {
	if !slices.Contains(s.Replicas, p.id) {
		return kerr.UnknownTopicOrPartition.Code
	}
	p.w.check.told(p.w, tp, topic, s)
	r := p.b.disk[tp]
	if gone, ok := p.dropped[tp]; ok && r == nil && !s.IsNew && gone.topic == topic && s.LeaderEpoch <= gone.epoch {
		return kerr.StaleControllerEpoch.Code
	}
	switch {
	case r == nil, r.failed && r.topic != topic: // in another directory
		r = &replica{topic: topic}
		r.start()
		p.b.disk[tp] = r
	case r.topic != topic:
		return kerr.InconsistentTopicID.Code
	}
	switch {
	case r.failed:
		return kerr.KafkaStorageError.Code
	case s.LeaderEpoch < r.leaderEpoch:
		return kerr.StaleControllerEpoch.Code
	case s.LeaderEpoch == r.leaderEpoch && r.role != idle:
		r.replicas = s.Replicas
		return kerr.StaleControllerEpoch.Code
	}
	p.w.say("broker %d: %v led by %d in epoch %d, isr %v", p.id, tp, s.Leader, s.LeaderEpoch, s.ISR)
	wasLeader := r.role == leader && s.LeaderEpoch == r.leaderEpoch+1 // otherwise another broker may have led in between
	r.leader, r.leaderEpoch, r.partitionEpoch, r.controllerEpoch = s.Leader, s.LeaderEpoch, s.ZKVersion, s.ControllerEpoch
	r.replicas, r.isr, r.proposed, r.asking = s.Replicas, s.ISR, nil, false
	r.role = follower
	if s.Leader == p.id {
		r.role = leader
		p.w.check.leads(p.w, tp, r.topic, r.leaderEpoch, p.id)
	}
	if r.role != leader || !wasLeader {
		r.ends, r.epochs, r.epochStart = make(map[int32]int), make(map[int32]int64), len(r.log)
	}
	return 0
}

func (p *process) stopReplica(req *kmsg.StopReplicaRequest, resp *kmsg.StopReplicaResponse) {
	for _, t := range req.Topics {
		for _, s := range t.PartitionStates {
			tp := topicPartition{Topic: t.Topic, Partition: s.Partition}
			answer := kmsg.NewStopReplicaResponsePartition()
			answer.Topic, answer.Partition = t.Topic, s.Partition
			r := p.b.disk[tp]
			switch {
			case r == nil:
			case r.failed:
				answer.ErrorCode = kerr.KafkaStorageError.Code
			case s.LeaderEpoch >= 0 && s.LeaderEpoch < r.leaderEpoch:
				answer.ErrorCode = kerr.FencedLeaderEpoch.Code
			case s.Delete:
				p.w.say("broker %d: %v deleted", p.id, tp)
				delete(p.b.disk, tp)
			default:
				r.role, r.proposed = idle, nil
			}
			resp.Partitions = append(resp.Partitions, answer)
		}
	}
}

// dropped says up to which leader epoch a broker cannot be told to have a replica again that it has removed as a stray.
type dropped struct {
	topic zkcoord.ID
	epoch int32
}

// removeStrays removes replicas that were moved off this broker, or deleted, without it being told. A broker looks for
// them when a controller, or a new one, knows its registration: from then on it is told.
func (p *process) removeStrays() {
	topics := make(map[string]zkcoord.TopicInfo)
	for _, t := range p.w.topics() {
		topics[t.Name] = t
	}
	for _, tp := range p.b.replicas() {
		t := topics[tp.Topic]
		if r := p.b.disk[tp]; !r.failed && (t.ID != r.topic || !slices.Contains(t.Partitions[tp.Partition], p.id)) {
			p.w.say("broker %d: %v is a stray", p.id, tp)
			delete(p.b.disk, tp)
			gone := dropped{r.topic, math.MaxInt32}
			if t.ID == r.topic {
				gone.epoch = p.w.states(t)[tp].LeaderEpoch
			}
			p.dropped[tp] = gone
			if slices.Contains(t.Partitions[tp.Partition], p.id) { // the new topic's replica was refused meanwhile
				p.w.must(p.w.admin.NotifyLogDirFailure(nobody, p.id))
			}
		}
	}
	snapshot := p.metadata.Current()
	for name, known := range snapshot.Topics {
		if topics[name].ID != known.ID {
			p.metadata.Forget(known)
		}
	}
}

// produce appends a record to a partition that the broker leads, or believes to lead.
func (p *process) produce(tp topicPartition) {
	r := p.b.disk[tp]
	p.w.records++
	r.log = append(r.log, record{r.leaderEpoch, p.w.records})
	p.advance(tp, r)
}

// fetch lets a follower catch up with its leader. It reports whether anything changed.
func (p *process) fetch(tp topicPartition, r *replica, most int) bool {
	from := p.w.process(r.leader)
	if from == nil {
		return false
	}
	source := from.b.disk[tp]
	if source == nil || source.role != leader || source.leaderEpoch != r.leaderEpoch || source.topic != r.topic {
		return false
	}
	common := 0
	for common < min(len(r.log), len(source.log)) && r.log[common] == source.log[common] {
		common++
	}
	changed := common < len(r.log) || common < len(source.log)
	end := min(len(source.log), common+most)
	r.log = append(r.log[:common:common], source.log[common:end]...)
	changed = changed || source.ends[p.id] != end
	source.ends[p.id], source.epochs[p.id] = end, p.epoch
	from.advance(tp, source)
	r.hw = min(source.hw, len(r.log))
	return from.expand(tp, source, p.id) || changed
}

// advance raises a leader's high watermark: everything below is acknowledged.
func (p *process) advance(tp topicPartition, r *replica) {
	mark := len(r.log)
	for _, id := range slices.Concat(r.isr, r.proposed) {
		if id != p.id {
			mark = min(mark, r.ends[id])
		}
	}
	for ; r.hw < mark; r.hw++ {
		p.w.check.acknowledged(tp, r.topic, r.log[r.hw].number)
	}
}

// expand adds a follower that has caught up to the ISR.
func (p *process) expand(tp topicPartition, r *replica, id int32) bool {
	if r.proposed != nil || slices.Contains(r.isr, id) || !slices.Contains(r.replicas, id) ||
		r.ends[id] < r.hw || r.ends[id] < r.epochStart || p.metadata.Current().Brokers[id] == nil {
		return false
	}
	r.proposed = append(slices.Clone(r.isr), id)
	p.propose(tp, r)
	return true
}

// shrink removes a lagging follower from the ISR.
func (p *process) shrink(tp topicPartition, r *replica, id int32) {
	if r.proposed == nil && id != p.id {
		r.proposed = slices.DeleteFunc(slices.Clone(r.isr), func(member int32) bool { return member == id })
		p.propose(tp, r)
	}
}

// propose sends the pending change of the ISR to the controller.
func (p *process) propose(tp topicPartition, r *replica) {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, p.id, p.epoch
	t := kmsg.NewAlterPartitionRequestTopic()
	t.TopicID = r.topic
	part := kmsg.NewAlterPartitionRequestTopicPartition()
	part.Partition, part.LeaderEpoch, part.PartitionEpoch = tp.Partition, r.leaderEpoch, r.partitionEpoch
	for _, id := range r.proposed {
		member := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		member.BrokerID, member.BrokerEpoch = id, -1
		if epoch, told := r.epochs[id]; told {
			member.BrokerEpoch = epoch
		}
		part.NewEpochISR = append(part.NewEpochISR, member)
	}
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	r.asking = true
	epoch := r.leaderEpoch
	if p.w.old {
		p.write(tp, r)
		return
	}
	p.w.ask(p.controllerID(), req, func(resp kmsg.Response) {
		if p.b.proc == p && p.b.disk[tp] == r && r.leaderEpoch == epoch && r.role == leader && r.proposed != nil {
			r.asking = false
			p.settleISR(r, resp)
		}
	})
}

// write writes the ISR to ZooKeeper in a session without faults: the write is conditional on what the leader knows. The
// controller is notified later.
func (p *process) write(tp topicPartition, r *replica) {
	state := zkcoord.PartitionState{Leader: p.id, LeaderEpoch: r.leaderEpoch, ISR: r.proposed, ControllerEpoch: r.controllerEpoch,
		PartitionEpoch: r.partitionEpoch}
	p.w.send(&packet{name: "ISR", sure: true, deliver: func() {
		if p.b.proc != p || p.b.disk[tp] != r || r.leaderEpoch != state.LeaderEpoch || r.role != leader || r.proposed == nil {
			return
		}
		epoch, err := p.w.admin.WriteISR(nobody, tp, state)
		if err != nil {
			return // a LeaderAndIsr with the truth is on its way
		}
		p.w.say("broker %d writes %v: ISR %v", p.id, tp, state.ISR)
		r.isr, r.partitionEpoch, r.proposed, r.asking = state.ISR, epoch, nil, false
		p.w.send(&packet{name: "ISR notification", sure: true, deliver: func() {
			p.w.must(p.w.admin.NotifyISRChange(nobody, []topicPartition{tp}))
		}})
	}})
}

// controllerID returns the broker that this one takes for the controller.
func (p *process) controllerID() int32 {
	if p.c.Active() {
		return p.id
	}
	return p.metadata.Current().Controller
}

// settleISR handles the controller's answer; without one, the leader asks again.
func (p *process) settleISR(r *replica, answer kmsg.Response) {
	if answer == nil {
		return
	}
	resp := answer.(*kmsg.AlterPartitionResponse)
	if resp.ErrorCode != 0 {
		return
	}
	part := resp.Topics[0].Partitions[0]
	switch err := kerr.ErrorForCode(part.ErrorCode); err {
	case nil:
		if part.PartitionEpoch >= r.partitionEpoch && part.LeaderEpoch == r.leaderEpoch {
			r.isr, r.partitionEpoch = part.ISR, part.PartitionEpoch
		}
		r.proposed = nil
	case kerr.OperationNotAttempted, kerr.IneligibleReplica:
		r.proposed = nil
	case kerr.FencedLeaderEpoch, kerr.InvalidUpdateVersion, kerr.InvalidRequest:
		r.asking = true // a LeaderAndIsr with the truth is on its way
	}
}
