package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/zkcoord"
)

// loadConfigs reads the settings of this broker and of the topics from ZooKeeper.
func (s *Server) loadConfigs(ctx context.Context) error {
	if err := s.reencodePasswords(ctx); err != nil {
		return err
	}
	for _, e := range []string{zkcoord.DefaultEntity, strconv.Itoa(int(s.id))} {
		if err := s.loadBrokerConfig(ctx, e); err != nil {
			return err
		}
	}
	s.topics = newTopicConfigs(s.config, s.zk, s.log)
	s.topics.unread = s.newTopicUnread
	if _, err := s.topics.loadAll(ctx); err != nil {
		return err
	}
	s.quotas = newQuotas(s.static)
	return s.loadQuotas(ctx)
}

// reencodePasswords encrypts this broker's stored passwords again after password.encoder.secret has changed.
func (s *Server) reencodePasswords(ctx context.Context) error {
	e := zkcoord.Entity{Kind: zkcoord.Brokers, Name: strconv.Itoa(int(s.id))}
	stored, err := s.zk.EntityConfig(ctx, e)
	if err != nil {
		return err
	}
	if _, changed, err := s.config.Reencode(stored); err != nil || !changed {
		return err
	}
	err = s.zk.UpdateEntityConfigEarly(ctx, e, func(stored map[string]string) (map[string]string, error) {
		next, _, err := s.config.Reencode(stored)
		return next, err
	})
	if err == nil {
		s.log.WithField(logx.Setting, "password.encoder.old.secret").Info("re-encrypted the stored passwords with password.encoder.secret")
	}
	return err
}

func (s *Server) loadBrokerConfig(ctx context.Context, name string) error {
	e := zkcoord.Entity{Kind: zkcoord.Brokers, Name: name}
	s.pending.Lock() // which applying settings needs: what cannot be applied may be tried again already
	defer s.pending.Unlock()
	stored, err := s.zk.EntityConfig(ctx, e)
	if err != nil {
		return err
	}
	return s.setBrokerConfig(e, stored)
}

// setBrokerConfig applies the stored settings of this broker or of all brokers. The error tells that they are invalid.
func (s *Server) setBrokerConfig(e zkcoord.Entity, stored map[string]string) error {
	if e.Name == zkcoord.DefaultEntity {
		return s.config.SetCluster(stored, e.Path())
	}
	return s.config.SetBroker(stored, e.Path())
}

// watchConfigs follows changes of settings. It returns when none can be missed any more.
func (s *Server) watchConfigs(ctx context.Context) error {
	ready := make(chan struct{})
	watching, stop := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	ended := make(chan error, 1)
	running.Go(func() {
		err := s.zk.WatchConfigChanges(watching, func() { close(ready) }, s.entityChanged, s.settingsMissed)
		ended <- err
		for pause := retryPause; watching.Err() == nil; pause = min(2*pause, retryPauseMax) {
			s.log.WithError(err).Error("changes of settings cannot be read, trying again")
			if await.Pause(watching, pause) != nil {
				return
			}
			s.settingsMissed()
			err = s.zk.WatchConfigChanges(watching, nil, s.entityChanged, s.settingsMissed)
		}
	})
	s.onStop(func() { stop(); running.Wait() })
	select {
	case <-ready:
		return nil
	case err := <-ended:
		return fmt.Errorf("changes of settings cannot be watched: %w", errors.Join(err, ctx.Err()))
	case <-ctx.Done():
		return ctx.Err()
	}
}
