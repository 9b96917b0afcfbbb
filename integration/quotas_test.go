package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// setQuota sets one quota through AlterClientQuotas and waits until the brokers apply it.
func setQuota(t *testing.T, c *kafkatest.Cluster, entity map[string]string, key string, value float64, holds func() bool) {
	t.Helper()
	entry := kadm.AlterClientQuotaEntry{Ops: []kadm.AlterClientQuotaOp{{Key: key, Value: value}}}
	for kind, name := range entity {
		entry.Entity = append(entry.Entity, kadm.ClientQuotaEntityComponent{Type: kind, Name: &name})
	}
	altered, err := admin(t, c).AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{entry})
	if err != nil || len(altered) != 1 || altered[0].Err != nil {
		t.Fatalf("%s of %v: %v, %+v", key, entity, err, altered)
	}
	until(t, fmt.Sprintf("%s of %v has an effect", key, entity), func(context.Context) bool { return holds() })
}

// silent reports whether nothing arrives over a connection for a moment.
func (w *wire) silent() bool {
	w.t.Helper()
	_ = w.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	defer func() { _ = w.conn.SetReadDeadline(time.Now().Add(time.Minute)) }()
	_, err := w.conn.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

func as(w *wire, clientID string) *wire {
	w.clientID = &clientID
	return w
}

// TestProducerAboveItsQuota: the producer gets a response with a throttle time at once, and its next request is not
// read meanwhile; others are not affected.
func TestProducerAboveItsQuota(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	produce := func(w *wire) int32 {
		return w.call(producing(9, "t", batch(strings.Repeat("x", 20_000)).MustBuild())).(*kmsg.ProduceResponse).ThrottleMillis
	}
	var slow *wire
	setQuota(t, c, map[string]string{"client-id": "slow"}, "producer_byte_rate", 1000, func() bool {
		slow = as(dialWire(t, c.Broker(0).Addr()), "slow")
		return produce(slow) > 9000
	})
	slow.send(producing(9, "t", batch("later").MustBuild()))
	if !slow.silent() {
		t.Error("a throttled client was served")
	}
	if wait := produce(as(dialWire(t, c.Broker(0).Addr()), "other")); wait != 0 {
		t.Errorf("another client is throttled for %d ms", wait)
	}
}

// TestConsumerAboveItsQuota: the consumer gets no records and a throttle time, and its session is unchanged. The first
// batch is returned although it is larger than the quota of all windows.
func TestConsumerAboveItsQuota(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	addr := c.Broker(0).Addr()
	for range 3 {
		dialWire(t, addr).produce(9, "t", batch(strings.Repeat("x", 20_000)).MustBuild())
	}
	fetch := func(w *wire) *kmsg.FetchResponse { return w.call(fetching(11, "t", 0)).(*kmsg.FetchResponse) }
	setQuota(t, c, map[string]string{"client-id": "slow"}, "consumer_byte_rate", 1000, func() bool {
		resp := fetch(as(dialWire(t, addr), "slow"))
		if len(resp.Topics) != 1 {
			t.Fatalf("the first response has no records: %+v", resp)
		}
		return resp.ThrottleMillis > 0
	})
	w := as(dialWire(t, addr), "slow")
	if resp := fetch(w); resp.ThrottleMillis < 9000 || len(resp.Topics) != 0 || resp.ErrorCode != 0 {
		t.Errorf("above the quota: %+v", resp)
	}
	w.send(fetching(11, "t", 0))
	if !w.silent() {
		t.Error("a throttled client was served")
	}
	if resp := fetch(as(dialWire(t, addr), "other")); resp.ThrottleMillis != 0 || len(resp.Topics) != 1 {
		t.Errorf("another client: %+v", resp)
	}
}

// TestTopicChangesAboveTheQuota: clients that understand it get an error, others are throttled (KIP-599).
func TestTopicChangesAboveTheQuota(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	create := func(version int16, topic string, partitions int32) (int16, int32) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = version, 30_000
		req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}}
		resp := dialWire(t, c.Broker(0).Addr()).call(req).(*kmsg.CreateTopicsResponse)
		return resp.Topics[0].ErrorCode, resp.ThrottleMillis
	}
	attempts := 0
	setQuota(t, c, map[string]string{"user": "ANONYMOUS"}, "controller_mutation_rate", 0.1, func() bool {
		attempts++
		_, wait := create(6, "many"+strings.Repeat("x", attempts), 2)
		return wait > 0
	})
	if code, wait := create(6, "refused", 1); code != kerr.ThrottlingQuotaExceeded.Code || wait == 0 {
		t.Errorf("v6: code %d, %d ms", code, wait)
	}
	if code, wait := create(5, "made", 1); code != 0 || wait == 0 {
		t.Errorf("v5: code %d, %d ms", code, wait)
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.Version, del.TimeoutMillis, del.TopicNames = 5, 30_000, []string{"made"}
	if resp := dialWire(t, c.Broker(0).Addr()).call(del).(*kmsg.DeleteTopicsResponse); resp.Topics[0].ErrorCode != kerr.ThrottlingQuotaExceeded.Code {
		t.Errorf("deletion: %+v", resp)
	}
}

// TestConnectionsAboveTheQuota: connections above their address's quota are closed without a response (KIP-612).
func TestConnectionsAboveTheQuota(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	refused := func() bool {
		w := dialWire(t, c.Broker(0).Addr())
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		w.send(req)
		_, err := w.frame()
		return err != nil
	}
	setQuota(t, c, map[string]string{"ip": "127.0.0.1"}, "connection_creation_rate", 1, refused)
}

// TestQuotaFilters: a filter for the default entity has no name.
func TestQuotaFilters(t *testing.T) {
	t.Parallel()
	w := dialWire(t, kafkatest.Run(t).Broker(0).Addr())
	for _, test := range []struct {
		kind  int8
		match *string
		code  int16
	}{{0, new("u"), 0}, {1, nil, 0}, {1, new("u"), 42}, {2, nil, 0}} {
		req := kmsg.NewPtrDescribeClientQuotasRequest()
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		c.EntityType, c.MatchType, c.Match = "user", kmsg.QuotasMatchType(test.kind), test.match
		req.Components = append(req.Components, c)
		if resp := w.call(req).(*kmsg.DescribeClientQuotasResponse); resp.ErrorCode != test.code {
			t.Errorf("match %d of %v: error %d, want %d", test.kind, test.match != nil, resp.ErrorCode, test.code)
		}
	}
}
