package zkcoord_test

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"barnabas/internal/testport"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zktest"
)

// TestBrokerIDInUse: a second live broker with the same id gets an error, in whichever way the first one shows that it
// is alive.
func TestBrokerIDInUse(t *testing.T) {
	ctx := t.Context()
	connect := zktest.Connect(t)
	first := zktest.Client(t, connect)
	second := zktest.ClientWith(t, zkcoord.Config{Connect: connect, SessionTimeout: time.Second})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	must[int64](t)(first.RegisterBroker(ctx, plaintext(1, port)))

	var inUse *zkcoord.ErrBrokerIDInUse
	if _, err := second.RegisterBroker(ctx, plaintext(1, 1)); !errors.As(err, &inUse) || inUse.Other.Endpoints[0].Port != port {
		t.Fatalf("another broker that answers: %v", err)
	}
	if _, err := second.RegisterBroker(ctx, plaintext(1, port)); !errors.As(err, &inUse) {
		t.Fatalf("a registration that outlives the session timeout: %v", err)
	}
	brokers := must[[]zkcoord.BrokerInfo](t)(first.Brokers(ctx))
	if len(brokers) != 1 || brokers[0].Endpoints[0].Port != port {
		t.Fatalf("registered: %+v", brokers)
	}
}

func TestAwaitVacancy(t *testing.T) {
	ctx := t.Context()
	connect := zktest.Connect(t)
	second := zktest.ClientWith(t, zkcoord.Config{Connect: connect, SessionTimeout: 10 * time.Second})
	ok(t, second.AwaitVacancy(ctx, 1))
	first := zktest.Client(t, connect)
	port := testport.Reserve(t)
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	must[int64](t)(first.RegisterBroker(ctx, plaintext(1, int32(port))))
	ok(t, first.AwaitVacancy(ctx, 1)) // its own node

	var inUse *zkcoord.ErrBrokerIDInUse
	if err := second.AwaitVacancy(ctx, 1); !errors.As(err, &inUse) {
		t.Fatalf("a broker that answers: %v", err)
	}
	listener.Close()
	waited := make(chan error, 1)
	go func() { waited <- second.AwaitVacancy(ctx, 1) }()
	first.Close()
	ok(t, <-waited)
}

func TestUpdateBroker(t *testing.T) {
	ctx := t.Context()
	connect := zktest.Connect(t)
	c, watcher := zktest.Client(t, connect), zktest.Client(t, connect)
	epoch := must[int64](t)(c.RegisterBroker(ctx, plaintext(1, 9092)))
	changes := make(chan zkcoord.Change, 10)
	watcher.OnChange(func(e zkcoord.Change) { changes <- e })
	must[[]zkcoord.BrokerInfo](t)(watcher.WatchBrokers(ctx))
	ok(t, c.UpdateBroker(ctx, plaintext(1, 9093)))
	if e := <-changes; e != (zkcoord.Change{Kind: zkcoord.BrokerChanged, Broker: 1}) {
		t.Fatalf("change %+v", e)
	}
	brokers := must[[]zkcoord.BrokerInfo](t)(watcher.WatchBrokers(ctx))
	if brokers[0].Endpoints[0].Port != 9093 || brokers[0].Epoch != epoch {
		t.Fatalf("registered: %+v", brokers)
	}
}

func TestLegacyNodes(t *testing.T) {
	ctx := t.Context()
	c := zktest.Client(t, zktest.Connect(t))
	term, _, err := c.Elect(ctx, 1)
	ok(t, err)
	tp := zkcoord.TopicPartition{Topic: "t", Partition: 1}

	if _, found, err := c.ConsumerOffset(ctx, "g", tp); err != nil || found {
		t.Fatal(found, err)
	}
	for _, offset := range []int64{7, 8} {
		ok(t, c.SetConsumerOffset(ctx, "g", tp, offset))
		if got, found, err := c.ConsumerOffset(ctx, "g", tp); err != nil || !found || got != offset {
			t.Fatal(got, found, err)
		}
	}

	if _, present, err := c.WatchReassignments(ctx); err != nil || present {
		t.Fatal(present, err)
	}
	if created, err := c.RequestReassignments(ctx, map[zkcoord.TopicPartition][]int32{tp: {2, 3}}); err != nil || !created {
		t.Fatal(created, err)
	}
	targets, present, err := c.WatchReassignments(ctx)
	if err != nil || !present || len(targets[tp]) != 2 {
		t.Fatal(targets, present, err)
	}
	ok(t, c.SetReassignments(ctx, term, nil))
	if _, present, err := c.WatchReassignments(ctx); err != nil || present {
		t.Fatal(present, err)
	}

	if created, err := c.RequestPreferredElection(ctx, []zkcoord.TopicPartition{tp}); err != nil || !created {
		t.Fatal(created, err)
	}
	partitions, present, err := c.WatchPreferredElection(ctx)
	if err != nil || !present || partitions[0] != tp {
		t.Fatal(partitions, present, err)
	}
	ok(t, c.RemovePreferredElection(ctx, term))
	ok(t, c.RemovePreferredElection(ctx, term))
}

func TestFeatures(t *testing.T) {
	ctx := t.Context()
	c := zktest.Client(t, zktest.Connect(t))
	term, _, err := c.Elect(ctx, 1)
	ok(t, err)
	if _, found, err := c.WatchFeatures(ctx); err != nil || found {
		t.Fatal(found, err)
	}
	for want := range int32(2) {
		if epoch := must[int32](t)(c.SetFeatures(ctx, term, zkcoord.Features{Format: 2, Enabled: true})); epoch != want {
			t.Fatalf("epoch %d, want %d", epoch, want)
		}
	}
	if f, found, err := c.Features(ctx); err != nil || !found || f.Epoch != 1 || !f.Enabled {
		t.Fatal(f, found, err)
	}
}
