package scram

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Credential is what a login is checked against. It does not allow its holder to log in.
type Credential struct {
	Salt, StoredKey, ServerKey []byte
	Iterations                 int
}

// Derive computes the credential for a password.
func (m Mechanism) Derive(password string, salt []byte, iterations int) (Credential, error) {
	salted, err := m.Salt(password, salt, iterations)
	if err != nil {
		return Credential{}, err
	}
	return Credential{
		Salt: salt, Iterations: iterations,
		StoredKey: m.sum(m.mac(salted, clientKeyText)), ServerKey: m.mac(salted, serverKeyText),
	}, nil
}

// ParseCredential parses what Credential has written (ScramCredentialUtils.credentialFromString, 3.9). It refuses a
// credential whose keys do not fit the mechanism, or whose iteration count is too low.
func (m Mechanism) ParseCredential(text string) (Credential, error) {
	var c Credential
	seen := make(map[string]bool)
	for field := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(field, "=")
		if seen[key] {
			return c, fmt.Errorf("a stored SCRAM credential has %q twice", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "salt":
			c.Salt, err = base64.StdEncoding.DecodeString(value)
		case "stored_key":
			c.StoredKey, err = base64.StdEncoding.DecodeString(value)
		case "server_key":
			c.ServerKey, err = base64.StdEncoding.DecodeString(value)
		case "iterations":
			c.Iterations, err = strconv.Atoi(value)
		default:
			err = errors.New("unknown field")
		}
		if err != nil { // not wrapped: it would quote the value, which is secret
			return c, fmt.Errorf("a stored SCRAM credential's field %q cannot be read", key)
		}
	}
	switch {
	case len(seen) != 4:
		return c, fmt.Errorf("a stored SCRAM credential has %d fields instead of 4", len(seen))
	case len(c.StoredKey) != m.size || len(c.ServerKey) != m.size:
		return c, fmt.Errorf("a stored SCRAM credential's keys are not those of %s", m.Name)
	case c.Iterations < MinIterations:
		return c, fmt.Errorf("a stored SCRAM credential has %d iterations, at least %d are needed", c.Iterations, MinIterations)
	}
	return c, nil
}
