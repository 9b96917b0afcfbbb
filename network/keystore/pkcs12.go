package keystore

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the format's
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"unicode/utf16"
)

// The layout of a PKCS#12 store (RFC 7292): a PFX contains content infos, in plain text or encrypted as a whole, each
// with bags of one key or certificate and attributes, and a MAC over everything.
type (
	pfx struct {
		Version  int
		AuthSafe contentInfo
		MAC      macData `asn1:"optional"`
	}
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"tag:0,explicit,optional"`
	}
	macData struct {
		MAC        digestInfo
		Salt       []byte
		Iterations int `asn1:"optional,default:1"`
	}
	digestInfo struct {
		Algorithm pkix.AlgorithmIdentifier
		Digest    []byte
	}
	encryptedContent struct {
		Version int
		Info    struct {
			Type      asn1.ObjectIdentifier
			Algorithm pkix.AlgorithmIdentifier
			Data      []byte `asn1:"tag:0,optional"`
		}
	}
	safeBag struct {
		ID         asn1.ObjectIdentifier
		Value      asn1.RawValue  `asn1:"tag:0,explicit"`
		Attributes []bagAttribute `asn1:"set,optional"`
	}
	bagAttribute struct {
		ID    asn1.ObjectIdentifier
		Value asn1.RawValue `asn1:"set"`
	}
	certBag struct {
		ID   asn1.ObjectIdentifier
		Data []byte `asn1:"tag:0,explicit"`
	}
)

var (
	oidData            = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidEncryptedData   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 6}
	oidBags            = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1}
	oidX509Certificate = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 22, 1}
	oidFriendlyName    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 20}
	oidLocalKeyID      = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 21}
	oidTrustedKeyUsage = asn1.ObjectIdentifier{2, 16, 840, 1, 113894, 746875, 1, 1} // Java's mark of trusted certificates
)

// The kinds of bags, by the last number of their identifiers.
const (
	keyBagKind       = 1
	encryptedKeyKind = 2
	certBagKind      = 3
	nestedKind       = 6
)

// maxNesting bounds the nesting of bags.
const maxNesting = 4

// pkcs12Reader collects the content of the bags.
type pkcs12Reader struct {
	passwords Passwords
	withKeys  bool
	keys      []foundKey
	certs     []foundCert
}

type foundKey struct {
	alias   string
	localID []byte
	private any
}

type foundCert struct {
	alias   string
	localID []byte
	trusted bool
	cert    *x509.Certificate
}

func openPKCS12(data []byte, p Passwords, withKeys bool) (*Store, error) {
	var outer pfx
	if unmarshal(data, &outer) != nil {
		return nil, errors.New("it is neither a JKS nor a PKCS12 store")
	}
	if outer.Version != 3 || !outer.AuthSafe.Type.Equal(oidData) {
		return nil, errors.New("it is a PKCS12 store of a kind that cannot be read: only version 3 with a password can")
	}
	content, err := octets(outer.AuthSafe.Content)
	if err != nil {
		return nil, err
	}
	if p.Store != nil && len(outer.MAC.MAC.Digest) != 0 {
		if err := outer.MAC.check(content, *p.Store); err != nil {
			return nil, err
		}
	}
	var infos []contentInfo
	if err := unmarshal(content, &infos); err != nil {
		return nil, err
	}
	r := pkcs12Reader{passwords: p, withKeys: withKeys}
	for _, info := range infos {
		if err := r.content(info); err != nil {
			return nil, err
		}
	}
	return r.store()
}

// octets returns the OCTET STRING within an explicit tag.
func octets(v asn1.RawValue) ([]byte, error) {
	var b []byte
	err := unmarshal(v.Bytes, &b)
	return b, err
}

func (m macData) check(content []byte, password string) error {
	var newHash func() hash.Hash
	switch oid := m.MAC.Algorithm.Algorithm; {
	case oid.Equal(oidSHA1):
		newHash = sha1.New
	case last(oid, oidSHA2) == 1:
		newHash = sha256.New
	case last(oid, oidSHA2) == 2:
		newHash = sha512.New384
	case last(oid, oidSHA2) == 3:
		newHash = sha512.New
	default:
		return unknownAlgorithm("MAC", oid)
	}
	if err := checkIterations(m.Iterations); err != nil {
		return err
	}
	mac := hmac.New(newHash, pkcs12Derive(newHash, forMAC, password, m.Salt, m.Iterations, newHash().Size()))
	mac.Write(content)
	if !hmac.Equal(mac.Sum(nil), m.MAC.Digest) {
		return ErrPassword
	}
	return nil
}

func (r *pkcs12Reader) content(info contentInfo) error {
	var (
		data []byte
		err  error
	)
	switch {
	case info.Type.Equal(oidData):
		data, err = octets(info.Content)
	case info.Type.Equal(oidEncryptedData):
		if r.passwords.Store == nil {
			return nil // as in Java: without a password, only what is not encrypted is read
		}
		var enc encryptedContent
		if err = unmarshal(info.Content.Bytes, &enc); err == nil {
			data, err = decrypt(enc.Info.Algorithm, enc.Info.Data, *r.passwords.Store)
		}
	default:
		err = fmt.Errorf("it has content of the unknown type %v", info.Type)
	}
	if err != nil {
		return err
	}
	return r.bags(data, 0)
}

func (r *pkcs12Reader) bags(data []byte, depth int) error {
	var bags []safeBag
	if err := unmarshal(data, &bags); err != nil {
		return err
	}
	for i := range bags {
		if err := r.bag(&bags[i], depth); err != nil {
			return err
		}
	}
	return nil
}

func (r *pkcs12Reader) bag(b *safeBag, depth int) error {
	switch kind := last(b.ID, oidBags); {
	case kind == keyBagKind || kind == encryptedKeyKind:
		return r.keyBag(b, kind == encryptedKeyKind)
	case kind == certBagKind:
		return r.certBag(b)
	case kind == nestedKind && depth < maxNesting:
		return r.bags(b.Value.Bytes, depth+1)
	}
	return nil // CRLs and secrets are not needed
}

func (r *pkcs12Reader) keyBag(b *safeBag, encrypted bool) error {
	k := foundKey{alias: b.alias(), localID: b.localID()}
	if r.withKeys {
		der := b.Value.Bytes
		if encrypted {
			var err error
			if der, err = r.openKey(der); err != nil {
				return fmt.Errorf("key %q: %w", k.alias, err)
			}
		}
		private, err := x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			return fmt.Errorf("key %q: %w", k.alias, err)
		}
		k.private = private
	}
	r.keys = append(r.keys, k)
	return nil
}

func (r *pkcs12Reader) openKey(der []byte) ([]byte, error) {
	password := r.passwords.key()
	if password == nil {
		return nil, errNoKeyPassword
	}
	var info encryptedKeyInfo
	if err := unmarshal(der, &info); err != nil {
		return nil, err
	}
	return decryptKey(info, *password)
}

func (r *pkcs12Reader) certBag(b *safeBag) error {
	var bag certBag
	if err := unmarshal(b.Value.Bytes, &bag); err != nil {
		return err
	}
	if !bag.ID.Equal(oidX509Certificate) {
		return nil
	}
	cert, err := x509.ParseCertificate(bag.Data)
	if err != nil {
		return err
	}
	_, trusted := b.attribute(oidTrustedKeyUsage)
	r.certs = append(r.certs, foundCert{b.alias(), b.localID(), trusted, cert})
	return nil
}

// attribute returns the first value of an attribute.
func (b *safeBag) attribute(id asn1.ObjectIdentifier) ([]byte, bool) {
	for _, a := range b.Attributes {
		if a.ID.Equal(id) {
			return a.Value.Bytes, true
		}
	}
	return nil, false
}

func (b *safeBag) alias() string {
	der, _ := b.attribute(oidFriendlyName)
	var v asn1.RawValue
	if _, err := asn1.Unmarshal(der, &v); err != nil || v.Tag != asn1.TagBMPString {
		return ""
	}
	units := make([]uint16, len(v.Bytes)/2)
	for i := range units {
		units[i] = binary.BigEndian.Uint16(v.Bytes[2*i:])
	}
	return string(utf16.Decode(units))
}

func (b *safeBag) localID() []byte {
	der, _ := b.attribute(oidLocalKeyID)
	var id []byte
	if _, err := asn1.Unmarshal(der, &id); err != nil {
		return nil
	}
	return id
}

// store combines keys and certificates.
func (r *pkcs12Reader) store() (*Store, error) {
	store := &Store{}
	for _, k := range r.keys {
		chain := r.chain(k)
		if !r.withKeys {
			store.Keys = append(store.Keys, Key{Alias: k.alias, Chain: chain})
			continue
		}
		key, err := newKey(k.alias, k.private, chain)
		if err != nil {
			return nil, err
		}
		store.Keys = append(store.Keys, key)
	}
	for _, c := range r.certs {
		if c.trusted {
			store.Trusted = append(store.Trusted, Trusted{c.alias, c.cert})
		}
	}
	return store, nil
}

// chain finds a key's certificate by the id that they share, and those of its issuers by name.
func (r *pkcs12Reader) chain(k foundKey) []*x509.Certificate {
	var chain []*x509.Certificate
	for _, c := range r.certs {
		if c.localID != nil && bytes.Equal(c.localID, k.localID) {
			chain = append(chain, c.cert)
			break
		}
	}
	for len(chain) != 0 && len(chain) <= len(r.certs) {
		end := chain[len(chain)-1]
		if bytes.Equal(end.RawIssuer, end.RawSubject) {
			break
		}
		issuer := r.issuer(end)
		if issuer == nil {
			break
		}
		chain = append(chain, issuer)
	}
	return chain
}

func (r *pkcs12Reader) issuer(of *x509.Certificate) *x509.Certificate {
	for _, c := range r.certs {
		if bytes.Equal(c.cert.RawSubject, of.RawIssuer) && !c.cert.Equal(of) {
			return c.cert
		}
	}
	return nil
}
