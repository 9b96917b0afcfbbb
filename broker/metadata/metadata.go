// Package metadata is a broker's metadata: which brokers are alive, which topics exist, and who leads their partitions.
//
// A Snapshot is immutable. Each UpdateMetadata request of the controller creates the next one from the last, and a
// Cache replaces it as a whole, so that a handler sees a consistent snapshot without taking a lock. The package knows
// nothing about logs, znodes or sockets.
package metadata

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"barnabas/internal/await"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Values of a leader field that are not broker ids (LeaderAndIsr, 3.9).
const (
	NoLeader           = -1
	LeaderDuringDelete = -2
)

// Snapshot is the cluster as of one UpdateMetadata. It is immutable.
type Snapshot struct {
	Controller int32 // -1: unknown
	Brokers    map[int32]*Broker
	Topics     map[string]*Topic

	names map[[16]byte]string
}

// Broker is a broker that is alive.
type Broker struct {
	ID        int32
	Rack      *string
	Endpoints map[string]Endpoint // by listener name
}

// Address returns the address of a listener, host:port, or an empty string if there is no such listener.
func (b *Broker) Address(listener string) string {
	e, ok := b.Endpoints[listener]
	if !ok {
		return ""
	}
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

// Endpoint is the address of a broker's listener.
type Endpoint struct {
	Host string
	Port int32
}

// Topic is a topic with its partitions, indexed by number without gaps unless the controller left one.
type Topic struct {
	Name       string
	ID         [16]byte // zero: none
	Partitions []Partition
}

// Partition is the state of a partition as announced by the controller.
type Partition struct {
	Number          int32
	Leader          int32 // or NoLeader or LeaderDuringDelete
	LeaderEpoch     int32
	ControllerEpoch int32
	PartitionEpoch  int32
	Replicas        []int32
	ISR             []int32
	Offline         []int32 // replicas in a failed log directory
}

// Leaderless reports whether the partition has no leader.
func (p *Partition) Leaderless() bool { return p.Leader < 0 }

// UnderReplicated reports whether the partition has a leader and some of its replicas are not in sync.
func (p *Partition) UnderReplicated() bool { return p.Leader >= 0 && len(p.ISR) < len(p.Replicas) }

// Partition returns a partition of the topic.
func (t *Topic) Partition(number int32) (*Partition, bool) {
	if t == nil {
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(t.Partitions, number, func(p Partition, n int32) int { return int(p.Number - n) })
	if !ok {
		return nil, false
	}
	return &t.Partitions[i], true
}

// Partition returns a partition of a topic.
func (sn *Snapshot) Partition(topic string, number int32) (*Partition, bool) {
	return sn.Topics[topic].Partition(number)
}

// TopicName returns the name of the topic with the given id.
func (sn *Snapshot) TopicName(id [16]byte) (string, bool) {
	name, ok := sn.names[id]
	return name, ok
}

// Cache holds the newest Snapshot.
type Cache struct {
	// Changed is notified when there is a new snapshot.
	Changed await.Signal

	current atomic.Pointer[Snapshot]
	update  sync.Mutex // one update at a time
}

// NewCache returns a Cache with an empty snapshot.
func NewCache() *Cache {
	c := &Cache{}
	c.current.Store(&Snapshot{Controller: -1})
	return c
}

// Current returns the newest snapshot.
func (c *Cache) Current() *Snapshot { return c.current.Load() }

// Update creates the next snapshot from an UpdateMetadata request of any version: live brokers and the controller are
// replaced, topics are merged, and partitions with LeaderDuringDelete are dropped.
func (c *Cache) Update(req *kmsg.UpdateMetadataRequest) {
	c.update.Lock()
	defer c.update.Unlock()
	old := c.current.Load()
	next := &Snapshot{Controller: req.ControllerID, Brokers: brokers(req), Topics: old.Topics, names: old.names}
	if topics := topicStates(req); len(topics) != 0 {
		next.Topics, next.names = maps.Clone(old.Topics), maps.Clone(old.names)
		if next.Topics == nil {
			next.Topics, next.names = make(map[string]*Topic), make(map[[16]byte]string)
		}
		for i := range topics {
			next.merge(&topics[i])
		}
	}
	c.current.Store(next)
	c.Changed.Notify()
}

// Forget drops a topic that was deleted without this broker being told. It does nothing and returns false if the topic
// was updated since the snapshot that it is from.
func (c *Cache) Forget(topic *Topic) bool {
	c.update.Lock()
	defer c.update.Unlock()
	old := c.current.Load()
	if old.Topics[topic.Name] != topic {
		return false
	}
	next := *old
	next.Topics, next.names = maps.Clone(old.Topics), maps.Clone(old.names)
	delete(next.Topics, topic.Name)
	delete(next.names, topic.ID)
	c.current.Store(&next)
	c.Changed.Notify()
	return true
}

func brokers(req *kmsg.UpdateMetadataRequest) map[int32]*Broker {
	live := make(map[int32]*Broker, len(req.LiveBrokers))
	for i := range req.LiveBrokers {
		b := &req.LiveBrokers[i]
		broker := &Broker{ID: b.ID, Rack: b.Rack, Endpoints: make(map[string]Endpoint, len(b.Endpoints))}
		for _, e := range b.Endpoints {
			name := e.ListenerName
			if name == "" { // before v3 a listener is named after its protocol
				name = protocolNames[e.SecurityProtocol]
			}
			broker.Endpoints[name] = Endpoint{e.Host, e.Port}
		}
		if len(b.Endpoints) == 0 { // v0
			broker.Endpoints["PLAINTEXT"] = Endpoint{Host: b.Host, Port: b.Port}
		}
		live[b.ID] = broker
	}
	return live
}

var protocolNames = map[int16]string{0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}

// topicStates returns the request's topics in the form of version 5.
func topicStates(req *kmsg.UpdateMetadataRequest) []kmsg.UpdateMetadataRequestTopicState {
	if len(req.PartitionStates) == 0 {
		return req.TopicStates
	}
	var topics []kmsg.UpdateMetadataRequestTopicState
	index := make(map[string]int)
	for _, p := range req.PartitionStates {
		i, ok := index[p.Topic]
		if !ok {
			i = len(topics)
			index[p.Topic] = i
			topics = append(topics, kmsg.UpdateMetadataRequestTopicState{Topic: p.Topic})
		}
		topics[i].PartitionStates = append(topics[i].PartitionStates, p)
	}
	return topics
}

func (sn *Snapshot) merge(state *kmsg.UpdateMetadataRequestTopicState) {
	old := sn.Topics[state.Topic]
	next := &Topic{Name: state.Topic, ID: state.TopicID}
	if old != nil {
		if next.ID == ([16]byte{}) {
			next.ID = old.ID
		}
		if next.ID == old.ID || old.ID == ([16]byte{}) { // otherwise another topic has taken its place
			next.Partitions = slices.Clone(old.Partitions)
		}
		delete(sn.names, old.ID)
	}
	for i := range state.PartitionStates {
		next.set(&state.PartitionStates[i])
	}
	if len(next.Partitions) == 0 {
		delete(sn.Topics, state.Topic)
		return
	}
	sn.Topics[state.Topic] = next
	if next.ID != ([16]byte{}) {
		sn.names[next.ID] = next.Name
	}
}

func (t *Topic) set(s *kmsg.UpdateMetadataRequestTopicPartition) {
	i, found := slices.BinarySearchFunc(t.Partitions, s.Partition, func(p Partition, n int32) int { return int(p.Number - n) })
	if s.Leader == LeaderDuringDelete {
		if found {
			t.Partitions = slices.Delete(t.Partitions, i, i+1)
		}
		return
	}
	p := Partition{
		Number: s.Partition, Leader: s.Leader, LeaderEpoch: s.LeaderEpoch, ControllerEpoch: s.ControllerEpoch,
		PartitionEpoch: s.ZKVersion, Replicas: s.Replicas, ISR: s.ISR, Offline: s.OfflineReplicas,
	}
	if found {
		t.Partitions[i] = p
	} else {
		t.Partitions = slices.Insert(t.Partitions, i, p)
	}
}
