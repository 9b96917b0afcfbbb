package kafkatest_test

import (
	"testing"

	"barnabas/internal/testwait"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestLeadersWriteTheISRWithAnOldProtocol: with inter.broker.protocol.version below 2.7, leaders write the ISR to
// ZooKeeper, and the controller is notified through /isr_change_notification.
func TestLeadersWriteTheISRWithAnOldProtocol(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(3), kafkatest.Setting("inter.broker.protocol.version", "2.6"))
	cl := client(t, c)
	adm := kadm.NewClient(cl)
	createOn(t, cl, "t", 0, 2)
	produce(t, cl, "t", 0, 10)
	c.Broker(2).Stop()
	testwait.Until(t, "the ISR without broker 2", func() bool { return len(isrOf(t, adm, "t")) == 1 })
	produce(t, cl, "t", 10, 20)
	if err := c.Broker(2).Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the ISR with broker 2", func() bool { return len(isrOf(t, adm, "t")) == 2 })
	c.Broker(0).Stop()
	consume(t, c, "t", 20)
}

func isrOf(t *testing.T, adm *kadm.Client, topic string) []int32 {
	t.Helper()
	topics, err := adm.ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return topics[topic].Partitions[0].ISR
}
