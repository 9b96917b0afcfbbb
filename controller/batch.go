package controller

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	leaderDuringDelete = -2 // in UpdateMetadata: the topic is being deleted
	epochDuringDelete  = -2 // in StopReplica: delete whatever the epoch
	noEpoch            = -1
)

// batch collects what brokers have to be told after a step. The content is taken from the model when it is sent, so
// that it reflects the end of the step.
type batch struct {
	leaderAndISR map[int32]map[topicPartition]bool // broker, partition: whether it is new there
	stop         map[int32]map[topicPartition]bool // broker, partition: whether to delete it
	metadataTo   map[int32]struct{}
	metadata     map[topicPartition]struct{}
}

func newBatch() *batch {
	return &batch{
		leaderAndISR: make(map[int32]map[topicPartition]bool),
		stop:         make(map[int32]map[topicPartition]bool),
		metadataTo:   make(map[int32]struct{}),
		metadata:     make(map[topicPartition]struct{}),
	}
}

// lead tells brokers about a partition's leader and ISR, and all brokers about its metadata.
func (b *batch) lead(m *model, brokers []int32, tp topicPartition, isNew bool) {
	for _, id := range brokers {
		add(b.leaderAndISR, id, tp, isNew)
	}
	b.update(m.brokerIDs(), tp)
}

// stopReplica tells a broker to stop following a partition, or to delete its replica.
func (b *batch) stopReplica(broker int32, tp topicPartition, remove bool) {
	add(b.stop, broker, tp, remove)
}

// update tells brokers about the metadata of partitions; without partitions, only about the brokers.
func (b *batch) update(brokers []int32, partitions ...topicPartition) {
	for _, id := range brokers {
		b.metadataTo[id] = struct{}{}
	}
	for _, tp := range partitions {
		b.metadata[tp] = struct{}{}
	}
}

func add(to map[int32]map[topicPartition]bool, broker int32, tp topicPartition, flag bool) {
	if to[broker] == nil {
		to[broker] = make(map[topicPartition]bool)
	}
	to[broker][tp] = to[broker][tp] || flag
}

// message is a request to a broker.
type message struct {
	to  int32
	req kmsg.Request
}

// sender is what every request to a broker says about the controller.
type sender struct {
	id       int32
	epoch    int32
	listener string // the inter-broker listener
	protocol Protocol
}

// messages returns the batch's requests to registered brokers, in the order in which each broker must get them.
func (b *batch) messages(m *model, from sender) []message {
	var out []message
	for _, id := range m.brokerIDs() {
		partitions := maps.Clone(b.leaderAndISR[id])
		maps.DeleteFunc(partitions, func(tp topicPartition, _ bool) bool { p := m.partition(tp); return p == nil || p.state == nil })
		if len(partitions) > 0 {
			out = append(out, message{id, leaderAndISR(m, from, id, partitions)})
		}
	}
	if len(b.metadataTo) > 0 {
		topics, brokers := metadataTopics(m, b.metadata), metadataBrokers(m)
		for _, id := range m.brokerIDs() {
			if _, ok := b.metadataTo[id]; ok {
				out = append(out, message{id, updateMetadata(m, from, id, topics, brokers)})
			}
		}
	}
	for _, id := range m.brokerIDs() {
		if partitions := b.stop[id]; len(partitions) > 0 {
			for _, req := range stopReplica(m, from, id, partitions) {
				out = append(out, message{id, req})
			}
		}
	}
	return out
}

func sorted[V any](partitions map[topicPartition]V) []topicPartition {
	return slices.SortedFunc(maps.Keys(partitions), topicPartition.Compare)
}

// leaderAndISR returns a request about partitions that all have a state.
func leaderAndISR(m *model, from sender, to int32, partitions map[topicPartition]bool) *kmsg.LeaderAndISRRequest {
	req := kmsg.NewPtrLeaderAndISRRequest()
	req.Version = from.protocol.LeaderAndISR
	req.ControllerID, req.ControllerEpoch = from.id, from.epoch
	req.BrokerEpoch = m.brokers[to].info.Epoch
	leaders := make(map[int32]struct{})
	for _, tp := range sorted(partitions) {
		p := m.partition(tp)
		s := kmsg.NewLeaderAndISRRequestTopicPartition()
		s.Topic, s.Partition = tp.Topic, tp.Partition
		s.ControllerEpoch = p.state.ControllerEpoch
		s.Leader, s.LeaderEpoch, s.ISR, s.ZKVersion = p.state.Leader, p.state.LeaderEpoch, p.state.ISR, p.state.PartitionEpoch
		s.Replicas, s.AddingReplicas, s.RemovingReplicas = p.replicas, p.adding, p.removing
		s.IsNew = partitions[tp]
		if p.state.Recovering && from.protocol.LeaderRecovery {
			s.LeaderRecoveryState = 1
		}
		leaders[s.Leader] = struct{}{}
		if req.Version < 2 {
			req.PartitionStates = append(req.PartitionStates, s)
			continue
		}
		if n := len(req.TopicStates); n == 0 || req.TopicStates[n-1].Topic != tp.Topic {
			t := kmsg.NewLeaderAndISRRequestTopicState()
			t.Topic, t.TopicID = tp.Topic, m.topics[tp.Topic].id
			req.TopicStates = append(req.TopicStates, t)
		}
		t := &req.TopicStates[len(req.TopicStates)-1]
		t.PartitionStates = append(t.PartitionStates, s)
	}
	for _, id := range slices.Sorted(maps.Keys(leaders)) {
		b := m.brokers[id]
		if b == nil {
			continue
		}
		if e, ok := b.info.Endpoint(from.listener); ok {
			live := kmsg.NewLeaderAndISRRequestLiveLeader()
			live.BrokerID, live.Host, live.Port = id, e.Host, e.Port
			req.LiveLeaders = append(req.LiveLeaders, live)
		}
	}
	return req
}

