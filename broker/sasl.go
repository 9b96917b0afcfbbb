package broker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/internal/scram"
	"barnabas/network/oauth"
	"barnabas/network/sasl"
)

// saslServer returns how clients authenticate at a listener, or nil if it does not use SASL. A mechanism whose files
// cannot be read, which the error tells, stays as it was before; before may be nil.
func (s *Server) saslServer(c *config.Broker, l config.Listener, before *sasl.Server) (*sasl.Server, error) {
	if !l.Protocol.SASL() {
		return nil, nil
	}
	settings, err := c.ListenerSASL(l)
	if err != nil {
		return before, err
	}
	server := &sasl.Server{MaxReceive: int32(settings.MaxReceiveBytes), FailureDelay: c.FailedAuthenticationDelay}
	if server.MaxReceive < 0 { // no limit of its own
		server.MaxReceive = int32(c.SocketRequestMaxBytes)
	}
	var failed []error
	for _, m := range settings.Mechanisms {
		start, err := s.saslMechanism(l.Name, m)
		if err == nil {
			server.Mechanisms = append(server.Mechanisms, sasl.Mechanism{Name: m.Name, MaxLifetime: m.MaxReauth, Start: start,
				Unsecured: m.Name == sasl.OAuthBearerName && m.Signed == nil, Waits: m.Signed != nil})
			continue
		}
		failed = append(failed, err)
		if before == nil {
			continue
		}
		if last := before.Find(m.Name); last != nil {
			server.Mechanisms = append(server.Mechanisms, *last)
		}
	}
	if len(server.Mechanisms) == 0 { // rather than that nobody can log in
		return before, errors.Join(failed...)
	}
	return server, errors.Join(failed...)
}

// warnOfUnsecured warns of a listener at which anyone can log in as any user.
func (s *Server) warnOfUnsecured(l config.Listener, settings *sasl.Server) {
	if settings != nil && slices.ContainsFunc(settings.Mechanisms, func(m sasl.Mechanism) bool { return m.Unsecured }) {
		s.log.WithField(logx.Listener, l.Name).Warn("OAUTHBEARER accepts unsigned tokens: anyone who can reach this listener can log in as any user")
	}
}

// saslChanged applies changed settings to new connections. Apache Kafka reads such a change, of a password for example,
// only when the listener is created again. The error names what stays as it was.
func (s *Server) saslChanged(now *config.Broker) error {
	var failed []error
	for name, b := range s.listening.bound {
		settings, err := s.saslServer(now, b.Listener, b.sasl)
		if err != nil {
			failed = append(failed, fmt.Errorf("listener %s: %w", name, err))
		}
		if settings != nil {
			b.sasl = settings
			s.listening.bound[name] = b
			s.network.SetSASL(name, settings)
		}
	}
	s.oauth.settle(func(listener string) bool { _, open := s.listening.bound[listener]; return open })
	return errors.Join(failed...)
}

// refuseMechanisms refuses a change of mechanisms that name files which cannot be read.
func (s *Server) refuseMechanisms(now, next *config.Broker) error {
	for _, l := range next.Listeners {
		if !l.Protocol.SASL() {
			continue
		}
		settings, err := next.ListenerSASL(l)
		if err != nil {
			return err
		}
		before, _ := now.ListenerSASL(l) // none, if the listener is new
		for _, m := range settings.Mechanisms {
			same := func(other config.SASLMechanism) bool { return reflect.DeepEqual(other, m) }
			if slices.ContainsFunc(before.Mechanisms, same) {
				continue
			}
			if err := s.readable(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// readable checks that the files which a mechanism needs can be read.
func (s *Server) readable(m config.SASLMechanism) (err error) {
	switch {
	case m.Kerberos != nil:
		_, err = s.kerberos.ticketed(m.Kerberos)
	case m.Signed != nil:
		_, err = endpoint(m.Signed.Keys)
	}
	return err
}

func (s *Server) saslMechanism(listener string, m config.SASLMechanism) (func() sasl.Exchange, error) {
	if known, ok := scram.Named(m.Name); ok {
		return sasl.Scram(known, s.credentials), nil
	}
	if m.Kerberos != nil {
		return s.kerberos.ticketed(m.Kerberos)
	}
	if m.Name != sasl.OAuthBearerName {
		return sasl.Plain(m.UserPasswords()), nil
	}
	if m.Signed != nil {
		check, err := s.oauth.checker(listener, m.Signed)
		return sasl.OAuthBearer(check), err
	}
	rules, err := m.TokenRules()
	return sasl.OAuthBearer(func(_ context.Context, token string) (sasl.Login, error) {
		user, expires, err := oauth.UnsecuredRules(rules).Validate(token, time.Now())
		return sasl.Login{User: user, Expires: expires}, err
	}), err
}

// saslClient returns how this broker logs in at other brokers' listener of that name, or nil if it does not.
func (s *Server) saslClient(listener string) (*sasl.Client, error) {
	c := s.config.Current()
	protocol, ok := c.ListenerSecurityProtocolMap[listener]
	if !ok || !protocol.SASL() {
		return nil, nil
	}
	login, err := c.BrokersSASL(config.Listener{Name: listener})
	if err != nil {
		return nil, err
	}
	client := &sasl.Client{Mechanism: login.Mechanism, User: login.User, Password: login.Password, Token: login.Token}
	switch {
	case login.Kerberos != nil:
		client.User = login.Kerberos.Principal
		client.Kerberos, err = s.kerberos.dialog(login.Kerberos)
	case login.Source != nil:
		client.Bearer, err = s.oauth.bearer(listener, login.Source)
	case login.Mechanism == sasl.OAuthBearerName:
		client.Bearer = oauth.Unsecured(login.Claims, login.ClaimsLifetime)
	}
	return client, err
}
