package api

import (
	"context"
	"errors"

	"barnabas/broker/acl"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alterReplicaLogDirs moves this broker's replicas to other log directories (KIP-113). It answers when the moves have
// begun; DescribeLogDirs reports their progress. For a replica that does not exist yet, the directory is remembered and
// the answer is REPLICA_NOT_AVAILABLE. Directories must be spelled as in log.dirs.
func (h *Handlers) alterReplicaLogDirs(_ context.Context, c *Call, req *kmsg.AlterReplicaLogDirsRequest) kmsg.Response {
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	denied := h.authorize.cluster(c, acl.Alter)
	topics := make(map[string]int)
	for _, d := range req.Dirs {
		for _, t := range d.Topics {
			i, ok := topics[t.Topic]
			if !ok {
				i = len(resp.Topics)
				topics[t.Topic] = i
				topic := kmsg.NewAlterReplicaLogDirsResponseTopic()
				topic.Topic = t.Topic
				resp.Topics = append(resp.Topics, topic)
			}
			out := &resp.Topics[i]
			for _, partition := range t.Partitions {
				p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				p.Partition = partition
				err := denied
				if err == nil {
					err = h.moveReplica(logstore.TopicPartition{Topic: t.Topic, Partition: partition}, d.Dir)
				}
				p.ErrorCode = h.codeOf(err)
				out.Partitions = append(out.Partitions, p)
			}
		}
	}
	return resp
}

// moveReplica begins one move. The error for a partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION.
func (h *Handlers) moveReplica(tp logstore.TopicPartition, dir string) error {
	err := h.Replicas.MoveTo(tp, dir)
	if errors.Is(err, kerr.ReplicaNotAvailable) {
		if _, unknown := h.partition(tp.Topic, tp.Partition); errors.Is(unknown, kerr.UnknownTopicOrPartition) {
			return unknown
		}
	}
	return err
}
