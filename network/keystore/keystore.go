// Package keystore opens stores of TLS keys and certificates: JKS and PKCS#12 files as created by Java's keytool and by
// OpenSSL, and PEM.
//
// It knows no settings and makes no connections: it takes bytes and passwords, and returns keys with their chains and
// trusted certificates. In PKCS#12 stores, Java's idea of trusted certificates applies: those that keytool has marked
// as such, never the chain of a key.
package keystore

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
)

// Store is an opened store, with its entries in the order of the file.
type Store struct {
	Keys    []Key
	Trusted []Trusted
}

// Key is a private key with its certificate, followed by those of its issuers as far as the store has them.
type Key struct {
	Alias   string
	Private crypto.Signer
	Chain   []*x509.Certificate
}

// Trusted is a certificate that the store holds as a separate entry.
type Trusted struct {
	Alias       string
	Certificate *x509.Certificate
}

// Passwords open a store. nil means not given, which is different from empty.
type Passwords struct {
	Store *string // of the store; without it the integrity is not checked, and encrypted content is skipped
	Key   *string // of the private keys; nil: same as Store
}

func (p Passwords) key() *string {
	if p.Key != nil {
		return p.Key
	}
	return p.Store
}

// ErrPassword reports that a password is wrong or the store is damaged, which cannot be distinguished.
var ErrPassword = errors.New("the password is wrong or the store is damaged")

// KeyPasswordError is returned when the password of a private key is wrong or missing, as opposed to that of the whole
// store.
type KeyPasswordError struct{ Err error }

func (e *KeyPasswordError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *KeyPasswordError) Unwrap() error { return e.Err }

// errNoKeyPassword is returned for an encrypted private key when no password is given.
var errNoKeyPassword = &KeyPasswordError{errors.New("it is encrypted, and no password is given")}

// Open opens a JKS or PKCS#12 store, detecting the format, as Java does for either type (keystore.type.compat). Private
// keys are decrypted only if withKeys is true.
func Open(data []byte, p Passwords, withKeys bool) (*Store, error) {
	switch {
	case bytes.HasPrefix(data, jksMagic):
		return openJKS(data, p, withKeys)
	case bytes.HasPrefix(data, jceksMagic):
		return nil, errors.New("it is a JCEKS store, which cannot be read: convert it to PKCS12 with keytool -importkeystore")
	}
	return openPKCS12(data, p, withKeys)
}

// newKey creates an entry from a PKCS#8 key and its chain.
func newKey(alias string, private any, chain []*x509.Certificate) (Key, error) {
	signer, ok := private.(crypto.Signer)
	if !ok {
		return Key{}, fmt.Errorf("%q is a key of a kind that cannot sign: %T", alias, private)
	}
	if len(chain) == 0 {
		return Key{}, fmt.Errorf("%q has no certificate", alias)
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(chain[0].PublicKey) {
		return Key{}, fmt.Errorf("%q: the private key is not that of the certificate of %s", alias, chain[0].Subject)
	}
	return Key{Alias: alias, Private: signer, Chain: chain}, nil
}
