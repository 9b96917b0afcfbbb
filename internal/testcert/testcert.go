// Package testcert creates certificates for tests: authorities, and the keys that they certify.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Identity is a key with its certificate and that of its authority.
type Identity struct {
	t     testing.TB
	chain []*x509.Certificate
	key   *ecdsa.PrivateKey
}

// NewAuthority creates an authority with the given name.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{t: t}
	template := template(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.cert, a.key = sign(t, template, nil, nil)
	return a
}

// Issue creates an identity with the given common name. hosts are its alternative names: host names and addresses.
func (a *Authority) Issue(name string, hosts ...string) *Identity {
	a.t.Helper()
	template := template(name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, key := sign(a.t, template, a.cert, a.key)
	return &Identity{t: a.t, chain: []*x509.Certificate{cert, a.cert}, key: key}
}

// PEM is the authority's certificate.
func (a *Authority) PEM() string { return certificatesPEM([]*x509.Certificate{a.cert}) }

// Pool returns a pool that trusts only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Certificate returns the identity's own certificate.
func (i *Identity) Certificate() *x509.Certificate { return i.chain[0] }

// TLS returns the identity in the form of crypto/tls.
func (i *Identity) TLS() tls.Certificate {
	c := tls.Certificate{PrivateKey: i.key, Leaf: i.chain[0]}
	for _, cert := range i.chain {
		c.Certificate = append(c.Certificate, cert.Raw)
	}
	return c
}

// ChainPEM returns the certificates of the identity and its authority.
func (i *Identity) ChainPEM() string { return certificatesPEM(i.chain) }

// KeyPEM returns the private key.
func (i *Identity) KeyPEM() string {
	i.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(i.key)
	if err != nil {
		i.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// Files writes the files that the settings of a listener or client refer to into a directory of the test, and returns
// these settings.
func (i *Identity) Files(trusted *Authority) map[string]string {
	i.t.Helper()
	dir := i.t.TempDir()
	keystore, truststore := filepath.Join(dir, "keystore.pem"), filepath.Join(dir, "truststore.pem")
	Write(i.t, keystore, i.KeyPEM()+i.ChainPEM())
	Write(i.t, truststore, trusted.PEM())
	return map[string]string{
		"ssl.keystore.type": "PEM", "ssl.keystore.location": keystore,
		"ssl.truststore.type": "PEM", "ssl.truststore.location": truststore,
	}
}

// Write replaces the content of a file.
func Write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:      pkix.Name{CommonName: name, Organization: []string{"Barnabas"}},
		SerialNumber: big.NewInt(now.UnixNano()),
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
}

// sign creates a certificate and its key; without an authority, the certificate is self-signed.
func sign(t testing.TB, template, authority *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if authority == nil {
		authority, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func certificatesPEM(certs []*x509.Certificate) string {
	var text []byte
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return string(text)
}