func metadataTopics(m *model, partitions map[topicPartition]struct{}) []kmsg.UpdateMetadataRequestTopicState {
	var topics []kmsg.UpdateMetadataRequestTopicState
	for _, tp := range sorted(partitions) {
		p := m.partition(tp)
		if p == nil || p.state == nil {
			continue // no leader was ever elected: nothing to tell yet
		}
		s := kmsg.NewUpdateMetadataRequestTopicPartition()
		s.Topic, s.Partition = tp.Topic, tp.Partition
		s.ControllerEpoch = p.state.ControllerEpoch
		s.Leader, s.LeaderEpoch, s.ISR, s.ZKVersion = p.state.Leader, p.state.LeaderEpoch, p.state.ISR, p.state.PartitionEpoch
		if m.deleting(tp) {
			s.Leader, s.LeaderEpoch, s.ZKVersion = leaderDuringDelete, 0, 0
		}
		s.Replicas = p.replicas
		s.OfflineReplicas = filter(p.replicas, func(id int32) bool { return !m.online(id, tp) })
		if n := len(topics); n == 0 || topics[n-1].Topic != tp.Topic {
			t := kmsg.NewUpdateMetadataRequestTopicState()
			t.Topic, t.TopicID = tp.Topic, m.topics[tp.Topic].id
			topics = append(topics, t)
		}
		t := &topics[len(topics)-1]
		t.PartitionStates = append(t.PartitionStates, s)
	}
	return topics
}

// securityProtocols maps the protocols to their numbers on the wire.
var securityProtocols = map[string]int16{"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

func metadataBrokers(m *model) []kmsg.UpdateMetadataRequestLiveBroker {
	var brokers []kmsg.UpdateMetadataRequestLiveBroker
	for _, id := range m.brokerIDs() {
		info := m.brokers[id].info
		live := kmsg.NewUpdateMetadataRequestLiveBroker()
		live.ID, live.Rack = id, info.Rack
		for _, e := range info.Endpoints {
			end := kmsg.NewUpdateMetadataRequestLiveBrokerEndpoint()
			end.Host, end.Port, end.ListenerName, end.SecurityProtocol = e.Host, e.Port, e.Name, securityProtocols[e.Protocol]
			live.Endpoints = append(live.Endpoints, end)
		}
		brokers = append(brokers, live)
	}
	return brokers
}

func updateMetadata(m *model, from sender, to int32, topics []kmsg.UpdateMetadataRequestTopicState, brokers []kmsg.UpdateMetadataRequestLiveBroker) *kmsg.UpdateMetadataRequest {
	req := kmsg.NewPtrUpdateMetadataRequest()
	req.Version = from.protocol.UpdateMetadata
	req.ControllerID, req.ControllerEpoch = from.id, from.epoch
	req.BrokerEpoch = m.brokers[to].info.Epoch
	req.LiveBrokers = brokers
	if req.Version >= 5 {
		req.TopicStates = topics
		return req
	}
	for _, t := range topics {
		req.PartitionStates = append(req.PartitionStates, t.PartitionStates...)
	}
	return req
}

// stopReplica returns one request or, before version 3, one for the replicas to delete and one for the others.
func stopReplica(m *model, from sender, to int32, partitions map[topicPartition]bool) []kmsg.Request {
	var reqs []kmsg.Request
	for _, remove := range []bool{true, false} {
		req := kmsg.NewPtrStopReplicaRequest()
		req.Version = from.protocol.StopReplica
		req.ControllerID, req.ControllerEpoch = from.id, from.epoch
		req.BrokerEpoch = m.brokers[to].info.Epoch
		req.DeletePartitions = remove
		for _, tp := range sorted(partitions) {
			if req.Version >= 3 || partitions[tp] == remove {
				addStop(req, tp, stopEpoch(m, tp), partitions[tp])
			}
		}
		if len(req.Topics) > 0 {
			reqs = append(reqs, req)
		}
		if req.Version >= 3 {
			break
		}
	}
	return reqs
}

func addStop(req *kmsg.StopReplicaRequest, tp topicPartition, epoch int32, remove bool) {
	if n := len(req.Topics); n == 0 || req.Version == 0 || req.Topics[n-1].Topic != tp.Topic {
		t := kmsg.NewStopReplicaRequestTopic()
		t.Topic, t.Partition = tp.Topic, tp.Partition
		req.Topics = append(req.Topics, t)
	}
	t := &req.Topics[len(req.Topics)-1]
	t.Partitions = append(t.Partitions, tp.Partition)
	s := kmsg.NewStopReplicaRequestTopicPartitionState()
	s.Partition, s.LeaderEpoch, s.Delete = tp.Partition, epoch, remove
	t.PartitionStates = append(t.PartitionStates, s)
}

func stopEpoch(m *model, tp topicPartition) int32 {
	switch p := m.partition(tp); {
	case m.deleting(tp):
		return epochDuringDelete
	case p == nil || p.state == nil:
		return noEpoch
	default:
		return p.state.LeaderEpoch
	}
}
