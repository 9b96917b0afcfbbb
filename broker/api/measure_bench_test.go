package api

import (
	"testing"
	"time"

	"barnabas/broker/metrics"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkMeasured measures what metrics add to a request with ten partitions.
func BenchmarkMeasured(b *testing.B) {
	produce := kmsg.NewPtrProduceResponse()
	produce.Version = 9
	commit := kmsg.NewPtrOffsetCommitResponse()
	for range 2 {
		pt, ct := kmsg.NewProduceResponseTopic(), kmsg.NewOffsetCommitResponseTopic()
		for range 5 {
			pt.Partitions = append(pt.Partitions, kmsg.NewProduceResponseTopicPartition())
			ct.Partitions = append(ct.Partitions, kmsg.NewOffsetCommitResponseTopicPartition())
		}
		produce.Topics, commit.Topics = append(produce.Topics, pt), append(commit.Topics, ct)
	}
	for name, resp := range map[string]kmsg.Response{"Produce": produce, "OffsetCommit": commit, "Heartbeat": kmsg.NewPtrHeartbeatResponse()} {
		b.Run(name, func(b *testing.B) {
			h := &Handlers{Deps: Deps{Metrics: metrics.New([]metrics.API{{Key: resp.Key(), MaxVersion: 12}}, nil, nil)}}
			c := &Call{Request: &network.Request{Key: resp.Key(), Version: 8, Arrived: time.Now()}}
			answer := network.Ready(resp)
			b.ReportAllocs()
			for b.Loop() {
				_ = h.measured(c, answer, time.Now())
			}
		})
	}
}
