package broker

import (
	"testing"

	"barnabas/internal/testwait"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestControlPlaneListener: requests between controller and brokers use control.plane.listener.name, records do not.
// The third broker does not have that listener yet, and is reached nevertheless.
func TestControlPlaneListener(t *testing.T) {
	zk := zookeeper(t)
	start := func(id, listeners string, more map[string]string) *Server {
		settings := map[string]string{"broker.id": id, "listeners": listeners, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
			"controlled.shutdown.enable": "false"}
		for k, v := range more {
			settings[k] = v
		}
		s := newServer(t, zk, settings)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	both, control := "PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:0", map[string]string{"control.plane.listener.name": "CONTROL"}
	first, second := start("1", both, control), start("2", both, control)
	third := start("3", "PLAINTEXT://127.0.0.1:0", nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers(first.Addr("PLAINTEXT")))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	testwait.Until(t, "all brokers", func() bool {
		return len(first.metadata.Current().Brokers) == 3 && len(third.metadata.Current().Brokers) == 3
	})
	if _, err := adm.CreateTopic(t.Context(), 6, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for range 6 { // with a producer id, which the controller allocates
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if got := second.network.Connections()["CONTROL"]; got == 0 {
		t.Error("the controller does not use its listener")
	}
	if got := third.network.Connections()["PLAINTEXT"]; got == 0 {
		t.Error("there is no connection to a broker without that listener")
	}
	// The second broker sends the request to the controller's own control plane listener.
	if _, err := second.allocateProducerIDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := first.network.Connections()["CONTROL"]; got == 0 {
		t.Error("a broker does not use the controller's listener")
	}
}
