package api

import (
	"context"
	"io"
	"testing"
	"time"

	"barnabas/broker/replica"
	"barnabas/internal/vfs"
	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestDeletedRecordsOfAFormerLeader: who loses the leadership while the followers have yet to delete the records answers
// without a low watermark (DelayedDeleteRecords, 3.9).
func TestDeletedRecordsOfAFormerLeader(t *testing.T) {
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
		MinInSync: func(string) int { return 1 }, LagMax: func() time.Duration { return time.Hour }, IsLive: func(int32) bool { return true },
	})
	tp := logstore.TopicPartition{Topic: "t"}
	assign := func(leader, epoch int32) {
		state := kmsg.NewLeaderAndISRRequestTopicPartition()
		state.Leader, state.LeaderEpoch, state.Replicas, state.ISR, state.IsNew = leader, epoch, []int32{1, 2}, []int32{1, 2}, true
		if errs, err := replicas.ApplyLeaderAndISR(1, []replica.Assignment{{TP: tp, State: &state}}, nil); err != nil || errs[0] != nil {
			t.Fatal(err, errs)
		}
	}
	assign(1, 0)
	p, _ := replicas.Partition(tp)
	w := trimmed{p, 5, new(kmsg.DeleteRecordsResponseTopicPartition)}
	if done, err := w.done(); done || err != nil {
		t.Fatalf("the followers have deleted the records: %v, %v", done, err)
	}
	w.out.LowWatermark = 0 // as of an earlier look
	assign(2, 1)
	if done, err := w.done(); done || code(err) != kerr.NotLeaderForPartition.Code || w.out.LowWatermark != -1 {
		t.Errorf("low watermark %d, done %v, %v", w.out.LowWatermark, done, err)
	}
}
