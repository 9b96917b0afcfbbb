package broker

import (
	"slices"
	"testing"
	"time"

	"barnabas/zkcoord"
	"barnabas/zkcoord/zktest"
)

// TestListenersThatChangeDuringARegistration: a broker whose listeners change while it is registering again, after its
// session was lost, is registered with the new ones.
func TestListenersThatChangeDuringARegistration(t *testing.T) {
	proxy := zktest.NewProxy(t, zookeeper(t))
	s := newServer(t, proxy.Connect, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Hold()
	done := make(chan error)
	go func() { done <- s.register(t.Context()) }()
	time.Sleep(50 * time.Millisecond) // until it waits for an answer
	changed := []zkcoord.Endpoint{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "elsewhere", Port: 9092}}
	s.listening.advertised.Store(&changed)
	proxy.Heal()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	brokers, err := s.zk.Brokers(t.Context())
	if err != nil || len(brokers) != 1 || !slices.Equal(brokers[0].Endpoints, changed) {
		t.Errorf("registered is %+v, %v", brokers, err)
	}
}
