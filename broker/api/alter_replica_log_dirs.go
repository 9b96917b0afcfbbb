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
	denied := h.authorize.cluster(c, acl.Alter)
	var topics []kmsg.AlterReplicaLogDirsResponseTopic
	index := make(map[string]int) // of topics: one may be asked to move to several directories
	for _, d := range req.Dirs {
		for _, t := range d.Topics {
			i, ok := index[t.Topic]
			if !ok {
				i = len(topics)
				index[t.Topic] = i
				topics = append(topics, kmsg.AlterReplicaLogDirsResponseTopic{Topic: t.Topic})
			}
			topics[i].Partitions = append(topics[i].Partitions, h.moveReplicas(t.Topic, t.Partitions, d.Dir, denied)...)
		}
	}
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	resp.Topics = topics
	return resp
}

// moveReplicas begins the moves of a topic's partitions, unless they are denied.
func (h *Handlers) moveReplicas(topic string, partitions []int32, dir string, denied error) []kmsg.AlterReplicaLogDirsResponseTopicPartition {
	answers := make([]kmsg.AlterReplicaLogDirsResponseTopicPartition, len(partitions))
	for i, partition := range partitions {
		err := denied
		if err == nil {
			err = h.moveReplica(logstore.TopicPartition{Topic: topic, Partition: partition}, dir)
		}
		answers[i].Partition, answers[i].ErrorCode = partition, h.codeOf(err)
	}
	return answers
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
