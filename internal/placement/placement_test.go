package placement

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

func unracked(n int) []Broker {
	brokers := make([]Broker, n)
	for i := range brokers {
		brokers[i].ID = int32(i)
	}
	return brokers
}

var racked = []Broker{{0, "r1"}, {1, "r3"}, {2, "r3"}, {3, "r2"}, {4, "r2"}, {5, "r1"}}

// TestAssign: the expected tables were computed by AdminUtils of Apache Kafka 3.9.2 with a fixed start.
func TestAssign(t *testing.T) {
	tests := []struct {
		name       string
		brokers    []Broker
		partitions int
		factor     int
		want       map[int32][]int32 // only these are compared
	}{
		{"no racks", unracked(5), 10, 3, map[int32][]int32{
			0: {0, 1, 2}, 1: {1, 2, 3}, 2: {2, 3, 4}, 3: {3, 4, 0}, 4: {4, 0, 1},
			5: {0, 2, 3}, 6: {1, 3, 4}, 7: {2, 4, 0}, 8: {3, 0, 1}, 9: {4, 1, 2}}},
		{"racks, three replicas", racked, 7, 3, map[int32][]int32{
			0: {0, 3, 1}, 1: {3, 1, 5}, 2: {1, 5, 4}, 3: {5, 4, 2}, 4: {4, 2, 0}, 5: {2, 0, 3}, 6: {0, 4, 2}}},
		{"racks, two replicas", racked, 13, 2, map[int32][]int32{
			6: {0, 4}, 7: {3, 2}, 8: {1, 0}, 9: {5, 3}, 10: {4, 1}, 11: {2, 5}, 12: {0, 1}}},
		{"more replicas than racks", racked, 1, 4, map[int32][]int32{0: {0, 3, 1, 5}}},
		{"one broker", unracked(1), 2, 1, map[int32][]int32{0: {0}, 1: {0}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Assign(test.brokers, test.partitions, test.factor, Start{})
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != test.partitions {
				t.Fatalf("%d partitions", len(got))
			}
			for p, want := range test.want {
				if diff := cmp.Diff(want, got[p]); diff != "" {
					t.Errorf("partition %d: %s", p, diff)
				}
			}
		})
	}
}

// TestAssignSpreads: leaderships are spread evenly over the brokers, and each partition over as many racks as possible.
func TestAssignSpreads(t *testing.T) {
	racks := func(names string) []Broker {
		var all []Broker
		for i, r := range names {
			all = append(all, Broker{int32(i), strings.TrimSpace(string(r))})
		}
		return all
	}
	for _, test := range []struct {
		name               string
		brokers            []Broker
		partitions, factor int
		distinctRacks      int // of the replicas of each partition
	}{
		{"one broker", racks(" "), 4, 1, 1},
		{"no racks", racks("     "), 20, 3, 1},
		{"two racks", racks("aabb"), 16, 2, 2},
		{"uneven racks", racks("aaab"), 16, 2, 2},
		{"more replicas than racks", racks("aabb"), 8, 3, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			leaders := make(map[int32]int)
			assigned, err := Assign(test.brokers, test.partitions, test.factor, Start{First: 1, Shift: 1})
			if err != nil {
				t.Fatal(err)
			}
			for p, replicas := range assigned {
				seen := make(map[string]bool)
				for _, id := range replicas {
					seen[test.brokers[id].Rack] = true
				}
				if len(replicas) != test.factor || len(slices.Compact(slices.Sorted(slices.Values(replicas)))) != test.factor {
					t.Errorf("partition %d has the replicas %v", p, replicas)
				}
				if len(seen) < test.distinctRacks {
					t.Errorf("partition %d is on only %d racks: %v", p, len(seen), replicas)
				}
				leaders[replicas[0]]++
			}
			for id, n := range leaders {
				if want := test.partitions / len(test.brokers); n != want {
					t.Errorf("broker %d leads %d partitions, want %d", id, n, want)
				}
			}
		})
	}
}

func TestAssignRefuses(t *testing.T) {
	tests := []struct {
		name               string
		brokers            []Broker
		partitions, factor int
		want               error
	}{
		{"no partitions", unracked(1), 0, 1, kerr.InvalidPartitions},
		{"more partitions than memory", unracked(1), math.MaxInt32, 1, kerr.InvalidPartitions},
		{"no replicas", unracked(1), 1, 0, kerr.InvalidReplicationFactor},
		{"too many replicas", unracked(2), 1, 3, kerr.InvalidReplicationFactor},
		{"racks on some brokers only", []Broker{{0, "a"}, {1, ""}}, 1, 1, errMixedRacks},
	}
	for _, test := range tests {
		if _, err := Assign(test.brokers, test.partitions, test.factor, Start{}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
