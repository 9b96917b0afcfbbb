package controller

import (
	"cmp"
	"maps"
	"slices"

	"barnabas/zkcoord"
)

type topicPartition = zkcoord.TopicPartition

// model is the cluster as the controller knows it: the state in ZooKeeper, and the progress of the controller's own
// operations. Only the loop uses it.
type model struct {
	brokers     map[int32]*broker // the registered ones
	topics      map[string]*topic
	names       map[zkcoord.ID]string
	reassigning map[topicPartition]struct{}
}

// broker is a registered broker.
type broker struct {
	info         zkcoord.BrokerInfo
	shuttingDown bool
	offline      map[topicPartition]struct{} // replicas in its failed log directories
}

type topic struct {
	name       string
	id         zkcoord.ID
	version    int32 // of its node
	partitions map[int32]*partition
	deletion   *deletion // nil: it is not being deleted
}

type partition struct {
	assignment
	state *zkcoord.PartitionState // nil: it has none yet
}

// assignment is where a partition's replicas are, and how a reassignment changes that.
type assignment struct {
	replicas []int32 // the preferred leader first; the target's, then those to be removed
	adding   []int32
	removing []int32
}

func newModel() *model {
	return &model{
		brokers:     make(map[int32]*broker),
		topics:      make(map[string]*topic),
		names:       make(map[zkcoord.ID]string),
		reassigning: make(map[topicPartition]struct{}),
	}
}

// addTopic adds a topic, or what is new in it, and returns its new partitions in order.
func (m *model) addTopic(info zkcoord.TopicInfo) (added []topicPartition) {
	t := m.topics[info.Name]
	if t != nil && t.id != info.ID && t.id != (zkcoord.ID{}) { // deleted by hand and recreated
		m.removeTopic(info.Name)
		t = nil
	}
	if t == nil {
		t = &topic{name: info.Name, partitions: make(map[int32]*partition, len(info.Partitions))}
		m.topics[info.Name] = t
	}
	t.version = info.Version
	if info.ID != (zkcoord.ID{}) {
		t.id = info.ID
		m.names[info.ID] = info.Name
	}
	for _, p := range slices.Sorted(maps.Keys(info.Partitions)) {
		if _, known := t.partitions[p]; known {
			continue
		}
		tp := topicPartition{Topic: info.Name, Partition: p}
		a := assignment{info.Partitions[p], info.Adding[p], info.Removing[p]}
		t.partitions[p] = &partition{assignment: a}
		if a.moving() {
			m.reassigning[tp] = struct{}{}
		}
		added = append(added, tp)
	}
	return added
}

func (m *model) removeTopic(name string) {
	t := m.topics[name]
	if t == nil {
		return
	}
	for p := range t.partitions {
		tp := topicPartition{Topic: name, Partition: p}
		delete(m.reassigning, tp)
		for _, b := range m.brokers {
			delete(b.offline, tp)
		}
	}
	if m.names[t.id] == name {
		delete(m.names, t.id)
	}
	delete(m.topics, name)
}

// topicInfo returns a topic in the form in which it is written.
func (t *topic) topicInfo() zkcoord.TopicInfo {
	info := zkcoord.TopicInfo{
		Name:       t.name,
		ID:         t.id,
		Version:    t.version,
		Partitions: make(map[int32][]int32, len(t.partitions)),
		Adding:     map[int32][]int32{},
		Removing:   map[int32][]int32{},
	}
	for n, p := range t.partitions {
		info.Partitions[n] = p.replicas
		if len(p.adding) > 0 {
			info.Adding[n] = p.adding
		}
		if len(p.removing) > 0 {
			info.Removing[n] = p.removing
		}
	}
	return info
}

// partition returns a partition, or nil.
func (m *model) partition(tp topicPartition) *partition {
	if t := m.topics[tp.Topic]; t != nil {
		return t.partitions[tp.Partition]
	}
	return nil
}

// deleting reports whether the partition's topic is to be deleted.
func (m *model) deleting(tp topicPartition) bool {
	t := m.topics[tp.Topic]
	return t != nil && t.deletion != nil
}

// online reports whether a replica can serve, and is not about to stop.
func (m *model) online(id int32, tp topicPartition) bool {
	b := m.brokers[id]
	return b != nil && !b.shuttingDown && b.has(tp)
}

// serving is online, but includes brokers that are shutting down.
func (m *model) serving(id int32, tp topicPartition) bool {
	b := m.brokers[id]
	return b != nil && b.has(tp)
}

func (b *broker) has(tp topicPartition) bool {
	_, offline := b.offline[tp]
	return !offline
}

func (m *model) onlineReplicas(tp topicPartition, p *partition) []int32 {
	return filter(p.replicas, func(id int32) bool { return m.online(id, tp) })
}

// leaderless reports whether a partition has no leader that can serve.
func (m *model) leaderless(tp topicPartition, p *partition) bool {
	return p.state == nil || !m.online(p.state.Leader, tp)
}

// partitions lists the partitions that satisfy the condition, in order.
func (m *model) partitions(want func(topicPartition, *partition) bool) []topicPartition {
	var found []topicPartition
	for name, t := range m.topics {
		for n, p := range t.partitions {
			if tp := (topicPartition{Topic: name, Partition: n}); want(tp, p) {
				found = append(found, tp)
			}
		}
	}
	slices.SortFunc(found, topicPartition.Compare)
	return found
}

// hosted lists the partitions with a replica on a broker, in order.
func (m *model) hosted(id int32) []topicPartition {
	return m.partitions(func(_ topicPartition, p *partition) bool { return slices.Contains(p.replicas, id) })
}

// brokerIDs lists the registered brokers, including those that are shutting down, in order.
func (m *model) brokerIDs() []int32 { return slices.Sorted(maps.Keys(m.brokers)) }

// registeredEpoch returns a registered broker's epoch.
func (m *model) registeredEpoch(id int32) (epoch int64, registered bool) {
	b := m.brokers[id]
	if b == nil {
		return 0, false
	}
	return b.info.Epoch, true
}

// liveEpoch returns a live broker's epoch; a broker that is shutting down is not live.
func (m *model) liveEpoch(id int32) (epoch int64, live bool) {
	if b := m.brokers[id]; b != nil && b.shuttingDown {
		return 0, false
	}
	return m.registeredEpoch(id)
}

func filter(ids []int32, keep func(int32) bool) []int32 {
	kept := make([]int32, 0, len(ids))
	for _, id := range ids {
		if keep(id) {
			kept = append(kept, id)
		}
	}
	return kept
}

func without(ids, drop []int32) []int32 {
	return filter(ids, func(id int32) bool { return !slices.Contains(drop, id) })
}

func byTopic(a, b *topic) int { return cmp.Compare(a.name, b.name) }
