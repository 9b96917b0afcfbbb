package broker

import (
	"context"
	"fmt"

	"barnabas/broker/acl"
	"barnabas/broker/metrics"
	"barnabas/config"
	"barnabas/zkcoord"
)

// startAuthorizer reads the ACLs if there is an authorizer. ACLs that cannot be read prevent the start.
func (s *Server) startAuthorizer(ctx context.Context) error {
	if s.static.AuthorizerClass == "" {
		return nil
	}
	store, err := s.aclStore(ctx)
	if err != nil {
		return err
	}
	s.acls = acl.New(acl.Config{
		SuperUsers: s.static.SuperUsers, AllowIfNone: s.static.AllowEveryoneIfNoACL, NoPrefixes: !s.since(config.IBP20IV1),
		Store: store, Failed: s.fail, APIName: metrics.RequestName, Logger: s.loggers.Entry(config.AuthorizerLogger),
	})
	s.onStop(s.acls.Close)
	if err := s.acls.Start(ctx); err != nil {
		return fmt.Errorf("authorizer.class.name=%s: %w", s.static.AuthorizerClass, err)
	}
	return nil
}

// aclStore returns the ZooKeeper session for the authorizer: the broker's or, with authorizer.zookeeper.*, one of its
// own, encrypted as the broker's.
func (s *Server) aclStore(ctx context.Context) (*zkcoord.Client, error) {
	own := s.static.AuthorizerZookeeper
	if own == nil {
		s.collector.authorizedBy(nil)
		return s.zk, nil
	}
	access, err := s.zooKeeperAccess()
	if err != nil {
		return nil, err
	}
	access.Connect, access.SessionTimeout = own.Connect, own.SessionTimeout
	access.ConnectionTimeout, access.MaxInFlight = own.ConnectionTimeout, own.MaxInFlight
	zk, err := zkcoord.Connect(ctx, access)
	if err != nil {
		return nil, fmt.Errorf("authorizer.zookeeper.url=%s: %w", own.Connect, err)
	}
	s.onStop(zk.Close)
	s.onStop(s.collector.authorizedBy(zk))
	return zk, nil
}
