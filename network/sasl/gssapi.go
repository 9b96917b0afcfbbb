package sasl

import (
	"context"

	"barnabas/network/kerberos"
)

// gssapiName is the mechanism for Kerberos 5 tickets (RFC 4752).
const gssapiName = "GSSAPI"

// GSSAPI returns a constructor of logins with GSSAPI to a service. The rules map principals to users.
func GSSAPI(service *kerberos.Service, rules *kerberos.Rules) func() Exchange {
	return func() Exchange { return &ticketed{acceptor: service.Start(), rules: rules} }
}

type ticketed struct {
	acceptor *kerberos.Acceptor
	rules    *kerberos.Rules
	who      Login
	proved   bool
}

// Step implements Exchange.
func (t *ticketed) Step(_ context.Context, message []byte) ([]byte, error) {
	answer, err := t.acceptor.Step(message)
	if err != nil {
		return nil, err
	}
	principal, proved := t.acceptor.Principal()
	if !proved {
		t.who.User = principal // as claimed so far
		return answer, nil
	}
	if t.who.User, err = t.rules.User(principal); err != nil {
		return nil, err
	}
	t.proved = true
	return answer, nil
}

// Login implements Exchange.
func (t *ticketed) Login() (Login, bool) { return t.who, t.proved }
