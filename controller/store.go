package controller

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"barnabas/zkcoord"
)

// Sender sends a request to a broker and waits for its answer. It may be called for several
// brokers at once, but for one broker only after the last call has returned. The broker that
// the controller runs in implements it, and delivers what is for itself without a socket.
type Sender interface {
	Send(ctx context.Context, to zkcoord.BrokerInfo, req kmsg.Request) (kmsg.Response, error)
}

// Store is where the cluster's state is: *zkcoord.Client, or a simulated one.
type Store interface {
	OnChange(func(zkcoord.Change)) (cancel func())
	OnSession(func(zkcoord.SessionEvent)) (cancel func())

	WatchController(ctx context.Context) (id int32, err error)
	Elect(ctx context.Context, broker int32) (term zkcoord.Term, won bool, err error)
	Resign(ctx context.Context, term zkcoord.Term) error

	Features(ctx context.Context) (f zkcoord.Features, found bool, err error)
	SetFeatures(ctx context.Context, term zkcoord.Term, f zkcoord.Features) (epoch int32, err error)
	NextProducerIDs(ctx context.Context, broker int32) (zkcoord.ProducerIDBlock, error)

	WatchBrokers(ctx context.Context) ([]zkcoord.BrokerInfo, error)
	WatchTopics(ctx context.Context) ([]string, error)
	WatchTopicInfos(ctx context.Context, names []string) ([]zkcoord.TopicInfo, error)
	Topic(ctx context.Context, name string) (t zkcoord.TopicInfo, version int32, err error)
	SetTopic(ctx context.Context, term zkcoord.Term, t zkcoord.TopicInfo) error
	SetTopicID(ctx context.Context, term zkcoord.Term, t zkcoord.TopicInfo, version int32) error
	EntityConfigs(ctx context.Context, kind zkcoord.EntityKind, names []string) (map[string]map[string]string, error)

	PartitionStates(ctx context.Context, partitions []zkcoord.TopicPartition) (map[zkcoord.TopicPartition]zkcoord.PartitionState, error)
	CreateStates(ctx context.Context, term zkcoord.Term, creates []zkcoord.StateWrite) ([]zkcoord.WriteResult, error)
	WriteStates(ctx context.Context, term zkcoord.Term, writes []zkcoord.StateWrite) ([]zkcoord.WriteResult, error)

	WatchTopicDeletions(ctx context.Context) ([]string, error)
	WithdrawTopicDeletion(ctx context.Context, term zkcoord.Term, name string) error
	DeleteTopic(ctx context.Context, term zkcoord.Term, name string) error

	WatchReassignments(ctx context.Context) (targets map[zkcoord.TopicPartition][]int32, present bool, err error)
	SetReassignments(ctx context.Context, term zkcoord.Term, left map[zkcoord.TopicPartition][]int32) error
	WatchPreferredElection(ctx context.Context) (partitions []zkcoord.TopicPartition, present bool, err error)
	RemovePreferredElection(ctx context.Context, term zkcoord.Term) error
	WatchISRNotifications(ctx context.Context) (partitions []zkcoord.TopicPartition, numbers []int64, err error)
	RemoveISRNotifications(ctx context.Context, term zkcoord.Term, numbers []int64) error
	WatchLogDirEvents(ctx context.Context) (brokers []int32, numbers []int64, err error)
	RemoveLogDirEvents(ctx context.Context, term zkcoord.Term, numbers []int64) error
}

var _ Store = (*zkcoord.Client)(nil)
