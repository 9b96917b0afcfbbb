// Package placement spreads the replicas of a topic over the brokers and their racks.
package placement

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Broker is a broker that replicas can be assigned to.
type Broker struct {
	ID   int32
	Rack string // empty: none
}

// errMixedRacks reports that some brokers have a rack and others do not, so that replicas cannot be spread over racks.
var errMixedRacks = errors.New("some brokers have a rack and some have none, so racks cannot be taken into account")

// Start says where to begin. The zero value is a fixed place; use Random for a new topic.
type Start struct {
	First          int // index of the first partition's first broker
	Shift          int // between the first and the second replica
	FirstPartition int // number of the first new partition: lower ones exist already
}

// Random returns a start for a new topic, so that topics do not accumulate on the first brokers.
func Random(brokers int) Start {
	if brokers == 0 {
		return Start{}
	}
	return Start{First: rand.IntN(brokers), Shift: rand.IntN(brokers)}
}

// Assign spreads partitions over brokers: the first replicas over the brokers in turn, and the other replicas of a
// partition over the remaining ones; with racks, each replica on another rack as long as there are enough
// (AdminUtils.assignReplicasToBrokers, 3.9). The result is by partition number.
//
// Errors: INVALID_PARTITIONS and INVALID_REPLICATION_FACTOR, or errMixedRacks.
func Assign(brokers []Broker, partitions, replicationFactor int, at Start) (map[int32][]int32, error) {
	if partitions <= 0 {
		return nil, fmt.Errorf("%d partitions: at least 1 is needed: %w", partitions, kerr.InvalidPartitions)
	}
	if largest := max(at.FirstPartition, 0) + partitions; largest > maxPartitions {
		return nil, fmt.Errorf("%d partitions: a topic can have %d at most: %w", largest, maxPartitions, kerr.InvalidPartitions)
	}
	if replicationFactor <= 0 {
		return nil, fmt.Errorf("replication factor %d: at least 1 is needed: %w", replicationFactor, kerr.InvalidReplicationFactor)
	}
	if replicationFactor > len(brokers) {
		return nil, fmt.Errorf("replication factor %d exceeds the %d available brokers: %w", replicationFactor, len(brokers), kerr.InvalidReplicationFactor)
	}
	s, err := newSpread(brokers)
	if err != nil {
		return nil, err
	}
	shift := max(at.Shift, 0)
	assignment := make(map[int32][]int32, partitions)
	for i := range partitions {
		p := max(at.FirstPartition, 0) + i
		if p > 0 && p%len(s.order) == 0 {
			shift++
		}
		assignment[int32(p)] = s.replicas((p+at.First)%len(s.order), shift, replicationFactor)
	}
	return assignment, nil
}

// maxPartitions bounds a topic's partitions, and so the memory for what clients ask for. The node of a topic with more
// would have some 7 MB, of which ZooKeeper's servers accept one by default (jute.maxbuffer).
const maxPartitions = 1 << 19

// After returns the start for partitions that are added to a topic: counted from the broker with partition
// 0's first replica, or the next one if that is gone.
func After(brokers []Broker, firstReplica int32, partitions int) Start {
	ids := make([]int32, len(brokers))
	for i, b := range brokers {
		ids[i] = b.ID
	}
	slices.Sort(ids)
	start := max(0, slices.IndexFunc(ids, func(id int32) bool { return id >= firstReplica }))
	return Start{First: start, Shift: start, FirstPartition: partitions}
}

// spread is the order in which brokers get replicas.
type spread struct {
	order []Broker
	racks int // 0: racks are not considered
}

func newSpread(brokers []Broker) (spread, error) {
	order := slices.Clone(brokers)
	slices.SortFunc(order, func(a, b Broker) int { return int(a.ID) - int(b.ID) })
	byRack := make(map[string][]Broker)
	for _, b := range order {
		byRack[b.Rack] = append(byRack[b.Rack], b)
	}
	_, some := byRack[""]
	switch {
	case some && len(byRack) == 1:
		return spread{order: order}, nil
	case some:
		return spread{}, errMixedRacks
	}
	return spread{order: interleave(byRack, len(order)), racks: len(byRack)}, nil
}

// interleave takes a broker from each rack in turn, ordered by the racks' names.
func interleave(byRack map[string][]Broker, n int) []Broker {
	racks := slices.Sorted(maps.Keys(byRack))
	order := make([]Broker, 0, n)
	for i := 0; len(order) < n; i++ {
		for _, rack := range racks {
			if i < len(byRack[rack]) {
				order = append(order, byRack[rack][i])
			}
		}
	}
	return order
}

// replicas returns the brokers of one partition: the one at first, then others at increasing distances, skipping those
// whose rack, or which themselves, already have a replica while another has none.
func (s spread) replicas(first, shift, n int) []int32 {
	chosen := []int32{s.order[first].ID}
	used := map[string]bool{s.order[first].Rack: true}
	for k := 0; len(chosen) < n; k++ {
		b := s.order[s.index(first, shift, k)]
		rackTaken := s.racks > 0 && used[b.Rack] && len(used) < s.racks
		brokerTaken := slices.Contains(chosen, b.ID)
		if rackTaken || brokerTaken {
			continue
		}
		chosen = append(chosen, b.ID)
		used[b.Rack] = true
	}
	return chosen
}

// index returns the position of the k-th candidate after the first replica. Without racks, the shift moves all of them;
// with racks it counts in rounds over the racks, so that a candidate's rack does not depend on it.
func (s spread) index(first, shift, k int) int {
	n := len(s.order)
	if n == 1 {
		return first
	}
	if s.racks > 0 {
		shift *= s.racks
	}
	return (first + 1 + (shift+k)%(n-1)) % n
}
