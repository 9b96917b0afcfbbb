package api

import (
	"context"
	"testing"
	"time"

	"barnabas/broker/replica"
	"barnabas/internal/testlog"
	"barnabas/internal/vfs"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// newReplicas returns the replica manager of broker 1, whose files are in memory.
func newReplicas(t *testing.T) *replica.Manager {
	t.Helper()
	cfg := logstore.DefaultManagerConfig()
	cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger, cfg.FS = []string{"/data"}, 1, "test", testlog.Quiet(), vfs.NewMem(time.Now)
	logs, err := logstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logs.Close() })
	return replica.NewManager(replica.Config{
		BrokerID: 1, Logs: logs, Now: time.Now, Logger: cfg.Logger,
		LogConfig: func(context.Context, string) logstore.Config { return cfg.Default },
		MinInSync: func(string) int { return 1 }, LagMax: func() time.Duration { return time.Hour }, IsLive: func(int32) bool { return true },
	})
}

// assign makes a broker the leader of t-0 in a leader epoch; all of its replicas are in sync.
func assign(t *testing.T, m *replica.Manager, leader, epoch int32, replicas ...int32) *replica.Partition {
	t.Helper()
	return assignPartition(t, m, logstore.TopicPartition{Topic: "t"}, leader, epoch, replicas...)
}

func assignPartition(t *testing.T, m *replica.Manager, tp logstore.TopicPartition, leader, epoch int32, replicas ...int32) *replica.Partition {
	t.Helper()
	state := kmsg.NewLeaderAndISRRequestTopicPartition()
	state.Leader, state.LeaderEpoch, state.Replicas, state.ISR, state.IsNew = leader, epoch, replicas, replicas, true
	if errs, err := m.ApplyLeaderAndISR(1, []replica.Assignment{{TP: tp, State: &state}}, nil); err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	p, _ := m.Partition(tp)
	return p
}
