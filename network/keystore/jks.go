package keystore

import (
	"crypto/sha1" //nolint:gosec // the format's
	"crypto/subtle"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
)

// The layout of a JKS store, all numbers big endian; strings are a uint16 size and bytes:
//
//	uint32 magic, uint32 version (1 or 2), uint32 count
//	per entry: uint32 tag, string alias, uint64 time of creation in ms
//	    tag 1, a key:  uint32 size, encrypted key; uint32 count, that many certificates
//	    tag 2, a certificate
//	20 bytes: SHA-1 of password, "Mighty Aphrodite" and all before
//
//	certificate: string type (version 2 only), uint32 size, DER
var (
	jksMagic   = []byte{0xfe, 0xed, 0xfe, 0xed}
	jceksMagic = []byte{0xce, 0xce, 0xce, 0xce}
)

const (
	jksKeyTag  = 1
	jksCertTag = 2
	jksSalt    = "Mighty Aphrodite"
)

var errJKSShort = errors.New("the JKS store is truncated")

// jksReader parses a store; the first error sticks.
type jksReader struct {
	rest    []byte
	version uint32
	err     error
}

func (r *jksReader) bytes(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.rest)) {
		r.err = errJKSShort
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *jksReader) uint32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *jksReader) string() string {
	b := r.bytes(2)
	if b == nil {
		return ""
	}
	return string(r.bytes(uint64(binary.BigEndian.Uint16(b))))
}

func (r *jksReader) certificate() *x509.Certificate {
	if r.version == 2 {
		if kind := r.string(); r.err == nil && kind != "X.509" {
			r.err = fmt.Errorf("it has a certificate of the unsupported type %q", kind)
		}
	}
	der := r.bytes(uint64(r.uint32()))
	if r.err != nil {
		return nil
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		r.err = err
	}
	return c
}

func (r *jksReader) chain() []*x509.Certificate {
	var chain []*x509.Certificate
	for count := r.uint32(); count > 0 && r.err == nil; count-- {
		chain = append(chain, r.certificate())
	}
	return chain
}

func openJKS(data []byte, p Passwords, withKeys bool) (*Store, error) {
	if p.Store != nil {
		if err := checkJKSDigest(data, *p.Store); err != nil {
			return nil, err
		}
	}
	r := jksReader{rest: data[len(jksMagic):]}
	if r.version = r.uint32(); r.err == nil && r.version != 1 && r.version != 2 {
		return nil, fmt.Errorf("a JKS store of version %d cannot be read", r.version)
	}
	store := &Store{}
	for count := r.uint32(); count > 0 && r.err == nil; count-- {
		if err := r.entry(store, p.key(), withKeys); err != nil {
			return nil, err
		}
	}
	return store, r.err
}

func (r *jksReader) entry(store *Store, password *string, withKeys bool) error {
	tag, alias := r.uint32(), r.string()
	r.bytes(8) // creation time
	switch tag {
	case jksKeyTag:
		encrypted := r.bytes(uint64(r.uint32()))
		chain := r.chain()
		if r.err != nil {
			return r.err
		}
		k := Key{Alias: alias, Chain: chain}
		if withKeys {
			private, err := jksPrivateKey(encrypted, password)
			if err != nil {
				return fmt.Errorf("key %q: %w", alias, err)
			}
			if k, err = newKey(alias, private, chain); err != nil {
				return err
			}
		}
		store.Keys = append(store.Keys, k)
	case jksCertTag:
		store.Trusted = append(store.Trusted, Trusted{alias, r.certificate()})
	default:
		if r.err == nil {
			r.err = fmt.Errorf("a JKS store has an entry of the unknown kind %d", tag)
		}
	}
	return r.err
}

// utf16Password encodes a password as JKS hashes it, as Java chars.
func utf16Password(password string) []byte {
	var b []byte
	for _, c := range utf16.Encode([]rune(password)) {
		b = binary.BigEndian.AppendUint16(b, c)
	}
	return b
}

func checkJKSDigest(data []byte, password string) error {
	if len(data) < sha1.Size {
		return errJKSShort
	}
	body, digest := data[:len(data)-sha1.Size], data[len(data)-sha1.Size:]
	h := sha1.New()
	h.Write(utf16Password(password))
	h.Write([]byte(jksSalt))
	h.Write(body)
	if subtle.ConstantTimeCompare(h.Sum(nil), digest) != 1 {
		return ErrPassword
	}
	return nil
}

// jksProtection is the algorithm with which JKS encrypts keys, one of Sun's own.
var jksProtection = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 42, 2, 17, 1, 1}

// jksPrivateKey decrypts a key: 20 bytes of salt, the key XORed with a stream of SHA-1 of the password and the previous
// block, 20 bytes of SHA-1 of password and key.
func jksPrivateKey(der []byte, password *string) (any, error) {
	if password == nil {
		return nil, errNoKeyPassword
	}
	var info encryptedKeyInfo
	if err := unmarshal(der, &info); err != nil {
		return nil, err
	}
	if !info.Algorithm.Algorithm.Equal(jksProtection) {
		return nil, fmt.Errorf("encrypted by the unknown algorithm %v", info.Algorithm.Algorithm)
	}
	data, secret := info.Data, utf16Password(*password)
	if len(data) < 2*sha1.Size {
		return nil, errJKSShort
	}
	block, body, check := data[:sha1.Size], data[sha1.Size:len(data)-sha1.Size], data[len(data)-sha1.Size:]
	plain := make([]byte, len(body))
	for done := 0; done < len(body); done += sha1.Size {
		sum := sha1.Sum(append(append([]byte(nil), secret...), block...))
		block = sum[:]
		subtle.XORBytes(plain[done:], body[done:], block)
	}
	sum := sha1.Sum(append(append([]byte(nil), secret...), plain...))
	if subtle.ConstantTimeCompare(sum[:], check) != 1 {
		return nil, &KeyPasswordError{ErrPassword}
	}
	return x509.ParsePKCS8PrivateKey(plain)
}
