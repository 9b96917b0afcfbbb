package scram

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
)

// TestStoredCredentialChecksALogin uses the exchange of RFC 7677, section 3.
func TestStoredCredentialChecksALogin(t *testing.T) {
	const (
		auth      = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
		proof     = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
		signature = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
	)
	m, ok := Named("SCRAM-SHA-256")
	if numbered, same := Numbered(1); !ok || !same || numbered.Name != m.Name {
		t.Fatal("the mechanism is missing")
	}
	salt := unbase64(t, "W22ZaJ0SNY7soEsUEjb6gQ==")
	salted, err := m.Salt("pencil", salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	stored := m.Credential(salt, salted, 4096)
	fields := make(map[string]string)
	for f := range strings.SplitSeq(stored, ",") {
		key, value, _ := strings.Cut(f, "=")
		fields[key] = value
	}
	if n, err := Iterations(stored); err != nil || n != 4096 || fields["salt"] != "W22ZaJ0SNY7soEsUEjb6gQ==" {
		t.Errorf("stored %q", stored)
	}
	mac := func(key []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(auth))
		return h.Sum(nil)
	}
	if got := base64.StdEncoding.EncodeToString(mac(unbase64(t, fields["server_key"]))); got != signature {
		t.Errorf("the server's signature is %s", got)
	}
	storedKey, clientKey := unbase64(t, fields["stored_key"]), unbase64(t, proof)
	for i, b := range mac(storedKey) {
		clientKey[i] ^= b
	}
	if sum := sha256.Sum256(clientKey); !bytes.Equal(sum[:], storedKey) {
		t.Error("the client's proof does not fit the stored key")
	}
}

func TestNoSuchMechanism(t *testing.T) {
	if _, ok := Named("PLAIN"); ok {
		t.Error("PLAIN is not a SCRAM mechanism")
	}
	if _, ok := Numbered(3); ok {
		t.Error("3 is not the number of a mechanism")
	}
	if _, err := Iterations("salt=x"); err == nil {
		t.Error("a credential without iterations was accepted")
	}
}

func unbase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
