package broker

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// finalizedFeatures are the cluster's feature levels as last read from ZooKeeper; nil: not read yet.
type finalizedFeatures struct {
	atomic.Pointer[zkcoord.Features]
	loading   sync.Mutex  // held from reading them to storing them
	rereading atomic.Bool // they could not be read and are about to be read again
}

// followFeatures reads the finalized features, and again whenever they change or may have changed. The callbacks run on
// the session's goroutine, so they only start work elsewhere.
func (s *Server) followFeatures(ctx context.Context) error {
	again := func() { s.readFeaturesAgain(rereadPause) }
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

// readFeaturesAgain reads changed features, once more after a pause if they cannot be read.
func (s *Server) readFeaturesAgain(pause time.Duration) {
	err := s.loadFeatures(s.ctx)
	if err == nil || s.ctx.Err() != nil {
		return
	}
	s.log.WithError(err).Warn("cannot read the finalized features, trying again later")
	if !s.features.rereading.CompareAndSwap(false, true) {
		return
	}
	s.background(func() {
		select {
		case <-time.After(pause):
			s.features.rereading.Store(false)
			s.readFeaturesAgain(min(2*pause, rereadPauseMax))
		case <-s.ctx.Done():
		}
	})
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

// unreadSettings are the entities whose settings could not be read when they changed. The zero entity stands for all
// entities.
type unreadSettings struct {
	sync.Mutex // held from reading changed settings until they are in force, so that an older read does not replace a newer one
	rereading  map[zkcoord.Entity]struct{}
}

// rereadPause and rereadPauseMax are the shortest and longest time after which settings that could not be read are read
// again.
const (
	rereadPause    = time.Second
	rereadPauseMax = time.Minute
)

// entityChanged applies changed settings of a topic, broker, user, client id or address. Those that cannot be read are
// read again later: nothing else would announce them until their next change.
func (s *Server) entityChanged(e zkcoord.Entity) {
	s.unread.Lock()
	defer s.unread.Unlock()
	s.applyLocked(e)
}

func (s *Server) applyLocked(e zkcoord.Entity) {
	if err := s.readEntity(e); err != nil && s.ctx.Err() == nil {
		s.log.WithError(err).WithFields(logrus.Fields{logx.Kind: e.Kind, logx.Value: e.Name}).Error("cannot read changed settings, trying again later")
		s.readAgainLocked(e)
	}
}

// readAgainLocked begins to read an entity's settings again at intervals until they can be read.
func (s *Server) readAgainLocked(e zkcoord.Entity) {
	if _, already := s.unread.rereading[e]; already {
		return
	}
	if s.unread.rereading == nil {
		s.unread.rereading = make(map[zkcoord.Entity]struct{})
	}
	s.unread.rereading[e] = struct{}{}
	s.background(func() {
		for pause := rereadPause; ; pause = min(2*pause, rereadPauseMax) {
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
				return
			}
			if s.readAgain(e) {
				return
			}
		}
	})
}

// readAgain reports whether the settings could be read.
func (s *Server) readAgain(e zkcoord.Entity) bool {
	s.unread.Lock()
	defer s.unread.Unlock()
	read := s.readEntity
	if e == (zkcoord.Entity{}) {
		read = func(zkcoord.Entity) error { return s.readAllLocked() }
	}
	if err := read(e); err != nil {
		s.log.WithError(err).WithFields(logrus.Fields{logx.Kind: e.Kind, logx.Value: e.Name}).Debug("settings still cannot be read")
		return false
	}
	delete(s.unread.rereading, e)
	return true
}

// newTopicUnread has the settings of a topic read again whose first log was created without them.
func (s *Server) newTopicUnread(topic string) {
	s.background(func() {
		s.unread.Lock()
		defer s.unread.Unlock()
		s.readAgainLocked(zkcoord.Entity{Kind: zkcoord.Topics, Name: topic})
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
	s.unread.Lock()
	defer s.unread.Unlock()
	for _, name := range []string{zkcoord.DefaultEntity, strconv.Itoa(int(s.id))} {
		s.applyLocked(zkcoord.Entity{Kind: zkcoord.Brokers, Name: name})
	}
	if err := s.readAllLocked(); err != nil && s.ctx.Err() == nil {
		s.log.WithError(err).Error("cannot read the settings again after changes may have been missed, trying again later")
		s.readAgainLocked(zkcoord.Entity{})
	}
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
