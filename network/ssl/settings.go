// Package ssl creates TLS configurations from ssl.* settings as Apache Kafka's brokers and clients do
// (DefaultSslEngineFactory, SslFactory, SslPrincipalMapper, 3.9): stores, protocol versions, cipher suites, whether
// certificates are requested, which names they must have, and which principal a client's certificate stands for.
//
// It knows no listeners and no connections: it reads settings through a function, and returns configurations for
// crypto/tls.
package ssl

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// Settings are the settings of one listener or client.
type Settings struct {
	// Get returns the value of a setting by its name in Apache Kafka (ssl.keystore.location), and its name where it was
	// set, which may have a prefix. set is false if it has neither a value nor a default.
	Get func(name string) (as, value string, set bool)
}

// text returns a setting's value, empty if it is not set.
func (s Settings) text(name string) string {
	_, value, _ := s.Get(name)
	return value
}

// name returns the name under which a setting was set.
func (s Settings) name(name string) string {
	as, _, _ := s.Get(name)
	return as
}

// optional returns a setting's value, nil if it is not set.
func (s Settings) optional(name string) *string {
	if _, value, set := s.Get(name); set {
		return &value
	}
	return nil
}

func (s Settings) list(name string) []string {
	var items []string
	for item := range strings.SplitSeq(s.text(name), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// Error reports what is wrong with a setting.
type Error struct {
	Setting string // as it was set
	Value   string // empty if it has none, or a secret one
	Err     error
}

func (e *Error) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %v", e.Setting, e.Err)
	}
	return fmt.Sprintf("%s=%s: %v", e.Setting, e.Value, e.Err)
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// refuse returns an error about a setting. Secret values are not shown.
func (s Settings) refuse(name, reason string, args ...any) error {
	as, value, _ := s.Get(name)
	if secret(name) {
		value = ""
	}
	return &Error{as, value, fmt.Errorf(reason, args...)}
}

func secret(name string) bool {
	return strings.HasSuffix(name, ".password") || slices.Contains([]string{"ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"}, name)
}

// javaVersions maps Java's names of protocol versions. Versions before 1.2 have been disabled in Java for years, and
// are disabled here too, whatever the settings say.
var javaVersions = map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}

// offVersions may be named but have no effect, as in Java (jdk.tls.disabledAlgorithms).
var offVersions = []string{"SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"}

// versions returns the lowest and highest version in ssl.enabled.protocols; if that is empty, ssl.protocol applies.
func (s Settings) versions() (lowest, highest uint16, err error) {
	const enabled, protocol = "ssl.enabled.protocols", "ssl.protocol"
	names, from := s.list(enabled), enabled
	context := s.text(protocol)
	if context != "" && context != "TLS" && context != "SSL" && javaVersions[context] == 0 && !slices.Contains(offVersions, context) {
		return 0, 0, s.refuse(protocol, "is not a version of TLS: use TLSv1.2, TLSv1.3 or TLS")
	}
	if len(names) == 0 {
		from = protocol
		switch context {
		case "", "TLS", "SSL", "TLSv1.3":
			names = []string{"TLSv1.2", "TLSv1.3"}
		default:
			names = []string{context}
		}
	}
	for _, name := range names {
		v := javaVersions[name]
		switch {
		case v == 0 && slices.Contains(offVersions, name):
			continue
		case v == 0:
			return 0, 0, s.refuse(from, "%s is not a version of TLS: use TLSv1.2 or TLSv1.3", name)
		case lowest == 0 || v < lowest:
			lowest = v
		}
		highest = max(highest, v)
	}
	if lowest == 0 {
		return 0, 0, s.refuse(from, "none of them is safe: use TLSv1.2 or TLSv1.3")
	}
	return lowest, highest, nil
}

// ciphers is the result of ssl.cipher.suites.
type ciphers struct {
	suites   []uint16 // up to TLS 1.2; nil: the default
	tls12    bool     // some for TLS 1.2 are allowed
	tls13    bool     // some for TLS 1.3 are allowed
	warnings []string
}

// ciphers translates the names of suites, which in Java come from the same registry.
func (s Settings) ciphers() (ciphers, error) {
	const key = "ssl.cipher.suites"
	names := s.list(key)
	if len(names) == 0 {
		return ciphers{tls12: true, tls13: true}, nil
	}
	known := make(map[string]*tls.CipherSuite)
	var all13 []string
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		known[suite.Name] = suite
		if slices.Contains(suite.SupportedVersions, tls.VersionTLS13) {
			all13 = append(all13, suite.Name)
		}
	}
	var (
		c              ciphers
		unknown, given []string
	)
	for _, name := range names {
		suite := known[strings.Replace(name, "SSL_", "TLS_", 1)]
		switch {
		case suite == nil:
			unknown = append(unknown, name)
		case slices.Contains(suite.SupportedVersions, tls.VersionTLS13):
			c.tls13, given = true, append(given, suite.Name)
		default:
			c.tls12, c.suites = true, append(c.suites, suite.ID)
		}
	}
	if !c.tls12 && !c.tls13 {
		return c, s.refuse(key, "none of them is supported")
	}
	as, _, _ := s.Get(key)
	if len(unknown) > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("%s: not known here, and left out: %s", as, strings.Join(unknown, ", ")))
	}
	if c.tls13 && len(given) < len(all13) {
		c.warnings = append(c.warnings, fmt.Sprintf("%s: those of TLSv1.3 cannot be chosen from, all of them are used: %s", as, strings.Join(all13, ", ")))
	}
	return c, nil
}

const clientAuthKey = "ssl.client.auth"

// clientAuth returns what the server requires of its clients.
func (s Settings) clientAuth() (tls.ClientAuthType, error) {
	switch value := strings.ToLower(s.text(clientAuthKey)); value {
	case "", "none":
		return tls.NoClientCert, nil
	case "requested":
		return tls.VerifyClientCertIfGiven, nil
	case "required":
		return tls.RequireAndVerifyClientCert, nil
	}
	return 0, s.refuse(clientAuthKey, "must be none, requested or required")
}

// verifiesHost reports whether a client compares the name in the server's certificate with the host that it connected
// to.
func (s Settings) verifiesHost() (bool, error) {
	const key = "ssl.endpoint.identification.algorithm"
	switch strings.ToLower(s.text(key)) {
	case "":
		return false, nil
	case "https", "ldaps":
		return true, nil
	}
	return false, s.refuse(key, "must be https, or empty to trust a certificate whatever name it has")
}
