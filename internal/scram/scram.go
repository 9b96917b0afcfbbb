// Package scram implements logins by salted password (SCRAM, RFC 5802 and RFC 7677): the stored credentials, which
// suffice to check a login but not to log in, and both sides of the exchange.
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

// Limits of the iteration count: with fewer iterations a password is too weakly protected, with more each login costs
// the broker too much.
const (
	MinIterations = 4096
	MaxIterations = 16384
)

// Mechanism is one of the SCRAM mechanisms.
type Mechanism struct {
	Number int8   // in the protocol (KIP-554)
	Name   string // also the key in the user's configuration
	hash   func() hash.Hash
	size   int // of the hash, in bytes
}

var mechanisms = [...]Mechanism{
	{1, "SCRAM-SHA-256", sha256.New, sha256.Size},
	{2, "SCRAM-SHA-512", sha512.New, sha512.Size},
}

// Mechanisms returns all mechanisms, ordered by number.
func Mechanisms() []Mechanism { return append([]Mechanism(nil), mechanisms[:]...) }

// Numbered returns the mechanism with the given number.
func Numbered(number int8) (Mechanism, bool) {
	for _, m := range mechanisms {
		if m.Number == number {
			return m, true
		}
	}
	return Mechanism{}, false
}

// Named returns the mechanism with the given name.
func Named(name string) (Mechanism, bool) {
	for _, m := range mechanisms {
		if m.Name == name {
			return m, true
		}
	}
	return Mechanism{}, false
}

// Salt computes the salted password with the given number of iterations.
func (m Mechanism) Salt(password string, salt []byte, iterations int) ([]byte, error) {
	return pbkdf2.Key(m.hash, password, salt, iterations, m.size)
}

// Credential returns the stored form of a salted password (ScramCredentialUtils, 3.9). Layout:
// salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=N
func (m Mechanism) Credential(salt, salted []byte, iterations int) string {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("salt=%s,stored_key=%s,server_key=%s,iterations=%d",
		encode(salt), encode(m.sum(m.mac(salted, clientKeyText))), encode(m.mac(salted, serverKeyText)), iterations)
}

// Inputs for the two keys, RFC 5802 section 3.
const (
	clientKeyText = "Client Key"
	serverKeyText = "Server Key"
)

func (m Mechanism) sum(b []byte) []byte {
	sum := m.hash()
	sum.Write(b)
	return sum.Sum(nil)
}

func (m Mechanism) mac(key []byte, text string) []byte {
	mac := hmac.New(m.hash, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// Iterations returns the iteration count of a stored credential.
func Iterations(credential string) (int32, error) {
	for field := range strings.SplitSeq(credential, ",") {
		if text, ok := strings.CutPrefix(field, "iterations="); ok {
			n, err := strconv.ParseInt(text, 10, 32)
			return int32(n), err
		}
	}
	return 0, errors.New("a stored SCRAM credential has no iterations")
}
