// Package sasl implements the SASL mechanisms for listeners and for connections between brokers: the messages of a
// login, and how they are checked. It knows nothing about frames, or about the requests that carry the messages.
package sasl

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Server says how the clients of a listener authenticate. It is immutable.
type Server struct {
	Mechanisms   []Mechanism
	MaxReceive   int32         // bytes, of a frame before the client has authenticated: sasl.server.max.receive.size
	FailureDelay time.Duration // before the answer to a failed login: connection.failed.authentication.delay.ms
}

// Mechanism is one way to authenticate.
type Mechanism struct {
	Name        string
	MaxLifetime time.Duration // of a session, before the client must re-authenticate: connections.max.reauth.ms; 0: no limit
	Unsecured   bool          // clients can claim to be any user
	Waits       bool          // a login may wait for another server
	Start       func() Exchange
}

// Find returns the mechanism with the given name, which is case-sensitive, or nil if it is not offered.
func (s *Server) Find(name string) *Mechanism {
	i := slices.IndexFunc(s.Mechanisms, func(m Mechanism) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Mechanisms[i]
}

// Names returns the names of the mechanisms, sorted.
func (s *Server) Names() []string {
	names := make([]string, len(s.Mechanisms))
	for i, m := range s.Mechanisms {
		names[i] = m.Name
	}
	slices.Sort(names)
	return names
}

// Exchange is the server's side of a login in progress. It is used by one goroutine at a time.
type Exchange interface {
	// Step takes the client's next message, whose bytes it does not retain, and returns the answer. After an error the
	// login has failed. ctx ends with the client's connection.
	Step(ctx context.Context, message []byte) (answer []byte, err error)
	// Login returns who is logging in, as far as that is known, and whether it has been proved. Unless it has, the
	// client may be lying.
	Login() (who Login, proved bool)
}

// Login describes an authenticated client.
type Login struct {
	User    string
	Token   bool      // with a delegation token, as its owner
	Expires time.Time // when its proof expires; zero: never
}

// Refusal is the reason why a login failed, in words for the client. Clients are not told about any other error, since
// they could learn which users exist.
type Refusal struct{ Reason string }

func (r Refusal) Error() string { return r.Reason }

// Reason returns what the client is told about a failed login.
func Reason(err error) (text string, ok bool) {
	var r Refusal
	if errors.As(err, &r) {
		return r.Reason, true
	}
	return "", false
}
