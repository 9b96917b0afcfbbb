package api

import (
	"context"
	"slices"

	"barnabas/broker/acl"
	"barnabas/internal/errcode"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeLogDirs lists the logs in each log directory (KIP-113). v4: sizes of the volumes (KIP-827).
func (h *Handlers) describeLogDirs(_ context.Context, c *Call, req *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	if err := h.authorize.cluster(c, acl.Describe); err != nil {
		resp.ErrorCode = errcode.Of(err)
		return resp
	}
	wanted := wantedLogs(req)
	for _, d := range h.Logs.Dirs() {
		dir := kmsg.NewDescribeLogDirsResponseDir()
		dir.Dir, dir.TotalBytes, dir.UsableBytes = d.Path, d.Total, d.Usable
		if !d.Online {
			dir.ErrorCode = kerr.KafkaStorageError.Code
		}
		logs := slices.DeleteFunc(slices.Clone(d.Logs), func(l logstore.LogInfo) bool { return !wanted(l.TopicPartition) })
		slices.SortFunc(logs, func(a, b logstore.LogInfo) int { return a.TopicPartition.Compare(b.TopicPartition) })
		for _, l := range logs {
			addLog(&dir, l)
		}
		resp.Dirs = append(resp.Dirs, dir)
	}
	return resp
}

// wantedLogs returns a filter for the requested logs; null topics select all.
func wantedLogs(req *kmsg.DescribeLogDirsRequest) func(logstore.TopicPartition) bool {
	if req.Topics == nil {
		return func(logstore.TopicPartition) bool { return true }
	}
	wanted := make(map[logstore.TopicPartition]bool)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			wanted[logstore.TopicPartition{Topic: t.Topic, Partition: p}] = true
		}
	}
	return func(tp logstore.TopicPartition) bool { return wanted[tp] }
}

func addLog(dir *kmsg.DescribeLogDirsResponseDir, l logstore.LogInfo) {
	if n := len(dir.Topics); n == 0 || dir.Topics[n-1].Topic != l.Topic {
		t := kmsg.NewDescribeLogDirsResponseDirTopic()
		t.Topic = l.Topic
		dir.Topics = append(dir.Topics, t)
	}
	p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
	p.Partition, p.Size, p.OffsetLag, p.IsFuture = l.Partition, l.Size, l.OffsetLag, l.Future
	t := &dir.Topics[len(dir.Topics)-1]
	t.Partitions = append(t.Partitions, p)
}
