package api

import (
	"testing"

	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestDeletedRecordsOfAFormerLeader: who loses the leadership while the followers have yet to delete the records answers
// without a low watermark (DelayedDeleteRecords, 3.9).
func TestDeletedRecordsOfAFormerLeader(t *testing.T) {
	replicas := newReplicas(t)
	p := assign(t, replicas, 1, 0, 1, 2)
	w := trimmed{p, 5, new(kmsg.DeleteRecordsResponseTopicPartition)}
	if done, err := w.done(); done || err != nil {
		t.Fatalf("the followers have deleted the records: %v, %v", done, err)
	}
	w.out.LowWatermark = 0 // as of an earlier look
	assign(t, replicas, 2, 1, 1, 2)
	if done, err := w.done(); done || errcode.Of(err) != kerr.NotLeaderForPartition.Code || w.out.LowWatermark != -1 {
		t.Errorf("low watermark %d, done %v, %v", w.out.LowWatermark, done, err)
	}
}
