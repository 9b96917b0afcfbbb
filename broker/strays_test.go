package broker

import (
	"testing"

	"barnabas/broker/replica"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/google/go-cmp/cmp"
)

func TestStrayReplicas(t *testing.T) {
	id, other := zkcoord.ID{1}, zkcoord.ID{2}
	topics := []zkcoord.TopicInfo{
		{Name: "here", ID: id, Partitions: map[int32][]int32{0: {1, 2}, 1: {2, 3}}},
		{Name: "moving", ID: id, Partitions: map[int32][]int32{0: {3, 1}}, Removing: map[int32][]int32{0: {1}}},
		{Name: "old", Partitions: map[int32][]int32{0: {1}}},
	}
	names := []string{"here", "moving", "old", "unreadable"}
	tests := []struct {
		name  string
		tp    logstore.TopicPartition
		topic [16]byte
		stray bool
	}{
		{"its own", logstore.TopicPartition{Topic: "here"}, id, false},
		{"id not known", logstore.TopicPartition{Topic: "here"}, [16]byte{}, false},
		{"of an earlier topic", logstore.TopicPartition{Topic: "here"}, other, true},
		{"moved away", logstore.TopicPartition{Topic: "here", Partition: 1}, id, true},
		{"no such partition", logstore.TopicPartition{Topic: "here", Partition: 2}, id, true},
		{"about to move", logstore.TopicPartition{Topic: "moving"}, id, false},
		{"topic without an id", logstore.TopicPartition{Topic: "old"}, id, false},
		{"topic cannot be read", logstore.TopicPartition{Topic: "unreadable"}, id, false},
		{"topic deleted", logstore.TopicPartition{Topic: "gone"}, id, true},
	}
	for _, test := range tests {
		local := []localReplica{{test.tp, test.topic, replica.NotHosted}}
		var want []localReplica
		if test.stray {
			want = local
		}
		if diff := cmp.Diff(want, strayReplicas(1, local, names, topics), cmp.AllowUnexported(localReplica{})); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestAssigned(t *testing.T) {
	topics := []zkcoord.TopicInfo{{Name: "t", Partitions: map[int32][]int32{0: {1, 2}, 1: {3}}}}
	for tp, want := range map[logstore.TopicPartition]bool{{Topic: "t"}: true, {Topic: "t", Partition: 1}: false, {Topic: "t", Partition: 2}: false, {Topic: "u"}: false} {
		if got := assigned(1, tp, topics); got != want {
			t.Errorf("%v: %t", tp, got)
		}
	}
}
