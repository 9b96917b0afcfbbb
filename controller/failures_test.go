package controller_test

import (
	"slices"
	"testing"

	"barnabas/controller"
	"barnabas/internal/testwait"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// awaitDeleted waits until no deletion of a topic is pending.
func (k *cluster) awaitDeleted() {
	k.t.Helper()
	testwait.See(k.t, "all topics are deleted", func() ([]string, bool) {
		left, err := k.sessions[0].WatchTopicDeletions(k.t.Context())
		if err != nil {
			k.t.Fatal(err)
		}
		return left, len(left) == 0
	})
}

// TestDeletionWaitsForABroker: a deletion continues when the broker of a replica returns.
func TestDeletionWaitsForABroker(t *testing.T) {
	k := startCluster(t, 0, 1)
	tp := zkcoord.TopicPartition{Topic: "t"}
	k.create("t", map[int32][]int32{0: {0, 1}}, nil)
	k.awaitLeader(0, tp, 0, 0, 0, 1)
	k.leave(1)
	k.awaitLeader(0, tp, 0, 1, 0)
	if err := k.sessions[0].RequestTopicDeletion(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	k.brokers.await(t, "the live replica is deleted", func() bool { return len(k.brokers.mu.deleted) == 1 })
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version = 2
	topic := kmsg.NewElectLeadersRequestTopic()
	topic.Topic, topic.Partitions = "t", []int32{0}
	elect.Topics = append(elect.Topics, topic)
	if p := k.c.ElectLeaders(t.Context(), elect).Topics[0].Partitions[0]; p.ErrorCode != kerr.InvalidTopicException.Code {
		t.Fatalf("election in a topic that is being deleted: %+v", p)
	}
	testwait.Until(t, "the replica that is down is counted", func() bool {
		return k.c.Deletions() == controller.DeletionCounts{Topics: 1, Replicas: 1, HeldTopics: 1, FailedReplicas: 1}
	})
	k.join(1)
	k.awaitDeleted()
	testwait.Until(t, "nothing is left to be deleted", func() bool { return k.c.Deletions() == controller.DeletionCounts{} })
	if topics, err := k.sessions[0].Topics(t.Context()); err != nil || len(topics) != 0 {
		t.Fatal(topics, err)
	}
}

func TestLogDirFailure(t *testing.T) {
	k := startCluster(t, 0, 1)
	tp := zkcoord.TopicPartition{Topic: "t"}
	k.create("t", map[int32][]int32{0: {1, 0}}, nil)
	k.awaitLeader(0, tp, 1, 0, 1, 0)
	k.brokers.mu.Lock()
	k.brokers.mu.storage[1] = true
	k.brokers.mu.Unlock()
	if err := k.sessions[1].NotifyLogDirFailure(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	k.awaitLeader(0, tp, 0, 1, 0)
	k.brokers.await(t, "offline replica", func() bool {
		return slices.Equal(k.brokers.mu.metadata[0][tp].OfflineReplicas, []int32{1})
	})
}

// TestLogDirIsBack: a replica whose log directory failed, or was full, becomes the leader again when its broker asks to
// have its roles repeated.
func TestLogDirIsBack(t *testing.T) {
	k := startCluster(t, 0, 1)
	tp := zkcoord.TopicPartition{Topic: "t"}
	k.create("t", map[int32][]int32{0: {1}}, nil)
	k.awaitLeader(0, tp, 1, 0, 1)
	turn := func(failed bool) {
		k.brokers.mu.Lock()
		k.brokers.mu.storage[1] = failed
		k.brokers.mu.Unlock()
		if err := k.sessions[1].NotifyLogDirFailure(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	turn(true)
	k.awaitLeader(0, tp, -1, 1, 1)
	turn(false)
	k.awaitLeader(0, tp, 1, 2, 1)
}

// TestLegacyRequests: requests that old tools make through znodes.
func TestLegacyRequests(t *testing.T) {
	ctx := t.Context()
	k := startCluster(t, 0, 1)
	tp := zkcoord.TopicPartition{Topic: "t"}
	k.create("t", map[int32][]int32{0: {1, 0}}, nil)
	k.awaitLeader(0, tp, 1, 0, 1, 0)
	gone := func(what string, present func() (bool, error)) {
		t.Helper()
		testwait.Until(t, what+" are gone", func() bool {
			there, err := present()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			return !there
		})
	}
	ask := map[zkcoord.TopicPartition][]int32{tp: {0, 1}, {Topic: "unknown"}: {0}, {Topic: "t", Partition: 7}: {0}}
	if _, err := k.sessions[1].RequestReassignments(ctx, ask); err != nil {
		t.Fatal(err)
	}
	gone("reassignments", func() (bool, error) {
		_, present, err := k.sessions[1].WatchReassignments(ctx)
		return present, err
	})
	k.awaitLeader(0, tp, 1, 1, 1, 0) // only the order has changed
	if _, err := k.sessions[1].RequestPreferredElection(ctx, []zkcoord.TopicPartition{tp, {Topic: "unknown"}}); err != nil {
		t.Fatal(err)
	}
	k.awaitLeader(0, tp, 0, 2, 1, 0)
	gone("elections", func() (bool, error) {
		_, present, err := k.sessions[1].WatchPreferredElection(ctx)
		return present, err
	})
}

func TestUncleanElection(t *testing.T) {
	k := startCluster(t, 0, 1, 2)
	tp := zkcoord.TopicPartition{Topic: "t"}
	k.create("t", map[int32][]int32{0: {1, 2}}, map[string]string{"unclean.leader.election.enable": "true"})
	k.awaitLeader(0, tp, 1, 0, 1, 2)
	k.leave(2)
	k.awaitLeader(0, tp, 1, 1, 1)
	k.leave(1)
	k.awaitLeader(0, tp, -1, 2, 1)
	k.join(2)
	k.awaitLeader(0, tp, 2, 3, 2)
	if n := k.c.UncleanElections(); n != 1 {
		t.Errorf("%d unclean elections counted", n)
	}
}

func TestNotTheController(t *testing.T) {
	k := startCluster(t, 0, 1)
	other := k.run(1)
	if resp := other.AlterPartition(t.Context(), kmsg.NewPtrAlterPartitionRequest()); resp.ErrorCode != kerr.NotController.Code {
		t.Errorf("%+v", resp)
	}
	if resp := other.ControlledShutdown(t.Context(), kmsg.NewPtrControlledShutdownRequest()); resp.ErrorCode != kerr.StaleControllerEpoch.Code {
		t.Errorf("%+v", resp)
	}
	if resp := other.AllocateProducerIDs(t.Context(), kmsg.NewPtrAllocateProducerIDsRequest()); resp.ErrorCode != kerr.NotController.Code {
		t.Errorf("%+v", resp)
	}
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = 1, k.epochs[1]
	if resp := k.c.AllocateProducerIDs(t.Context(), req); resp.ErrorCode != 0 || resp.ProducerIDLen != 1000 {
		t.Errorf("%+v", resp)
	}
	req.BrokerEpoch++
	if resp := k.c.AllocateProducerIDs(t.Context(), req); resp.ErrorCode != kerr.StaleBrokerEpoch.Code {
		t.Errorf("%+v", resp)
	}
}
