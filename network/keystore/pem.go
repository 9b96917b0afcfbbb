package keystore

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// pemForm matches a PEM block as Apache Kafka parses it (KIP-651): line ends may be any white space, since settings are
// often on one line; lines with a colon at the start of a block are ignored.
var pemForm = regexp.MustCompile(`-+BEGIN\s+([A-Z0-9\s]*?)\s*-+\s+(?:[^\r\n:-]*:[^\r\n]*[\r\n]+)*([a-zA-Z0-9/+=\s]*)-+END[^-]*-+`)

// space matches the white space within base64 in PEM.
var space = regexp.MustCompile(`\s+`)

// pemBlocks returns the blocks whose label ends in kind.
func pemBlocks(text, kind string) (blocks [][]byte, labels []string, err error) {
	for _, m := range pemForm.FindAllStringSubmatch(text, -1) {
		label := space.ReplaceAllString(m[1], " ")
		if !strings.HasSuffix(label, kind) {
			continue
		}
		der, err := base64.StdEncoding.DecodeString(space.ReplaceAllString(m[2], ""))
		if err != nil {
			return nil, nil, fmt.Errorf("PEM of %s: %w", label, err)
		}
		blocks, labels = append(blocks, der), append(labels, label)
	}
	if len(blocks) == 0 {
		return nil, nil, fmt.Errorf("the PEM text has no %s", kind)
	}
	return blocks, labels, nil
}

// pemAlias is the alias for the content of PEM, which has none; trusted certificates have a number appended.
const pemAlias = "kafka"

// OpenPEM parses a private key (PKCS#8, encrypted if password is not nil) and its chain, beginning with the key's own
// certificate. Both texts may be the same.
func OpenPEM(key, chain string, password *string) (*Store, error) {
	certs, err := pemCertificates(chain)
	if err != nil {
		return nil, err
	}
	blocks, labels, err := pemBlocks(key, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	if len(blocks) != 1 {
		return nil, fmt.Errorf("the PEM text has %d private keys, one is expected", len(blocks))
	}
	private, err := pemPrivateKey(labels[0], blocks[0], password)
	if err != nil {
		return nil, err
	}
	k, err := newKey(pemAlias, private, certs)
	if err != nil {
		return nil, err
	}
	return &Store{Keys: []Key{k}}, nil
}

// OpenTrustedPEM parses trusted certificates.
func OpenTrustedPEM(text string) (*Store, error) {
	certs, err := pemCertificates(text)
	if err != nil {
		return nil, err
	}
	store := &Store{}
	for i, c := range certs {
		store.Trusted = append(store.Trusted, Trusted{fmt.Sprint(pemAlias, i), c})
	}
	return store, nil
}

func pemCertificates(text string) ([]*x509.Certificate, error) {
	blocks, _, err := pemBlocks(text, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	certs := make([]*x509.Certificate, len(blocks))
	for i, der := range blocks {
		if certs[i], err = x509.ParseCertificate(der); err != nil {
			return nil, err
		}
	}
	return certs, nil
}

func pemPrivateKey(label string, der []byte, password *string) (any, error) {
	encrypted := label == "ENCRYPTED PRIVATE KEY"
	switch {
	case encrypted && password == nil:
		return nil, &KeyPasswordError{errors.New("the private key is encrypted, and no password is given")}
	case !encrypted && password != nil:
		return nil, &KeyPasswordError{errors.New("a password is given, but the private key is not encrypted")}
	case label == "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(der)
	case label == "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(der)
	case encrypted:
		var info encryptedKeyInfo
		if err := unmarshal(der, &info); err != nil {
			return nil, err
		}
		var err error
		if der, err = decryptKey(info, *password); err != nil {
			return nil, fmt.Errorf("the private key: %w", err)
		}
	}
	return x509.ParsePKCS8PrivateKey(der)
}
