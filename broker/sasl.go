package broker

import (
	"barnabas/config"
	"barnabas/internal/scram"
	"barnabas/network/sasl"
)

// saslServer is how clients authenticate at a listener; nil: not by SASL.
func (s *Server) saslServer(c *config.Broker, l config.Listener) (*sasl.Server, error) {
	if !l.Protocol.SASL() {
		return nil, nil
	}
	settings, err := c.ListenerSASL(l)
	if err != nil {
		return nil, err
	}
	server := &sasl.Server{MaxReceive: int32(settings.MaxReceiveBytes), FailureDelay: c.FailedAuthenticationDelay}
	for _, m := range settings.Mechanisms {
		server.Mechanisms = append(server.Mechanisms, sasl.Mechanism{Name: m.Name, MaxLifetime: m.MaxReauth, Start: s.saslMechanism(m)})
	}
	return server, nil
}

func (s *Server) saslMechanism(m config.SASLMechanism) func() sasl.Exchange {
	if known, ok := scram.Named(m.Name); ok {
		return sasl.Scram(known, s.credentials)
	}
	return sasl.Plain(m.UserPasswords())
}

// saslClient is how this broker logs in at others' listener of a name; nil: it does not.
func saslClient(c *config.Broker, listener string) (*sasl.Client, error) {
	protocol, ok := c.ListenerSecurityProtocolMap[listener]
	if !ok || !protocol.SASL() {
		return nil, nil
	}
	login, err := c.BrokersSASL(config.Listener{Name: listener})
	if err != nil {
		return nil, err
	}
	return &sasl.Client{Mechanism: login.Mechanism, User: login.User, Password: login.Password, Token: login.Token}, nil
}
