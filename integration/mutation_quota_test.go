package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// overdrawMutations creates topics beyond a quota, as clients that know THROTTLING_QUOTA_EXCEEDED (CreateTopics v6) and as
// older ones, and describes what they are told.
func overdrawMutations(t *testing.T, addr string) []string {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(addr))
	defer cl.Close()
	_, err := kadm.NewClient(cl).AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "client-id"}}, Ops: []kadm.AlterClientQuotaOp{{Key: "controller_mutation_rate", Value: 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // brokers learn of it from ZooKeeper
	var seen []string
	create := func(client string, version int16, topic string, partitions int32) {
		t.Helper()
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = version, 10000
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
		req.Topics = append(req.Topics, rt)
		resp := as(dialWire(t, addr), client).call(req).(*kmsg.CreateTopicsResponse)
		seen = append(seen, fmt.Sprintf("v%d, %d partitions: code %d, throttled %v", version, partitions, resp.Topics[0].ErrorCode, resp.ThrottleMillis > 0))
	}
	create("creator", 7, "overdrawn", 40)
	create("creator", 7, "strict", 1)
	create("creator", 5, "permissive", 1)
	create("creator", 7, "strict-again", 1)
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version, meta.AllowAutoTopicCreation = 9, true
	for i := range 40 {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = new(fmt.Sprint("auto", i))
		meta.Topics = append(meta.Topics, rt)
	}
	auto := as(dialWire(t, addr), "auto").call(meta).(*kmsg.MetadataResponse)
	seen = append(seen, fmt.Sprintf("auto-creation: code %d, throttled %v", auto.Topics[0].ErrorCode, auto.ThrottleMillis > 0))
	create("auto", 7, "after-auto-creation", 1)
	return seen
}

// TestMutationQuotasAreThoseOfApacheKafka: a client that overdraws its quota is not throttled unless it is too old for the
// error that it gets from then on (KIP-599).
func TestMutationQuotasAreThoseOfApacheKafka(t *testing.T) {
	compareAnswers(t, overdrawMutations)
}
