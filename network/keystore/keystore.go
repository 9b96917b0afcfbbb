// Package keystore opens what holds the keys and certificates of TLS: JKS and PKCS#12 files as Java's keytool and
// OpenSSL make them, and PEM.
//
// It knows no settings and makes no connections: it gets bytes and passwords, and returns keys with their chains and
// certificates that are trusted. Of PKCS#12 that are what Java takes for trusted, which is what keytool has marked so: the
// chain of a key never is.
package keystore

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
)

// Store is an opened store, its entries in the order of the file.
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

// Trusted is a certificate that the store holds for itself.
type Trusted struct {
	Alias       string
	Certificate *x509.Certificate
}

// Passwords open a store. A nil one is not given, which is something else than an empty one.
type Passwords struct {
	Store *string // of the whole; without it the integrity is not checked, and what is encrypted is not there
	Key   *string // of the private keys; nil: as Store
}

func (p Passwords) key() *string {
	if p.Key != nil {
		return p.Key
	}
	return p.Store
}

// ErrPassword says that a password is wrong, or that the store is damaged, which looks alike.
var ErrPassword = errors.New("the password is wrong or the store is damaged")

// Open reads a JKS or PKCS#12 store, whichever it is, as Java's types JKS and PKCS12 do both
// (keystore.type.compat). Private keys are not looked at without withKeys.
func Open(data []byte, p Passwords, withKeys bool) (*Store, error) {
	switch {
	case bytes.HasPrefix(data, jksMagic):
		return openJKS(data, p, withKeys)
	case bytes.HasPrefix(data, jceksMagic):
		return nil, errors.New("it is a JCEKS store, which cannot be read: convert it to PKCS12 with keytool -importkeystore")
	}
	return openPKCS12(data, p, withKeys)
}

// key makes an entry of a PKCS#8 key and its chain.
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
