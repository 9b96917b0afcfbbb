package api

import (
	"testing"

	"barnabas/broker/metadata"
)

func TestElectionShown(t *testing.T) {
	tests := []struct {
		name    string
		leader  int32
		unclean bool
		want    bool
	}{
		{"preferred leads", 2, false, true},
		{"another leads", 1, false, false},
		{"nobody leads", metadata.NoLeader, false, false},
		{"unclean, somebody leads", 1, true, true},
		{"unclean, nobody leads", metadata.NoLeader, true, false},
	}
	for _, test := range tests {
		snapshot := &metadata.Snapshot{Topics: map[string]*metadata.Topic{"t": {Name: "t", Partitions: []metadata.Partition{
			{Leader: test.leader, Replicas: []int32{2, 1}}}}}}
		if got := electionShown(snapshot, "t", 0, test.unclean); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
		if !electionShown(snapshot, "t", 1, test.unclean) {
			t.Errorf("%s: waits for a partition that no longer exists", test.name)
		}
	}
}
