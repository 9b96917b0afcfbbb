package controller

import (
	"context"
	"time"

	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sender sends a request to a broker and waits for its response. It may be called for several brokers concurrently, but
// for the same broker only after the previous call has returned. It is implemented by the controller's broker, which
// delivers requests to itself without a socket.
type Sender interface {
	Send(ctx context.Context, to zkcoord.BrokerInfo, req kmsg.Request) (kmsg.Response, error)
}

// BrokerChannel takes requests to one broker and ensures that each is answered, in order. Its methods do not block,
// except that Close waits for what it started.
type BrokerChannel interface {
	Send(req kmsg.Request)
	Move(to zkcoord.BrokerInfo) // the broker's new addresses
	Close()                     // drops what is queued
	Queued() int                // number of requests that wait to be sent
}

// Environment is everything that a controller acts upon, so that it can be simulated.
type Environment struct {
	Store Store
	// OpenChannel opens a channel to a broker. It calls answer for each request that was answered, in order, on any
	// goroutine.
	OpenChannel func(to zkcoord.BrokerInfo, log *logrus.Entry, answer func(req kmsg.Request, resp kmsg.Response)) BrokerChannel
	// After calls f once d has passed, on any goroutine, unless cancelled.
	After func(d time.Duration, f func()) (cancel func())
}

// realEnvironment uses real time, and sends through s on a goroutine for each broker.
func realEnvironment(store Store, s Sender, watch channelWatch) Environment {
	return Environment{
		Store: store,
		OpenChannel: func(to zkcoord.BrokerInfo, log *logrus.Entry, answer func(kmsg.Request, kmsg.Response)) BrokerChannel {
			return openBrokerChannel(s, to, log, answer, watch)
		},
		After: func(d time.Duration, f func()) func() {
			timer := time.AfterFunc(d, f)
			return func() { timer.Stop() }
		},
	}
}

// Store is where the cluster's state is stored: *zkcoord.Client, or a simulated one.
type Store interface {
	OnChange(func(zkcoord.Change)) (cancel func())
	OnSession(func(zkcoord.SessionEvent)) (cancel func())

	Registered(ctx context.Context, broker int32) (bool, error)
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
	SetTopic(ctx context.Context, term zkcoord.Term, t zkcoord.TopicInfo) (version int32, err error)
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
