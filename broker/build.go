package broker

import (
	"context"
	"time"

	"barnabas/broker/api"
	"barnabas/broker/group"
	"barnabas/broker/replica"
	"barnabas/broker/txn"
	"barnabas/config"
	"barnabas/controller"
	"barnabas/zkcoord"
)

// build creates the parts that do not need the network yet.
func (s *Server) build(context.Context) error {
	s.peers = newPeers(s)
	s.onStop(s.peers.close)
	s.controller = controller.New(s.controllerConfig(), s.zk, s.peers, s.loggers.Entry(config.ControllerLogger))
	s.replicas = replica.NewManager(s.replicaConfig())
	s.groups = group.New(s.groupConfig())
	s.producerIDs = txn.NewProducerIDs(s.allocateProducerIDs, s.log)
	s.transactions = txn.NewCoordinator(s.transactionsConfig())
	s.strays = &strays{s: s}
	s.makeTokens()
	s.handlers = api.New(api.Deps{
		BrokerID: s.id, ClusterID: s.clusterID, BrokerEpoch: s.epoch.Load, Config: s.config, Loggers: s.loggers,
		TopicConfig: s.topics.get, Metadata: s.metadata, Features: func() zkcoord.Features { return *s.features.Load() },
		Replicas: s.replicas, Logs: s.logs, ZK: s.zk, Controller: s.controller, ProducerIDs: s.producerIDs, Groups: s.groups, Quotas: s.quotas, Tokens: s.tokens, Metrics: s.metrics, Authorizer: s.acls,
		ReloadStores: s.secured.reload, Transactions: s.transactions, Ready: s.ready, TopicsDeleted: s.topicsDeleted, ControllerSpoke: s.strays.controllerSpoke,
		Logger: s.loggers.Entry(config.APILogger), RequestLogger: s.loggers.Entry(config.RequestLogger),
	})
	close(s.built)
	s.background(s.awaitLoaded)
	return nil
}

func (s *Server) controllerConfig() controller.Config {
	c := s.static
	return controller.Config{
		BrokerID: s.id, Listener: c.InterBrokerListener, Protocol: s.controllerProtocol(),
		UncleanDefault:    func() bool { return s.config.Current().UncleanLeaderElection },
		DeleteTopicEnable: c.DeleteTopicEnable, AutoRebalance: c.AutoLeaderRebalance,
		RebalanceInterval: c.LeaderImbalanceCheckInterval, RebalanceThreshold: c.LeaderImbalancePerBrokerPercent,
		Reregister: s.registerAgain, Handled: s.controlled, Sent: s.metrics.ControllerSent, SendingEnded: s.metrics.ControllerForgets,
	}
}

func (s *Server) replicaConfig() replica.Config {
	c := s.static
	return replica.Config{
		BrokerID: s.id, BrokerEpoch: s.epoch.Load, Logs: s.logs, ReadSettings: s.topics.readNew, LogConfig: s.topics.logConfigOfNew, Unhosted: s.metrics.Forget,
		MinInSync:  func(topic string) int { return s.topics.get(topic).MinInsyncReplicas },
		LagMax:     func() time.Duration { return s.config.Current().ReplicaLagTimeMax },
		IsLive:     func(id int32) bool { return s.metadata.Current().Brokers[id] != nil },
		Controller: s.peers, AlterVersion: s.alterPartitionVersion(), Logger: s.loggers.Entry(config.ReplicaLogger), Now: time.Now,
		ISRs:              s.isrStore(),
		Stored:            s.storedState,
		LeadershipChanged: s.leadershipChanged, StorageFailed: func() { s.background(s.reportLostLogs) },
		LeaderThrottle: s.leaderThrottle(), FollowerThrottle: s.followerThrottle(),
		Move: replica.MoveConfig{Threads: c.NumReplicaAlterLogDirsThreads, MaxBytes: int32(c.ReplicaFetchMaxBytes), Throttle: s.moveThrottle()},
		Fetch: replica.FetchConfig{
			Dial: s.peers.dialReplica, PerBroker: c.NumReplicaFetchers, Version: s.fetchVersion(),
			EpochVersion: s.offsetForLeaderEpochVersion(), ListVersion: s.listOffsetsVersion(),
			MaxWait: c.ReplicaFetchWaitMax, MinBytes: int32(c.ReplicaFetchMinBytes), MaxBytes: int32(c.ReplicaFetchMaxBytes),
			ResponseMaxBytes: int32(c.ReplicaFetchResponseMaxBytes), Backoff: c.ReplicaFetchBackoff, Timeout: c.ReplicaSocketTimeout,
			Received: s.replicated, Logger: s.loggers.Entry(config.FetcherLogger),
		},
	}
}
