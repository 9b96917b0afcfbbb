package broker

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"barnabas/config"
	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// pendingChanges puts what changes outside of this broker in order: settings and features in ZooKeeper, and the files
// that settings name.
type pendingChanges struct {
	sync.Mutex                     // held from reading what has changed until it is in force, so that an older read does not replace a newer one
	again      map[string]struct{} // what could not be read or applied, and is tried again
}

// retryPause and retryPauseMax are the shortest and longest time after which a change that could not be read or applied is
// tried again.
const (
	retryPause    = time.Second
	retryPauseMax = time.Minute
)

// applyLocked reads and applies what has changed. If it fails, because ZooKeeper or a file cannot be read, it is tried
// again at intervals: nothing else would announce the change. There is one log line about that.
func (s *Server) applyLocked(what string, apply func() error) {
	err := apply()
	if err == nil || s.ctx.Err() != nil {
		return
	}
	s.log.WithError(err).WithField(logx.Value, what).Error("a change cannot be applied, keeping what was before and trying again later")
	s.applyAgainLocked(what, apply)
}

// applyAgainLocked begins to apply what has changed at intervals until that succeeds.
func (s *Server) applyAgainLocked(what string, apply func() error) {
	if _, already := s.pending.again[what]; already {
		return
	}
	if s.pending.again == nil {
		s.pending.again = make(map[string]struct{})
	}
	s.pending.again[what] = struct{}{}
	s.background(func() {
		for pause := retryPause; ; pause = min(2*pause, retryPauseMax) {
			if await.Pause(s.ctx, pause) != nil || s.appliedAgain(what, apply) {
				return
			}
		}
	})
}

func (s *Server) appliedAgain(what string, apply func() error) bool {
	s.pending.Lock()
	defer s.pending.Unlock()
	log := s.log.WithField(logx.Value, what)
	if err := apply(); err != nil {
		log.WithError(err).Debug("the change still cannot be applied")
		return false
	}
	delete(s.pending.again, what)
	log.Info("applied the change")
	return true
}

// background runs f on a goroutine, unless the broker is stopping.
func (s *Server) background(f func()) {
	if s.ctx.Err() == nil {
		s.tasks.Go(f)
	}
}

// followFeatures reads the finalized features, and again whenever they change or may have changed. The callbacks run on
// the session's goroutine, so they only start work elsewhere.
func (s *Server) followFeatures(ctx context.Context) error {
	again := func() {
		s.pending.Lock()
		defer s.pending.Unlock()
		s.applyLocked("finalized features", func() error { return s.loadFeaturesLocked(s.ctx) })
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
	s.pending.Lock()
	defer s.pending.Unlock()
	return s.loadFeaturesLocked(ctx)
}

func (s *Server) loadFeaturesLocked(ctx context.Context) error {
	f, _, err := s.zk.WatchFeatures(ctx)
	if err == nil {
		s.features.Store(&f)
	}
	return err
}

// entityChanged applies changed settings of a topic, broker, user, client id or address.
func (s *Server) entityChanged(e zkcoord.Entity) {
	s.pending.Lock()
	defer s.pending.Unlock()
	s.applyLocked(e.Path(), func() error { return s.readEntity(e) })
}

// newTopicUnread has the settings of a topic read again whose first log was created without them.
func (s *Server) newTopicUnread(topic string) {
	s.background(func() {
		s.pending.Lock()
		defer s.pending.Unlock()
		e := zkcoord.Entity{Kind: zkcoord.Topics, Name: topic}
		s.applyAgainLocked(e.Path(), func() error { return s.readEntity(e) })
	})
}

// readEntity reads and applies an entity's settings. The error tells that they could not be read; invalid ones are
// logged.
func (s *Server) readEntity(e zkcoord.Entity) error {
	switch e.Kind {
	case zkcoord.Topics:
		return s.topicChanged(e.Name)
	case zkcoord.Brokers:
		if e.Name == zkcoord.DefaultEntity || e.Name == strconv.Itoa(int(s.id)) {
			return s.brokerChanged(e)
		}
	case zkcoord.Users, zkcoord.Clients, zkcoord.IPs:
		if err := s.quotaChanged(e); err != nil {
			return err
		}
		s.log.WithField(logx.Znode, e.Path()).Log(s.changeLevel(), "quotas or credentials changed")
	}
	return nil
}

// brokerChanged reads the settings of this broker or of all brokers again.
func (s *Server) brokerChanged(e zkcoord.Entity) error {
	stored, err := s.zk.EntityConfig(s.ctx, e)
	if err != nil {
		return err
	}
	if err := s.setBrokerConfig(e, stored); err != nil {
		s.log.WithError(err).WithField(logx.Znode, e.Path()).Error("changed settings are invalid")
	}
	return nil
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
	s.pending.Lock()
	defer s.pending.Unlock()
	s.applyLocked("all settings", s.readAllLocked)
}

// readAllLocked reads and applies the settings of all entities except brokers.
func (s *Server) readAllLocked() error {
	changed, err := s.topics.loadAll(s.ctx)
	for _, topic := range changed {
		s.topicTakesEffect(topic)
	}
	return errors.Join(err, s.loadQuotas(s.ctx))
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

// configChanged passes a broker's new settings to the parts that keep a copy. Files and ports that settings name may not
// be usable just then.
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
	s.applyLocked("TLS settings", func() error { return s.secured.changed(s.config.Current()) })
	if s.network != nil {
		s.applyLocked("listeners", func() error { return s.listenersChanged(s.ctx, s.config.Current()) })
		s.applyLocked("SASL settings", func() error { return s.saslChanged(s.config.Current()) })
		s.applyLocked("limits of connections", s.limitConnections)
	}
	if s.controller != nil && now.UncleanLeaderElection && !old.UncleanLeaderElection {
		s.controller.UncleanElectionAllowed("")
	}
}
