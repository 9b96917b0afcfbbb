package sasl

import (
	"barnabas/network/kerberos"
)

// GSSAPIName is the mechanism that shows tickets of Kerberos 5 (RFC 4752).
const GSSAPIName = "GSSAPI"

// GSSAPI makes logins of the mechanism GSSAPI at a service. Rules name the users of principals.
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
func (t *ticketed) Step(message []byte) ([]byte, error) {
	answer, err := t.acceptor.Step(message)
	if err != nil {
		return nil, err
	}
	principal, proved := t.acceptor.Principal()
	if !proved {
		t.who.User = principal // as far as it was said
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
