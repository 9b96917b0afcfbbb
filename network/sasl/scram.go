package sasl

import (
	"context"
	"time"

	"barnabas/internal/scram"
)

// Credentials provides what SCRAM logins are checked against. Safe for concurrent use.
type Credentials interface {
	// User finds a user's credential for a mechanism.
	User(mechanism, user string) (scram.Credential, bool)
	// Token returns the credential of a delegation token by its id, its owner, and its expiry.
	Token(mechanism, id string) (c scram.Credential, owner string, expires time.Time, ok bool)
}

// Scram returns a constructor of logins with a SCRAM mechanism.
func Scram(m scram.Mechanism, known Credentials) func() Exchange {
	return func() Exchange {
		e := new(scramExchange)
		e.server = m.NewServer(func(user string, token bool) (scram.Credential, bool) {
			if !token {
				e.who = Login{User: user}
				return known.User(m.Name, user)
			}
			c, owner, expires, ok := known.Token(m.Name, user)
			e.who = Login{User: owner, Token: true, Expires: expires}
			return c, ok
		})
		return e
	}
}

type scramExchange struct {
	server *scram.Server
	who    Login
}

// Step implements Exchange.
func (e *scramExchange) Step(_ context.Context, message []byte) ([]byte, error) {
	return e.server.Step(message)
}

// Login implements Exchange.
func (e *scramExchange) Login() (Login, bool) {
	who := e.who
	if who.User == "" { // the owner of an unknown token is not known
		who.User = e.server.User()
	}
	return who, e.server.Done()
}
