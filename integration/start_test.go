package integration

import (
	"fmt"
	"net"
	"testing"
	"time"

	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFirstRequestAfterAStart: a client that connects before the broker is ready never sees a cluster without brokers
// or without a controller: the response waits until both are known.
func TestFirstRequestAfterAStart(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	b := c.Broker(0)
	for i := range 5 {
		b.Stop()
		started := make(chan error, 1)
		go func() { started <- b.Start() }()
		for {
			conn, err := net.Dial("tcp", b.Addr())
			if err == nil {
				_ = conn.Close()
				break
			}
			time.Sleep(100 * time.Microsecond)
		}
		w := dialWire(t, b.Addr())
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version, create.TimeoutMillis = 5, 30_000
		create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: fmt.Sprint("t", i), NumPartitions: 1, ReplicationFactor: 1}}
		if got := w.call(create).(*kmsg.CreateTopicsResponse).Topics[0]; got.ErrorCode != 0 {
			t.Errorf("start %d: CreateTopics returns error %d", i, got.ErrorCode)
		}
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		if got := dialWire(t, b.Addr()).call(req).(*kmsg.MetadataResponse); len(got.Brokers) != 1 || got.ControllerID != 0 {
			t.Errorf("start %d: Metadata has %d brokers, controller %d", i, len(got.Brokers), got.ControllerID)
		}
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
}
