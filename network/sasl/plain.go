package sasl

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"
)

// PlainName is the mechanism that sends the password as plain text (RFC 4616).
const PlainName = "PLAIN"

// Passwords maps user names to passwords.
type Passwords map[string]string

// Plain returns a constructor of logins with PLAIN.
func Plain(passwords Passwords) func() Exchange {
	return func() Exchange { return &plain{passwords: passwords} }
}

type plain struct {
	passwords Passwords
	user      string
	over      bool
	proved    bool
}

// Step implements Exchange. Message: [authzid] NUL user NUL password. The answer is empty.
func (p *plain) Step(_ context.Context, message []byte) ([]byte, error) {
	if p.over {
		return nil, Refusal{"the login is already complete"}
	}
	p.over = true
	parts := strings.SplitN(string(message), "\x00", 4)
	if len(parts) != 3 {
		return nil, Refusal{"a message of PLAIN has three parts: who to act as, user, password"}
	}
	authzID, user, password := parts[0], parts[1], parts[2]
	p.user = user
	switch {
	case user == "":
		return nil, Refusal{"no user is named"}
	case password == "":
		return nil, Refusal{"there is no password"}
	case !p.passwords.check(user, password):
		return nil, Refusal{"unknown user or wrong password"}
	case authzID != "" && authzID != user:
		return nil, Refusal{"a user cannot act as another one"}
	}
	p.proved = true
	return []byte{}, nil
}

// Login implements Exchange.
func (p *plain) Login() (Login, bool) { return Login{User: p.user}, p.proved }

// check takes the same time whatever is wrong with the password, including its length.
func (p Passwords) check(user, password string) bool {
	want, known := p[user]
	got, expected := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(got[:], expected[:]) == 1 && known && want != ""
}
