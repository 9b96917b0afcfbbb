package kafkatest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"barnabas/internal/testwait"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBrokerWasAwayWhileReplicasLeft: a broker was down while a replica was moved to another broker and topics with
// replicas on it were deleted. When it returns, it has neither their directories nor the topics in its metadata.
func TestBrokerWasAwayWhileReplicasLeft(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(3))
	cl := client(t, c)
	adm := kadm.NewClient(cl)
	for _, topic := range []string{"moved", "moved-then-deleted", "deleted", "stays"} {
		createOn(t, cl, topic, 2, 0)
		produce(t, cl, topic, 0, 5)
	}
	c.Broker(2).Stop()
	move := make(kadm.AlterPartitionAssignmentsReq)
	move.Assign("moved", 0, []int32{0, 1})
	move.Assign("moved-then-deleted", 0, []int32{0, 1})
	if moves, err := adm.AlterPartitionAssignments(t.Context(), move); err != nil || moves.Error() != nil {
		t.Fatal(moves, err)
	}
	testwait.Until(t, "the moves", func() bool {
		moving, err := adm.ListPartitionReassignments(t.Context(), kadm.TopicsSet{"moved": {0: {}}, "moved-then-deleted": {0: {}}})
		return err == nil && len(moving) == 0
	})
	if deleted, err := adm.DeleteTopics(t.Context(), "moved-then-deleted", "deleted"); err != nil || deleted.Error() != nil {
		t.Fatal(deleted, err)
	}
	if err := c.Broker(2).Start(); err != nil {
		t.Fatal(err)
	}
	direct, err := kgo.NewClient(kgo.SeedBrokers(c.Broker(2).Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.Close)
	testwait.Until(t, "the folders", func() bool {
		entries, err := os.ReadDir(c.Broker(2).LogDir())
		if err != nil {
			t.Fatal(err)
		}
		var topics []string
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), "__") && filepath.Ext(e.Name()) == "" {
				topics = append(topics, e.Name())
			}
		}
		return len(topics) == 1 && topics[0] == "stays-0"
	})
	testwait.Until(t, "the metadata", func() bool {
		resp, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), direct)
		if err != nil {
			return false
		}
		var topics []string
		for _, topic := range resp.Topics {
			if !topic.IsInternal {
				topics = append(topics, *topic.Topic)
			}
		}
		return len(topics) == 2
	})
}

func createOn(t *testing.T, cl *kgo.Client, topic string, replicas ...int32) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = replicas
	rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatal(resp, err)
	}
}
