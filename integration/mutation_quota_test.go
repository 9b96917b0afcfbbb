package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// overdrawMutations creates topics beyond a quota, as clients that know THROTTLING_QUOTA_EXCEEDED (CreateTopics v6) and as
// older ones, and describes what they are told.
func overdrawMutations(t *testing.T, addr string) []string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user"}}, Ops: []kadm.AlterClientQuotaOp{{Key: "controller_mutation_rate", Value: 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // brokers learn of it from ZooKeeper
	var seen []string
	create := func(version int16, topic string, partitions int32) {
		t.Helper()
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = version, 10000
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
		req.Topics = append(req.Topics, rt)
		resp := dialWire(t, addr).call(req).(*kmsg.CreateTopicsResponse)
		seen = append(seen, fmt.Sprintf("v%d, %d partitions: code %d, throttled %v", version, partitions, resp.Topics[0].ErrorCode, resp.ThrottleMillis > 0))
	}
	create(7, "overdrawn", 40)
	create(7, "strict", 1)
	create(5, "permissive", 1)
	create(7, "strict-again", 1)
	return seen
}

// TestMutationQuotasAreThoseOfApacheKafka: a client that overdraws its quota is not throttled unless it is too old for the
// error that it gets from then on (KIP-599).
func TestMutationQuotasAreThoseOfApacheKafka(t *testing.T) {
	peer(t)
	zookeeper := zookeeper(t)
	theirs, _, stopTheirs := startPeer(t, 0, zookeeper+"/theirs")
	want := overdrawMutations(t, theirs)
	stopTheirs()
	ours := newProcess(t, 0, zookeeper+"/ours")
	ours.start()
	got := overdrawMutations(t, ours.addr())
	ours.stop()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Apache Kafka's answers (-) and ours (+)\n%s", diff)
	}
}
