package broker

import (
	"context"
	"time"

	"barnabas/broker/token"
	"barnabas/config"
)

// makeTokens creates the delegation token manager if delegation.token.secret.key is set.
func (s *Server) makeTokens() {
	c := s.static
	if c.DelegationTokenSecret == "" {
		return
	}
	s.tokens = token.New(token.Config{
		Secret: []byte(c.DelegationTokenSecret), MaxLifetime: c.DelegationTokenMaxLifetime, Lifetime: c.DelegationTokenLifetime,
		CheckInterval: c.DelegationTokenCheckInterval, Sweeps: s.controller.Active, Store: s.zk, Now: time.Now, Failed: s.fail,
		Logger: s.loggers.Entry(config.ServerLogger),
	})
	s.credentials.tokens = s.tokens
	s.onStop(s.tokens.Close)
}

// startTokens reads the tokens, before anyone can log in with one.
func (s *Server) startTokens(ctx context.Context) error {
	if s.tokens == nil {
		return nil
	}
	return s.tokens.Start(ctx)
}
