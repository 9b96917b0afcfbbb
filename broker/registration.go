package broker

import (
	"context"
	"fmt"
	"slices"

	"barnabas/config"
	"barnabas/zkcoord"
)

// register registers this broker in ZooKeeper; from then on it is part of the cluster.
func (s *Server) register(ctx context.Context) error {
	endpoints := s.listening.endpoints()
	if err := s.checkEndpoints(ctx, endpoints); err != nil {
		return s.withOrigin(err, "advertised.listeners", "listeners")
	}
	epoch, err := s.zk.RegisterBroker(ctx, s.registration(endpoints))
	if err != nil {
		return err
	}
	s.epoch.Store(epoch)
	return s.advertiseChanged(ctx, endpoints)
}

// advertiseChanged updates the registration if the listeners have changed since it was prepared with the given
// endpoints: there may have been none yet that the change could update.
func (s *Server) advertiseChanged(ctx context.Context, registered []zkcoord.Endpoint) error {
	for now := s.listening.endpoints(); !slices.Equal(now, registered); now = s.listening.endpoints() {
		if err := s.zk.UpdateBroker(ctx, s.registration(now)); err != nil {
			return err
		}
		registered = now
	}
	return nil
}

// registration returns the content of this broker's node in ZooKeeper.
func (s *Server) registration(endpoints []zkcoord.Endpoint) zkcoord.BrokerInfo {
	info := zkcoord.BrokerInfo{ID: s.id, Endpoints: endpoints, JMXPort: -1}
	if !s.since(config.IBP27IV0) {
		info.Format = 4
	}
	if s.static.Rack != "" {
		info.Rack = &s.static.Rack
	}
	return info
}

// registerAgain registers after the session has expired.
func (s *Server) registerAgain(ctx context.Context) error {
	s.log.Info("the ZooKeeper session expired, registering again")
	return s.register(ctx)
}

// checkEndpoints refuses an address that another live broker advertises already.
func (s *Server) checkEndpoints(ctx context.Context, endpoints []zkcoord.Endpoint) error {
	brokers, err := s.zk.Brokers(ctx)
	if err != nil {
		return err
	}
	for _, b := range brokers {
		if b.ID == s.id {
			continue
		}
		for _, theirs := range b.Endpoints {
			for _, ours := range endpoints {
				if ours.Host == theirs.Host && ours.Port == theirs.Port {
					return fmt.Errorf("advertised.listeners: %s:%d is advertised by broker %d already", ours.Host, ours.Port, b.ID)
				}
			}
		}
	}
	return nil
}
