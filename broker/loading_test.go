package broker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testwait"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// lineHook signals when a certain line is logged.
type lineHook struct {
	message string
	seen    chan struct{} // capacity 1
}

func (h lineHook) Levels() []logrus.Level { return logrus.AllLevels }

func (h lineHook) Fire(e *logrus.Entry) error {
	if e.Message == h.message {
		select {
		case h.seen <- struct{}{}:
		default:
		}
	}
	return nil
}

// TestRegistersWhenItsAbsenceWasNoticed starts a broker after a kill. As long as the ISR of a partition that it has not
// recovered contains it beside a live broker, it does not register: a controller that was elected just then would let
// it lead the partition.
func TestRegistersWhenItsAbsenceWasNoticed(t *testing.T) {
	zk, dir := zookeeper(t), t.TempDir()
	one := newServer(t, zk, map[string]string{"log.dirs": dir})
	two := newServer(t, zk, map[string]string{"broker.id": "2", "log.dirs": t.TempDir(), "controlled.shutdown.enable": "false"})
	for _, s := range []*Server{two, one} { // the other broker is the controller
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := two.AwaitBrokers(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := two.zk.CreateTopic(t.Context(), "t", map[int32][]int32{0: {1, 2}}, nil); err != nil {
		t.Fatal(err)
	}
	tp := zkcoord.TopicPartition{Topic: "t"}
	state := func() zkcoord.PartitionState {
		states, err := two.zk.PartitionStates(t.Context(), []zkcoord.TopicPartition{tp})
		if err != nil {
			t.Fatal(err)
		}
		return states[tp]
	}
	setISR := func(isr ...int32) {
		s := state()
		s.ISR = isr
		if _, err := two.zk.WriteISR(t.Context(), tp, s); err != nil {
			t.Fatal(err)
		}
	}
	epochs := filepath.Join(dir, "t-0", "leader-epoch-checkpoint")
	testwait.Until(t, "the partition", func() bool { _, err := os.Stat(epochs); return err == nil && len(state().ISR) == 2 })
	one.Close()
	testwait.Until(t, "a leader alone", func() bool {
		return slices.Equal(state().ISR, []int32{2}) && len(two.metadata.Current().Brokers) == 1
	})
	// The state after a kill that nobody has noticed.
	setISR(1, 2)
	err := errors.Join(os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")), os.Remove(epochs), syscall.Mkfifo(epochs, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	letGo := func() {
		for range 20 { // it is waiting at the pipe, or will be in a moment
			if f, err := os.OpenFile(epochs, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				_ = f.Close()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	one = newServer(t, zk, map[string]string{"log.dirs": dir})
	t.Cleanup(letGo)
	waits := lineHook{"waiting for the cluster to notice that this broker was away, before it registers with logs that are still being recovered", make(chan struct{}, 1)}
	one.log.Logger.AddHook(waits)
	started := make(chan error, 1)
	go func() { started <- one.Start(t.Context()) }()
	select {
	case <-waits.seen:
	case err := <-started:
		t.Fatalf("it does not wait: %v", err)
	}
	brokers, err := two.zk.Brokers(t.Context())
	if err != nil || len(brokers) != 1 {
		t.Errorf("registered brokers: %v, %v", brokers, err)
	}
	setISR(2)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if left := one.logs.LoadingPartitions(); len(left) != 1 {
		t.Errorf("still being recovered: %v", left)
	}
	letGo()
	testwait.Until(t, "it follows", func() bool {
		return one.replicas.HostedEpoch(one.found[0]) > 0 && len(one.logs.LoadingPartitions()) == 0
	})
}

func TestSharedISR(t *testing.T) {
	live := []zkcoord.BrokerInfo{{ID: 1}, {ID: 2}}
	for _, test := range []struct {
		isr  []int32
		want bool
	}{{nil, false}, {[]int32{1}, false}, {[]int32{2}, false}, {[]int32{1, 2}, true}, {[]int32{1, 3}, false}, {[]int32{3, 2, 1}, true}} {
		if got := sharedISR(1, test.isr, live); got != test.want {
			t.Errorf("%v: %v", test.isr, got)
		}
	}
}
