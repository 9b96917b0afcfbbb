package broker

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// finalizedFeatures are the cluster's feature levels as last read from ZooKeeper; nil: not read yet.
type finalizedFeatures struct {
	atomic.Pointer[zkcoord.Features]
	loading sync.Mutex // held from reading them to storing them
}

// followFeatures reads the finalized features, and again whenever they change or may have changed. The callbacks run on
// the session's goroutine, so they only start work elsewhere.
func (s *Server) followFeatures(ctx context.Context) error {
	again := func() {
		if err := s.loadFeatures(s.ctx); err != nil && s.ctx.Err() == nil {
			s.log.WithError(err).Warn("cannot read the finalized features")
		}
	}
	s.onStop(s.zk.OnChange(func(c zkcoord.Change) {
		if c.Kind == zkcoord.FeaturesChanged {
			s.background(again)
		}
	}))
	s.onStop(s.zk.OnSession(func(e zkcoord.SessionEvent) {
		if e == zkcoord.SessionReestablished { // the watch has gone with the previous session
			s.background(again)
		}
	}))
	return s.loadFeatures(ctx)
}

// background runs f on a goroutine, unless the broker is stopping.
func (s *Server) background(f func()) {
	if s.ctx.Err() == nil {
		s.tasks.Go(f)
	}
}

// loadFeatures reads and stores one after the other, so that the newest ones remain.
func (s *Server) loadFeatures(ctx context.Context) error {
	s.features.loading.Lock()
	defer s.features.loading.Unlock()
	f, _, err := s.zk.WatchFeatures(ctx)
	if err == nil {
		s.features.Store(&f)
	}
	return err
}

// entityChanged applies changed settings of a topic or broker.
func (s *Server) entityChanged(e zkcoord.Entity) {
	var err error
	switch e.Kind {
	case zkcoord.Topics:
		err = s.topicChanged(e.Name)
	case zkcoord.Brokers:
		if e.Name == zkcoord.DefaultEntity || e.Name == strconv.Itoa(int(s.id)) {
			err = s.loadBrokerConfig(s.ctx, e.Name)
		}
	case zkcoord.Users, zkcoord.Clients, zkcoord.IPs:
		if err = s.quotaChanged(e); err == nil {
			s.log.WithField(logx.Znode, e.Path()).Log(s.changeLevel(), "quotas or credentials changed")
		}
	}
	if err != nil && s.ctx.Err() == nil {
		s.log.WithError(err).WithFields(logrus.Fields{logx.Kind: e.Kind, logx.Value: e.Name}).Error("cannot read changed settings")
	}
}

// changeLevel is the log level for changes. A start replays the notifications of the last minutes, which are not news.
func (s *Server) changeLevel() logrus.Level {
	select {
	case <-s.ready:
		return logrus.InfoLevel
	default:
		return logrus.DebugLevel
	}
}

// topicsDeleted makes every part forget the deleted topics: new topics may have the same names.
func (s *Server) topicsDeleted(partitions []logstore.TopicPartition) {
	s.groups.TopicsDeleted(partitions)
	for _, tp := range partitions {
		s.topics.forget(tp.Topic)
	}
	s.metadata.Changed.Notify() // requests that wait for these partitions need not wait any longer
}

func (s *Server) topicChanged(topic string) error {
	if s.metadata.Current().Topics[topic] == nil && !s.replicas.Hosts(topic) {
		s.topics.forget(topic) // deleted, or so new that its settings are read with its first partition
		return nil
	}
	if err := s.topics.reload(s.ctx, topic); err != nil {
		return err
	}
	s.topicTakesEffect(topic)
	return nil
}

// settingsMissed reads all settings again: they may have changed while the ZooKeeper session was lost, and longer ago
// than notifications are kept.
func (s *Server) settingsMissed() {
	for _, name := range []string{zkcoord.DefaultEntity, strconv.Itoa(int(s.id))} {
		s.entityChanged(zkcoord.Entity{Kind: zkcoord.Brokers, Name: name})
	}
	changed, err := s.topics.loadAll(s.ctx)
	for _, topic := range changed {
		s.topicTakesEffect(topic)
	}
	if err = errors.Join(err, s.loadQuotas(s.ctx)); err != nil && s.ctx.Err() == nil {
		s.log.WithError(err).Error("cannot read the settings again after the ZooKeeper session was lost: changes since then may be missing")
	}
}

// topicTakesEffect passes a topic's new settings to the parts that keep a copy.
func (s *Server) topicTakesEffect(topic string) {
	now := s.topics.get(topic)
	s.logs.SetConfig(topic, logConfig(now))
	if now.UncleanLeaderElection { // regardless of the old value: leaders since then may have read it before this broker was notified
		s.controller.UncleanElectionAllowed(topic)
	}
	s.log.WithFields(logrus.Fields{logx.Topic: topic, logx.Settings: now.Overrides()}).Log(s.changeLevel(), "settings of a topic changed")
}

// configChanged passes a broker's new settings to the parts that keep a copy.
func (s *Server) configChanged(old, now *config.Broker) {
	if s.topics != nil {
		s.topics.rebuild()
		if s.logs != nil {
			s.logs.SetCleaner(cleanerConfig(now))
			s.logs.SetProducerExpiry(now.ProducerIDExpiration)
			s.logs.SetSegmentDeleteDelay(now.LogDeleteDelay)
			for _, topic := range s.topics.known() {
				s.logs.SetConfig(topic, logConfig(s.topics.get(topic)))
			}
		}
	}
	if s.replicas != nil {
		s.replicas.SetFetchers(now.NumReplicaFetchers)
	}
	s.secured.changed(now)
	if s.network != nil {
		s.listenersChanged(s.ctx, old, now)
		s.saslChanged(now)
		s.network.SetLimits(connectionLimits(now))
	}
	if s.controller != nil && now.UncleanLeaderElection && !old.UncleanLeaderElection {
		s.controller.UncleanElectionAllowed("")
	}
}
