package ssl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// Context is TLS configured by settings. It is immutable and safe for concurrent use.
type Context struct {
	keys, trusted *store // nil: not configured
	server        *tls.Config
	client        *tls.Config
	verifiesHost  bool
	principals    principalRules
	warnings      []string
}

// New reads settings and opens the stores that they name. Its errors name the setting.
func New(s Settings) (*Context, error) {
	c := &Context{}
	lowest, highest, err := s.versions()
	if err != nil {
		return nil, err
	}
	suites, err := s.ciphers()
	if err != nil {
		return nil, err
	}
	if !suites.tls13 {
		highest = min(highest, tls.VersionTLS12)
	}
	if !suites.tls12 {
		lowest = max(lowest, tls.VersionTLS13)
	}
	if lowest > highest {
		return nil, s.refuse("ssl.cipher.suites", "none of them is for one of ssl.enabled.protocols")
	}
	c.warnings = suites.warnings
	auth, err := s.clientAuth()
	if err != nil {
		return nil, err
	}
	if c.verifiesHost, err = s.verifiesHost(); err != nil {
		return nil, err
	}
	if c.principals, err = parsePrincipalRules(s.text(principalRulesKey)); err != nil {
		return nil, s.refuse(principalRulesKey, "%w", err)
	}
	if c.keys, err = s.openKeystore(); err != nil {
		return nil, err
	}
	if c.trusted, err = s.openTruststore(); err != nil {
		return nil, err
	}
	base := &tls.Config{
		MinVersion: lowest, MaxVersion: highest, CipherSuites: suites.suites, Certificates: c.keys.certificates(),
		DynamicRecordSizingDisabled: true, // requests and responses are useful only as a whole
	}
	c.server, c.client = base.Clone(), base
	c.server.ClientAuth, c.server.ClientCAs = auth, c.trusted.anchors()
	c.client.RootCAs = c.trusted.anchors()
	c.client.InsecureSkipVerify = true // verify replaces it, since names are compared as in Java
	return c, nil
}

// certificates returns the store's keys with the certificates to present.
func (s *store) certificates() []tls.Certificate {
	if s == nil {
		return nil
	}
	var list []tls.Certificate
	for _, k := range s.Keys {
		shown := tls.Certificate{PrivateKey: k.Private, Leaf: k.Chain[0]}
		for _, c := range k.Chain {
			shown.Certificate = append(shown.Certificate, c.Raw)
		}
		list = append(list, shown)
	}
	return list
}

// Warnings says which settings could not be applied exactly.
func (c *Context) Warnings() []string { return c.warnings }

// Modified reports whether a file of a store has changed since it was opened.
func (c *Context) Modified() bool { return c.keys.modified() || c.trusted.modified() }

// Server returns the configuration for accepting connections. Sessions are resumed only under this configuration, so
// that one from before a change of stores or rules is not resumed after it.
func (c *Context) Server() *tls.Config { return c.server }

// Client returns the configuration for connections to a host.
func (c *Context) Client(host string) *tls.Config {
	config := c.client.Clone()
	config.ServerName = host
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if err := verifyChain(s.PeerCertificates, c.client.RootCAs); err != nil {
			return err
		}
		if !c.verifiesHost {
			return nil
		}
		return verifyHost(s.PeerCertificates[0], host)
	}
	return config
}

func verifyChain(chain []*x509.Certificate, roots *x509.CertPool) error {
	if len(chain) == 0 {
		return errors.New("the server has presented no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	return nil
}

// verifyHost compares a certificate's names with the host. A certificate without host names as alternative names is
// matched by its common name, as in Java.
func verifyHost(cert *x509.Certificate, host string) error {
	if len(cert.DNSNames) == 0 && net.ParseIP(host) == nil && cert.Subject.CommonName != "" {
		named := *cert
		named.DNSNames = []string{cert.Subject.CommonName}
		cert = &named
	}
	if err := cert.VerifyHostname(host); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: []*x509.Certificate{cert}, Err: err}
	}
	return nil
}

// Hint says what to check after a handshake that failed with this error, on either side; empty if the error says it
// all.
func Hint(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		remote  *net.OpError
	)
	switch {
	case errors.As(err, &host):
		return "the certificate is for other names; ssl.endpoint.identification.algorithm says whether names are compared"
	case errors.As(err, &unknown):
		return "nothing in ssl.truststore.* vouches for the certificate that the other side shows"
	case errors.As(err, &remote) && remote.Op == "remote error":
		return "the other side refused: nothing in its ssl.truststore.* vouches for the certificate of ssl.keystore.*, or there is none, or it wants other versions or suites"
	}
	return ""
}

// checkPair connects a client with one context to a server with the other, in memory, without checking names: brokers
// must be able to do that with each other (SslFactory's SslEngineValidator).
func checkPair(server, client *Context) error {
	near, far := net.Pipe()
	deadline := time.Now().Add(pairTimeout)
	_, _ = near.SetDeadline(deadline), far.SetDeadline(deadline)
	served := make(chan error, 1)
	go func() {
		config := server.server.Clone()
		config.SessionTicketsDisabled = true
		conn := tls.Server(near, config)
		err := conn.Handshake()
		_ = conn.Close()
		served <- err
	}()
	config := client.Client("localhost")
	verify := client.client.RootCAs
	config.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s.PeerCertificates, verify) }
	conn := tls.Client(far, config)
	err := conn.Handshake()
	if err == nil {
		_, _ = conn.Read(make([]byte, 1)) // until the server has checked the client's certificate too
	}
	_ = far.Close()
	if serverErr := <-served; err == nil && serverErr != nil {
		return fmt.Errorf("a server with these settings refuses a client with them: %w", serverErr)
	}
	if err != nil {
		return fmt.Errorf("a client with these settings cannot connect to a server with them: %w", err)
	}
	return nil
}

// pairTimeout bounds an in-memory handshake, which only computes.
const pairTimeout = 30 * time.Second

// Expires returns which of this side's certificates expires first, and when.
func (c *Context) Expires() (name string, end time.Time) {
	for _, shown := range c.server.Certificates {
		if end.IsZero() || shown.Leaf.NotAfter.Before(end) {
			name, end = Name(shown.Leaf), shown.Leaf.NotAfter
		}
	}
	return name, end
}
