package api

import (
	"context"
	"io"
	"testing"
	"time"

	"barnabas/broker/metadata"
	"barnabas/broker/replica"
	"barnabas/internal/vfs"
	"barnabas/logstore"
	"barnabas/network"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFetchBeforeTheMetadata: the controller makes a broker the leader of a new partition before it sends it the
// metadata of the cluster. Records that are produced in between can be fetched.
func TestFetchBeforeTheMetadata(t *testing.T) {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	cfg := logstore.DefaultManagerConfig()
	cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger, cfg.FS = []string{"/data"}, 1, "test", logrus.NewEntry(quiet), vfs.NewMem(time.Now)
	logs, err := logstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logs.Close() })
	replicas := replica.NewManager(replica.Config{
		BrokerID: 1, Logs: logs, Now: time.Now, Logger: cfg.Logger,
		LogConfig: func(context.Context, string, bool) logstore.Config { return cfg.Default },
		MinInSync: func(string) int { return 1 }, LagMax: func() time.Duration { return time.Hour },
	})
	tp := logstore.TopicPartition{Topic: "t"}
	state := kmsg.NewLeaderAndISRRequestTopicPartition()
	state.Leader, state.Replicas, state.ISR, state.IsNew = 1, []int32{1}, []int32{1}, true
	if errs, err := replicas.ApplyLeaderAndISR(1, []replica.Assignment{{TP: tp, State: &state}}, nil); err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	f := &fetching{
		h: &Handlers{Deps: Deps{Metadata: metadata.NewCache(), Replicas: replicas}}, c: &Call{Request: &network.Request{Version: 12}},
		parts: []fetchPartition{{topic: "t"}, {topic: "t", number: 1}},
	}
	f.resolve()
	if led := &f.parts[0]; led.part == nil || led.missing != nil || led.failed != nil {
		t.Errorf("the partition that it leads: %+v", led)
	}
	if other := &f.parts[1]; other.missing == nil {
		t.Errorf("a partition that does not exist: %+v", other)
	}
}
