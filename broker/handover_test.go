package broker

import (
	"maps"
	"slices"
	"testing"

	"barnabas/internal/testwait"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// TestHandoverEndsWithItsLastTry: a broker whose leaderships cannot be moved pauses between two tries, but not after the
// last one.
func TestHandoverEndsWithItsLastTry(t *testing.T) {
	s := newServer(t, zookeeper(t), map[string]string{"controlled.shutdown.max.retries": "2", "controlled.shutdown.retry.backoff.ms": "1"})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.zk.CreateTopic(t.Context(), "t", map[int32][]int32{0: {1, 2}}, nil); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "it leads the partition", func() bool {
		p, ok := s.metadata.Current().Partition("t", 0)
		return ok && p.Leader == 1
	})
	lines := test.NewLocal(s.log.Logger)
	s.Close()
	count := make(map[string]int)
	for _, e := range lines.AllEntries() {
		count[e.Message]++
		if err, logged := e.Data[logrus.ErrorKey]; logged && err == nil {
			t.Errorf("logged with an error that there was not: %q", e.Message)
		}
	}
	if count["the controller has not moved all leaderships yet, try 1 of 2, 1ms until the next"] != 1 ||
		count["the controller has not moved all leaderships yet, try 2 of 2, 1ms until the next"] != 0 ||
		count["stopping although not all leaderships were moved"] != 1 {
		t.Errorf("logged: %q", slices.Sorted(maps.Keys(count)))
	}
}
