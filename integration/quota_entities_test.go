package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaEntities are all kinds of entities that concern a client "app" without a login, the least specific first (KIP-55).
// An empty name stands for the default.
var quotaEntities = []map[string]string{
	{"client-id": ""}, {"client-id": "app"}, {"user": ""}, {"user": "", "client-id": ""}, {"user": "", "client-id": "app"},
	{"user": "ANONYMOUS"}, {"user": "ANONYMOUS", "client-id": ""}, {"user": "ANONYMOUS", "client-id": "app"},
}

// alterQuota sets a quota, or removes it if value is negative.
func alterQuota(t *testing.T, adm *kadm.Client, entity map[string]string, key string, value float64) {
	t.Helper()
	entry := kadm.AlterClientQuotaEntry{Ops: []kadm.AlterClientQuotaOp{{Key: key, Value: max(value, 0), Remove: value < 0}}}
	for kind, name := range entity {
		part := kadm.ClientQuotaEntityComponent{Type: kind}
		if name != "" {
			part.Name = &name
		}
		entry.Entity = append(entry.Entity, part)
	}
	altered, err := adm.AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{entry})
	if err != nil || len(altered) != 1 || altered[0].Err != nil {
		t.Fatalf("%s of %v: %v, %+v", key, entity, err, altered)
	}
}

// overrideQuotas sets quotas for one entity after the other, which forbid and permit in turns, removes them again, the
// most specific first or last, and describes whether the client is throttled after each step.
func overrideQuotas(t *testing.T, addr string) []string {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(addr))
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	large := batch(strings.Repeat("x", 20_000)).MustBuild()
	produce := func(client string) int32 {
		return as(dialWire(t, addr), client).call(producing(9, "t", slices.Clone(large))).(*kmsg.ProduceResponse).ThrottleMillis
	}
	fetch := func(client string) int32 {
		return as(dialWire(t, addr), client).call(fetching(11, "t", 0)).(*kmsg.FetchResponse).ThrottleMillis
	}
	produce("app")
	var seen []string
	for i, kind := range []struct {
		key, otherKey    string
		throttled, other func(client string) int32
	}{
		{"producer_byte_rate", "consumer_byte_rate", produce, fetch}, {"consumer_byte_rate", "producer_byte_rate", fetch, produce},
	} {
		step := func(what string, entity map[string]string, value float64) {
			t.Helper()
			alterQuota(t, adm, entity, kind.key, value)
			mark := fmt.Sprint("mark", len(seen)) // brokers learn of both from ZooKeeper, in this order
			alterQuota(t, adm, map[string]string{"client-id": mark}, kind.otherKey, 1)
			until(t, "the quota has an effect", func(context.Context) bool { return kind.other(mark) > 0 })
			seen = append(seen, fmt.Sprintf("%s %s for %v: %v", kind.key, what, slices.Sorted(maps.Keys(entity)), kind.throttled("app") > 0))
		}
		set := func() {
			for i, entity := range quotaEntities {
				step("set", entity, []float64{1, 1e12}[i%2])
			}
		}
		set()
		for _, entity := range slices.Backward(quotaEntities) {
			step("removed", entity, -1)
		}
		if i > 0 {
			continue
		}
		set()
		for _, entity := range quotaEntities {
			step("removed", entity, -1)
		}
	}
	return seen
}

// TestQuotaEntitiesAreThoseOfApacheKafka: which of several quotas applies to a client, as they are set and removed while it
// is throttled.
func TestQuotaEntitiesAreThoseOfApacheKafka(t *testing.T) {
	compareAnswers(t, overrideQuotas)
}
