// Package sasl is what listeners and connections between brokers know of the mechanisms of SASL: the messages of a login
// and how they are checked. It knows nothing of frames, nor of which requests carry the messages.
package sasl

import (
	"errors"
	"slices"
	"time"
)

// Server says how clients of a listener authenticate. It never changes.
type Server struct {
	Mechanisms   []Mechanism
	MaxReceive   int32         // of a frame before the client has authenticated: sasl.server.max.receive.size, bytes
	FailureDelay time.Duration // before the answer to a failed login: connection.failed.authentication.delay.ms
}

// Mechanism is one way to authenticate.
type Mechanism struct {
	Name        string
	MaxLifetime time.Duration // of a session until the client must log in again: connections.max.reauth.ms; 0: no limit
	Unsecured   bool          // whoever logs in is who it says
	Start       func() Exchange
}

// Find gives the mechanism of a name, which counts by its case; nil when it is not offered.
func (s *Server) Find(name string) *Mechanism {
	i := slices.IndexFunc(s.Mechanisms, func(m Mechanism) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Mechanisms[i]
}

// Names are those of the mechanisms, sorted.
func (s *Server) Names() []string {
	names := make([]string, len(s.Mechanisms))
	for i, m := range s.Mechanisms {
		names[i] = m.Name
	}
	slices.Sort(names)
	return names
}

// Exchange is one login under way, the server's side. It is used by one goroutine at a time.
type Exchange interface {
	// Step takes the client's next message, whose bytes it does not keep, and returns the answer. After an error the login
	// has failed.
	Step(message []byte) (answer []byte, err error)
	// Login tells who logs in, as far as that was said, and whether it has been proved: only then it is true.
	Login() (who Login, proved bool)
}

// Login is who has authenticated.
type Login struct {
	User    string
	Token   bool      // with a delegation token, as its owner
	Expires time.Time // when what it was proved with ends; zero: never
}

// Refusal is why a login failed, in words that a client may read. Of any other error it learns nothing: it would learn who
// exists.
type Refusal struct{ Reason string }

func (r Refusal) Error() string { return r.Reason }

// Reason is what a client is told of a failed login.
func Reason(err error) (text string, ok bool) {
	var r Refusal
	if errors.As(err, &r) {
		return r.Reason, true
	}
	return "", false
}
