package zkcoord_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"barnabas/zkcoord"
	"barnabas/zkcoord/zktest"
)

// events collects a client's session events.
func events(c *zkcoord.Client) <-chan zkcoord.SessionEvent {
	ch := make(chan zkcoord.SessionEvent, 100)
	c.OnSession(func(e zkcoord.SessionEvent) { ch <- e })
	return ch
}

func awaitEvent(t *testing.T, ch <-chan zkcoord.SessionEvent, want zkcoord.SessionEvent) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case e := <-ch:
			if e == want {
				return
			}
		case <-timeout:
			t.Fatalf("no event %v", want)
		}
	}
}

func TestConnectionLossKeepsTheSession(t *testing.T) {
	ctx := t.Context()
	proxy := zktest.NewProxy(t, zktest.Connect(t))
	c := zktest.Client(t, proxy.Connect)
	session := events(c)
	epoch := must[int64](t)(c.RegisterBroker(ctx, plaintext(1, 9092)))
	proxy.Cut()
	awaitEvent(t, session, zkcoord.SessionSuspended)
	proxy.Heal()
	awaitEvent(t, session, zkcoord.SessionConnected)
	brokers := must[[]zkcoord.BrokerInfo](t)(c.Brokers(ctx))
	if len(brokers) != 1 || brokers[0].Epoch != epoch {
		t.Fatalf("registered: %+v", brokers)
	}
}

// TestRequestsWaitForTheConnection: a request waits while the connection is broken, unless its context ends.
func TestRequestsWaitForTheConnection(t *testing.T) {
	proxy := zktest.NewProxy(t, zktest.Connect(t))
	c := zktest.Client(t, proxy.Connect)
	session := events(c)
	proxy.Cut()
	awaitEvent(t, session, zkcoord.SessionSuspended)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Topics(ctx); err == nil {
		t.Fatal("a request was answered without a connection")
	}
	if err := c.Answers(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	answered := make(chan error)
	go func() {
		_, err := c.Topics(t.Context())
		answered <- err
	}()
	proxy.Heal()
	ok(t, <-answered)
	ok(t, c.Answers(t.Context()))
}

func TestExpiry(t *testing.T) {
	ctx := t.Context()
	connect := zktest.Connect(t)
	proxy := zktest.NewProxy(t, connect)
	c := zktest.ClientWith(t, zkcoord.Config{Connect: proxy.Connect, SessionTimeout: 3 * time.Second})
	other := zktest.Client(t, connect)
	session := events(c)
	changes := make(chan zkcoord.Change, 100)
	c.OnChange(func(e zkcoord.Change) { changes <- e })
	first := must[int64](t)(c.RegisterBroker(ctx, plaintext(1, 9092)))
	term, won, err := c.Elect(ctx, 1)
	if err != nil || !won {
		t.Fatal(won, err)
	}
	must[[]string](t)(c.WatchTopics(ctx))

	gone := make(chan zkcoord.Change, 100)
	other.OnChange(func(e zkcoord.Change) { gone <- e })
	must[int32](t)(other.WatchController(ctx))
	proxy.Cut()
	<-gone // the server has expired the session
	next, won, err := other.Elect(ctx, 2)
	if err != nil || !won || next.Epoch != term.Epoch+1 {
		t.Fatal(next, won, err)
	}
	proxy.Heal()
	awaitEvent(t, session, zkcoord.SessionExpired)
	awaitEvent(t, session, zkcoord.SessionReestablished)

	if second := must[int64](t)(c.RegisterBroker(ctx, plaintext(1, 9092))); second <= first {
		t.Fatalf("broker epochs %d and %d", first, second)
	}
	if _, won, err := c.Elect(ctx, 1); err != nil || won {
		t.Fatal("elected beside another controller", err)
	}
	// Watches are set again, instead of relying on those of the expired session.
	must[[]string](t)(c.WatchTopics(ctx))
	must[zkcoord.ID](t)(other.CreateTopic(ctx, "t", map[int32][]int32{0: {1}}, nil))
	if e := <-changes; e.Kind != zkcoord.TopicsChanged {
		t.Fatalf("change %+v", e)
	}
}

// TestLostAnswers: what the server did although its response was lost is recognized as done.
func TestLostAnswers(t *testing.T) {
	ctx := t.Context()
	proxy := zktest.NewProxy(t, zktest.Connect(t))
	c := zktest.Client(t, proxy.Connect)

	proxy.LoseAnswer("/brokers/ids/1")
	must[int64](t)(c.RegisterBroker(ctx, plaintext(1, 9092)))

	proxy.LoseAnswer("kraftControllerEpoch")
	term, won, err := c.Elect(ctx, 1)
	if err != nil || !won || term.Epoch != 1 {
		t.Fatalf("the won election was not recognized: %+v %v %v", term, won, err)
	}

	proxy.LoseAnswer("topic_id")
	must[zkcoord.ID](t)(c.CreateTopic(ctx, "t", map[int32][]int32{0: {1}}, nil))

	tp := zkcoord.TopicPartition{Topic: "t"}
	state := zkcoord.PartitionState{Leader: 1, ISR: []int32{1}, ControllerEpoch: 1}
	proxy.LoseAnswer("leader_epoch")
	created := must[[]zkcoord.WriteResult](t)(c.CreateStates(ctx, term, []zkcoord.StateWrite{{Partition: tp, State: state}}))
	ok(t, created[0].Err)
	next := created[0].State
	next.LeaderEpoch = 1
	proxy.LoseAnswer("leader_epoch")
	written := must[[]zkcoord.WriteResult](t)(c.WriteStates(ctx, term, []zkcoord.StateWrite{{Partition: tp, State: next}}))
	ok(t, written[0].Err)
	if written[0].State.PartitionEpoch != 1 {
		t.Fatalf("%+v", written[0])
	}
	proxy.LoseAnswer("leader_epoch")
	if epoch := must[int32](t)(c.WriteISR(ctx, tp, written[0].State)); epoch != 2 {
		t.Fatalf("partition epoch %d", epoch)
	}

	proxy.LoseAnswer("block_start")
	block := must[zkcoord.ProducerIDBlock](t)(c.NextProducerIDs(ctx, 1))
	if block.Start != 0 {
		t.Fatalf("%+v", block)
	}

	ok(t, c.RequestTopicDeletion(ctx, "t"))
	proxy.LoseAnswer("/brokers/topics/t/partitions/0/state")
	ok(t, c.DeleteTopic(ctx, term, "t"))
}

func TestClosedClient(t *testing.T) {
	c := zktest.Client(t, zktest.Connect(t))
	c.Close()
	c.Close()
	if _, err := c.Topics(t.Context()); err == nil {
		t.Fatal("a closed client answers requests")
	}
}
