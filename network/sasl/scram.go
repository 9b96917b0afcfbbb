package sasl

import (
	"time"

	"barnabas/internal/scram"
)

// Credentials are what logins with SCRAM are checked against. They are safe for concurrent use.
type Credentials interface {
	// User finds a user's credential for a mechanism.
	User(mechanism, user string) (scram.Credential, bool)
	// Token finds that of a delegation token's id, its owner and when it ends.
	Token(mechanism, id string) (c scram.Credential, owner string, expires time.Time, ok bool)
}

// Scram makes logins of a SCRAM mechanism.
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
func (e *scramExchange) Step(message []byte) ([]byte, error) { return e.server.Step(message) }

// Login implements Exchange.
func (e *scramExchange) Login() (Login, bool) {
	who := e.who
	if who.User == "" { // of a token that is not there, no owner is known
		who.User = e.server.User()
	}
	return who, e.server.Done()
}
