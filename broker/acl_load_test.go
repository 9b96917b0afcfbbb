package broker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"barnabas/config"
	"barnabas/internal/testwait"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestACLsChangeUnderLoad creates and deletes one ACL 1,000 times while other clients produce and fetch. Requests sent
// after the response to a change are decided by it; requests that the change does not concern are never allowed or
// denied meanwhile.
func TestACLsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	s, addr := scramListener(t, map[string]string{"authorizer.class.name": config.ACLAuthorizer, "super.users": "User:ANONYMOUS"})
	setPassword(t, s, "alice", "pw", "salt", 4096)
	root := connectTo(t, s.Addr("PLAINTEXT"))
	for _, topic := range []string{"always", "never", "t"} {
		makeTopic(t, root, topic)
	}
	for _, op := range []kmsg.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationRead} {
		allow(t, root, "always", op)
	}
	alice := func() client {
		c := connectTo(t, addr)
		if code, _ := c.logIn("alice", "pw", false); code != 0 {
			t.Fatalf("the login got error code %d", code)
		}
		return c
	}
	denied := kerr.TopicAuthorizationFailed.Code

	var done atomic.Bool
	var load sync.WaitGroup
	for _, c := range []client{alice(), alice()} {
		load.Go(func() {
			for !done.Load() {
				for topic, want := range map[string]int16{"always": 0, "never": denied} {
					if got := c.produceTo(topic); got != want {
						t.Errorf("Produce to %s: error code %d", topic, got)
						return
					}
					if got := c.fetchFrom(topic); got != want {
						t.Errorf("Fetch from %s: error code %d", topic, got)
						return
					}
				}
			}
		})
	}
	asker := alice()
	for i := range 1000 {
		want := int16(0)
		if i%2 == 0 {
			allow(t, root, "t", kmsg.ACLOperationWrite)
		} else {
			disallow(t, root, "t")
			want = denied
		}
		if got := asker.produceTo("t"); got != want {
			t.Fatalf("after change %d Produce is answered with %d, want %d", i, got, want)
		}
	}
	done.Store(true)
	load.Wait()
}

func makeTopic(t *testing.T, root client, topic string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 20000
	req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}}
	testwait.Until(t, "topic "+topic, func() bool {
		resp, err := root.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
		return code == 0 || code == kerr.TopicAlreadyExists.Code
	})
	testwait.Until(t, "the leader of "+topic, func() bool { return root.produceTo(topic) == 0 })
}

func allow(t *testing.T, root client, topic string, op kmsg.ACLOperation) {
	t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	req.Version = 1
	req.Creations = []kmsg.CreateACLsRequestCreation{{ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: topic,
		ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral, Principal: "User:alice", Host: "*", Operation: op, PermissionType: kmsg.ACLPermissionTypeAllow}}
	resp, err := root.Do(t.Context(), req)
	if err != nil || resp.(*kmsg.CreateACLsResponse).Results[0].ErrorCode != 0 {
		t.Fatal(resp, err)
	}
}

func disallow(t *testing.T, root client, topic string) {
	t.Helper()
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Version = 1
	req.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: &topic,
		ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationAny, PermissionType: kmsg.ACLPermissionTypeAny}}
	resp, err := root.Do(t.Context(), req)
	if err != nil || len(resp.(*kmsg.DeleteACLsResponse).Results[0].MatchingACLs) != 1 {
		t.Fatal(resp, err)
	}
}

// produceTo sends a record and returns the error code of the response, -1 if there was none.
func (c client) produceTo(topic string) int16 {
	w := record.NewBuilder()
	w.Add(time.Now().UnixMilli(), nil, []byte("v"))
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 7, 1, 20000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: w.MustBuild()}}}}
	resp, err := c.Do(c.t.Context(), req)
	if err != nil {
		return -1
	}
	return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
}

// fetchFrom reads from the beginning and returns the error code of the response, -1 if there was none.
func (c client) fetchFrom(topic string) int16 {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.SessionEpoch = 7, 1000, -1
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{{PartitionMaxBytes: 1000, CurrentLeaderEpoch: -1}}}}
	resp, err := c.Do(c.t.Context(), req)
	if err != nil {
		return -1
	}
	return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode
}
