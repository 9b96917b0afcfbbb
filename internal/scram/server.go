package scram

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Lookup finds the credential of a user or, if token is true, of a delegation token by its id.
type Lookup func(user string, token bool) (Credential, bool)

// Server is the server's side of one login (RFC 5802 as implemented by ScramSaslServer, 3.9). It costs four hashes
// whatever a client sends, since passwords are salted when they are set. Not safe for concurrent use.
type Server struct {
	mechanism  Mechanism
	lookup     Lookup
	nonce      func() string
	state      serverState
	first      clientFirst
	answered   serverFirst
	credential Credential
}

type serverState uint8

const (
	awaitsFirst serverState = iota
	awaitsFinal
	succeeded
	failed
)

// NewServer begins a login.
func (m Mechanism) NewServer(lookup Lookup) *Server {
	return &Server{mechanism: m, lookup: lookup, nonce: rand.Text}
}

// The reasons why a login fails. Clients are not told which: they could learn which users exist.
var (
	errNoCredential = errors.New("no such user has a password for this mechanism")
	errProof        = errors.New("wrong password")
	errNonce        = errors.New("the last message belongs to another exchange: its nonce differs")
	errAuthzID      = errors.New("it asks to act as a user other than the one that logs in")
	errOver         = errors.New("the exchange is over")
)

// Step takes the client's next message and returns the answer. After an error the login has failed for good.
func (s *Server) Step(message []byte) (answer []byte, err error) {
	switch s.state {
	case awaitsFirst:
		answer, err = s.begin(message)
		s.state = awaitsFinal
	case awaitsFinal:
		answer, err = s.finish(message)
		s.state, s.credential = succeeded, Credential{}
	default:
		err = errOver
	}
	if err != nil {
		s.state, s.credential = failed, Credential{}
	}
	return answer, err
}

// Done reports whether the client has proved that it knows the password.
func (s *Server) Done() bool { return s.state == succeeded }

// User returns the user who is logging in, or the delegation token's id. It is empty until the client has sent it.
func (s *Server) User() string { return s.first.user }

// Token reports whether User is the id of a delegation token.
func (s *Server) Token() bool { return s.first.token }

func (s *Server) begin(message []byte) ([]byte, error) {
	first, err := parseClientFirst(message)
	if err != nil {
		return nil, err
	}
	s.first = first
	c, ok := s.lookup(first.user, first.token)
	if !ok {
		return nil, errNoCredential
	}
	if first.authzID != "" && first.authzID != first.user {
		return nil, errAuthzID
	}
	s.credential, s.answered = c, newServerFirst(first.nonce+s.nonce(), c)
	return []byte(s.answered.text), nil
}

func (s *Server) finish(message []byte) ([]byte, error) {
	final, err := parseClientFinal(message)
	if err != nil {
		return nil, err
	}
	// The nonce must end with ours. Only the end is compared, since old releases of librdkafka prefix their own part
	// twice.
	if !strings.HasSuffix(final.nonce, s.answered.nonce) {
		return nil, errNonce
	}
	m := s.mechanism
	auth := authMessage(s.first.bare, s.answered.text, final.withoutProof)
	key := m.mac(s.credential.StoredKey, auth) // the client's signature; combined with the proof it yields the client's key
	if len(final.proof) != len(key) {
		return nil, fmt.Errorf("a proof of %d bytes: %w", len(final.proof), errProof)
	}
	subtle.XORBytes(key, key, final.proof)
	if subtle.ConstantTimeCompare(m.sum(key), s.credential.StoredKey) != 1 {
		return nil, errProof
	}
	signature := m.mac(s.credential.ServerKey, auth)
	return []byte("v=" + base64.StdEncoding.EncodeToString(signature)), nil
}

func authMessage(clientFirstBare, serverFirst, clientFinalWithoutProof string) string {
	return clientFirstBare + "," + serverFirst + "," + clientFinalWithoutProof
}
