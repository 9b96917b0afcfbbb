package ssl

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testcert"
)

// given returns settings, with the defaults of Apache Kafka's brokers for those that are not set.
func given(settings map[string]string) Settings {
	all := map[string]string{"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.2,TLSv1.3", "ssl.client.auth": "none",
		"ssl.endpoint.identification.algorithm": "https", "ssl.principal.mapping.rules": "DEFAULT", "ssl.keystore.type": "JKS",
		"ssl.truststore.type": "JKS", "ssl.cipher.suites": ""}
	maps.Copy(all, settings)
	return Settings{Get: func(name string) (string, string, bool) {
		value, set := all[name]
		return name, value, set
	}}
}

const stores = "../keystore/testdata/"

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(stores, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestStoresOfEachKind: stores of every type can be opened and used.
func TestStoresOfEachKind(t *testing.T) {
	trust := map[string]string{"ssl.truststore.location": stores + "trust.jks"}
	for name, settings := range map[string]map[string]string{
		"JKS":                     {"ssl.keystore.location": stores + "server.jks", "ssl.keystore.password": "secret"},
		"PKCS12, said to be":      {"ssl.keystore.location": stores + "server.p12", "ssl.keystore.password": "secret", "ssl.keystore.type": "PKCS12"},
		"PKCS12 under type JKS":   {"ssl.keystore.location": stores + "server.p12", "ssl.keystore.password": "secret"},
		"OpenSSL's, lower case":   {"ssl.keystore.location": stores + "openssl.p12", "ssl.keystore.password": "secret", "ssl.keystore.type": "pkcs12"},
		"PEM in settings":         {"ssl.keystore.type": "PEM", "ssl.keystore.key": text(t, "key.pem"), "ssl.keystore.certificate.chain": text(t, "chain.pem")},
		"PEM with a key password": {"ssl.keystore.type": "PEM", "ssl.keystore.key": text(t, "key-pbes2.pem"), "ssl.keystore.certificate.chain": text(t, "chain.pem"), "ssl.key.password": "secret"},
	} {
		settings := maps.Clone(settings)
		maps.Copy(settings, trust)
		settings["ssl.client.auth"] = "required"
		c, err := New(given(settings))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := checkPair(c, c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if who, err := c.Principal(c.Server().Certificates[0].Leaf); who != "User:CN=localhost,O=Barnabas" || err != nil {
			t.Errorf("%s: the principal is %q, %v", name, who, err)
		}
	}
}

// TestKeystoreAsTruststore: trusted entries are trusted, but not the issuers of the key's certificate.
func TestKeystoreAsTruststore(t *testing.T) {
	c, err := New(given(map[string]string{"ssl.truststore.location": stores + "openssl.p12", "ssl.truststore.password": "secret"}))
	if err != nil {
		t.Fatal(err)
	}
	server, err := New(given(map[string]string{"ssl.keystore.location": stores + "server.jks", "ssl.keystore.password": "secret"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkPair(server, c); err == nil {
		t.Error("what the issuer of our own key signs is trusted")
	}
	own, err := New(given(map[string]string{"ssl.keystore.location": stores + "openssl.p12", "ssl.keystore.password": "secret"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkPair(own, c); err != nil {
		t.Errorf("our own certificate is not trusted: %v", err)
	}
}

// TestSettingsThatAreRefused: errors name the setting, and contain no secret.
func TestSettingsThatAreRefused(t *testing.T) {
	pem := map[string]string{"ssl.keystore.type": "PEM", "ssl.keystore.key": text(t, "key.pem"), "ssl.keystore.certificate.chain": text(t, "chain.pem")}
	with := func(base map[string]string, key, value string) map[string]string {
		m := maps.Clone(base)
		m[key] = value
		return m
	}
	without := func(base map[string]string, key string) map[string]string {
		m := maps.Clone(base)
		delete(m, key)
		return m
	}
	jks := map[string]string{"ssl.keystore.location": stores + "server.jks", "ssl.keystore.password": "secret"}
	for _, row := range []struct {
		settings map[string]string
		want     string
	}{
		{map[string]string{"ssl.client.auth": "maybe"}, "ssl.client.auth=maybe: must be none, requested or required"},
		{map[string]string{"ssl.endpoint.identification.algorithm": "http"}, "ssl.endpoint.identification.algorithm=http: must be https"},
		{map[string]string{"ssl.enabled.protocols": "TLSv1.4"}, "ssl.enabled.protocols=TLSv1.4: TLSv1.4 is not a version"},
		{map[string]string{"ssl.enabled.protocols": "TLSv1,TLSv1.1"}, "ssl.enabled.protocols=TLSv1,TLSv1.1: none of them is safe"},
		{map[string]string{"ssl.protocol": "TLSv9"}, "ssl.protocol=TLSv9: "},
		{map[string]string{"ssl.protocol": "TLSv1.1", "ssl.enabled.protocols": ""}, "ssl.protocol=TLSv1.1: none of them is safe"},
		{map[string]string{"ssl.cipher.suites": "TLS_NEVER"}, "ssl.cipher.suites=TLS_NEVER: none of them is supported"},
		{map[string]string{"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"}, "none of them is for one of ssl.enabled.protocols"},
		{map[string]string{"ssl.principal.mapping.rules": "RULE:x"}, "ssl.principal.mapping.rules=RULE:x: "},
		{map[string]string{"ssl.keystore.type": "BCFKS"}, "ssl.keystore.type=BCFKS: must be JKS, PKCS12 or PEM"},
		{map[string]string{"ssl.truststore.type": "BCFKS"}, "ssl.truststore.type=BCFKS: "},
		{without(jks, "ssl.keystore.password"), "ssl.keystore.password must also be set"},
		{without(jks, "ssl.keystore.location"), "ssl.keystore.password: ssl.keystore.location is not set"},
		{with(jks, "ssl.keystore.password", "wrong!"), "ssl.keystore.password: " + stores + "server.jks: the password is wrong"},
		{with(jks, "ssl.keystore.location", stores+"keypass.jks"), "ssl.key.password: " + stores + `keypass.jks: key "server": the password is wrong`},
		{with(jks, "ssl.key.password", "wrong!"), "ssl.key.password: " + stores + `server.jks: key "server": the password is wrong`},
		{with(with(jks, "ssl.keystore.location", stores+"server.p12"), "ssl.key.password", "wrong!"), "ssl.key.password: " + stores + "server.p12: key"},
		{with(with(jks, "ssl.keystore.location", stores+"server.p12"), "ssl.keystore.password", "wrong!"), "ssl.keystore.password: " + stores + "server.p12: the"},
		{map[string]string{"ssl.keystore.type": "PEM", "ssl.keystore.location": stores + "key-pbes2.pem"}, "ssl.keystore.location=" + stores + "key-pbes2.pem: the PEM text has no CERTIFICATE"},
		{with(jks, "ssl.keystore.type", "PEM"), "ssl.keystore.password: a PEM keystore has no password"},
		{with(jks, "ssl.keystore.location", "/nowhere"), "ssl.keystore.location=/nowhere: "},
		{with(jks, "ssl.keystore.location", stores+"trust.jks"), "there is no private key in it"},
		{with(jks, "ssl.keystore.key", "x"), "ssl.keystore.key: needs ssl.keystore.type=PEM"},
		{without(pem, "ssl.keystore.certificate.chain"), "ssl.keystore.key: ssl.keystore.certificate.chain must also be set"},
		{without(pem, "ssl.keystore.key"), "ssl.keystore.certificate.chain: ssl.keystore.key must also be set"},
		{with(pem, "ssl.keystore.location", "/x"), "ssl.keystore.location=/x: cannot be set together"},
		{with(pem, "ssl.keystore.password", "x"), "ssl.keystore.password: a PEM keystore has no password"},
		{with(pem, "ssl.keystore.key", "x"), "ssl.keystore.key: the PEM text has no PRIVATE KEY"},
		{with(pem, "ssl.keystore.certificate.chain", "x"), "ssl.keystore.certificate.chain: the PEM text has no CERTIFICATE"},
		{with(pem, "ssl.keystore.key", text(t, "key-pbes2.pem")), "ssl.key.password: the private key is encrypted, and no password is given"},
		{with(with(pem, "ssl.keystore.key", text(t, "key-pbes2.pem")), "ssl.key.password", "wrong!"), "ssl.key.password: the private key: the password is wrong"},
		{with(with(pem, "ssl.keystore.key", text(t, "key-3des.pem")), "ssl.key.password", "wrong!"), "ssl.key.password: the private key: the password is wrong"},
		{with(pem, "ssl.key.password", "x"), "ssl.key.password: a password is given, but the private key is not encrypted"},
		{map[string]string{"ssl.truststore.password": "x"}, "ssl.truststore.password: ssl.truststore.location is not set"},
		{map[string]string{"ssl.truststore.certificates": "x"}, "ssl.truststore.certificates: needs ssl.truststore.type=PEM"},
		{map[string]string{"ssl.truststore.certificates": "x", "ssl.truststore.type": "PEM"}, "the PEM text has no CERTIFICATE"},
		{map[string]string{"ssl.truststore.location": stores + "ca.pem", "ssl.truststore.type": "PEM", "ssl.truststore.password": "x"}, "a PEM truststore has no password"},
		{map[string]string{"ssl.truststore.location": stores + "trust.p12"}, "without ssl.truststore.password"},
		{map[string]string{"ssl.truststore.location": stores + "openssl-certs.p12", "ssl.truststore.password": "secret"}, "it has no trusted certificate"},
		{map[string]string{"ssl.truststore.location": stores + "trust.jks", "ssl.truststore.password": "wrong!"}, "ssl.truststore.password: " + stores + "trust.jks: the password is wrong"},
	} {
		_, err := New(given(row.settings))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v, want %q", err, row.want)
			continue
		}
		if said := (*Error)(nil); !errors.As(err, &said) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "wrong!") {
			t.Errorf("%v: names no setting, or contains a secret", err)
		}
	}
	if _, err := New(given(with(jks, "ssl.keystore.location", "/nowhere"))); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestVersionsAndSuites(t *testing.T) {
	for _, row := range []struct {
		enabled, protocol, suites string
		lowest, highest           uint16
		warnings                  int
	}{
		{"TLSv1.2,TLSv1.3", "TLSv1.3", "", tls.VersionTLS12, tls.VersionTLS13, 0},
		{"TLSv1.2,TLSv1.3", "TLSv1.2", "", tls.VersionTLS12, tls.VersionTLS13, 0}, // the enabled protocols take precedence
		{"", "TLSv1.3", "", tls.VersionTLS12, tls.VersionTLS13, 0},
		{"", "TLSv1.2", "", tls.VersionTLS12, tls.VersionTLS12, 0},
		{"", "TLS", "", tls.VersionTLS12, tls.VersionTLS13, 0},
		{" TLSv1.3 ", "TLS", "", tls.VersionTLS13, tls.VersionTLS13, 0},
		{"TLSv1.1,TLSv1.2", "TLS", "", tls.VersionTLS12, tls.VersionTLS12, 0},
		{"TLSv1.2,TLSv1.3", "TLS", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", tls.VersionTLS12, tls.VersionTLS12, 0},
		{"TLSv1.2,TLSv1.3", "TLS", "TLS_AES_256_GCM_SHA384", tls.VersionTLS13, tls.VersionTLS13, 1},
		{"TLSv1.2,TLSv1.3", "TLS", "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256", tls.VersionTLS13, tls.VersionTLS13, 0},
		{"TLSv1.2", "TLS", "SSL_RSA_WITH_3DES_EDE_CBC_SHA,TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", tls.VersionTLS12, tls.VersionTLS12, 1},
	} {
		c, err := New(given(map[string]string{"ssl.enabled.protocols": row.enabled, "ssl.protocol": row.protocol, "ssl.cipher.suites": row.suites}))
		if err != nil {
			t.Errorf("%+v: %v", row, err)
			continue
		}
		if c.server.MinVersion != row.lowest || c.server.MaxVersion != row.highest || len(c.Warnings()) != row.warnings {
			t.Errorf("%+v: from %x to %x, warnings %q", row, c.server.MinVersion, c.server.MaxVersion, c.Warnings())
		}
	}
}

// handshake connects a client to a server by a host name.
func handshake(t *testing.T, server, client *Context, host string) error {
	t.Helper()
	near, far := net.Pipe()
	go func() {
		conn := tls.Server(near, server.Server())
		_ = conn.Handshake()
		_ = conn.Close()
	}()
	defer func() { _ = far.Close() }()
	_ = far.SetDeadline(time.Now().Add(20 * time.Second))
	return tls.Client(far, client.Client(host)).Handshake()
}

func must(t *testing.T, settings map[string]string) *Context {
	t.Helper()
	c, err := New(given(settings))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestNamesAreCompared: host names are verified unless the settings disable that; the common name is used for a
// certificate without a host among its alternative names.
func TestNamesAreCompared(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	trust := map[string]string{"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca.PEM()}
	unnamed := maps.Clone(trust)
	unnamed["ssl.endpoint.identification.algorithm"] = ""
	named, careless := must(t, trust), must(t, unnamed)
	for _, row := range []struct {
		cert *testcert.Identity
		host string
		fits bool
	}{
		{ca.Issue("x", "kafka.example.com"), "kafka.example.com", true},
		{ca.Issue("x", "*.example.com"), "kafka.example.com", true},
		{ca.Issue("x", "*.example.com"), "a.b.example.com", false},
		{ca.Issue("kafka.example.com", "other.example.com"), "kafka.example.com", false},
		{ca.Issue("kafka.example.com"), "kafka.example.com", true},
		{ca.Issue("kafka.example.com", "10.0.0.1"), "KAFKA.example.com", true},
		{ca.Issue("x", "10.0.0.1"), "10.0.0.1", true},
		{ca.Issue("10.0.0.1"), "10.0.0.1", false},
		{ca.Issue("x", "::1"), "::1", true},
	} {
		server := must(t, row.cert.Files(ca))
		err := handshake(t, server, named, row.host)
		if (err == nil) != row.fits {
			t.Errorf("%v for %s: %v", row.cert.Certificate().Subject, row.host, err)
		}
		if err != nil && !strings.Contains(Hint(err), "ssl.endpoint.identification.algorithm") {
			t.Errorf("%v: the hint is %q", err, Hint(err))
		}
		if err := handshake(t, server, careless, row.host); err != nil {
			t.Errorf("names should not be verified: %v", err)
		}
	}
	stranger := must(t, testcert.NewAuthority(t, "another").Issue("x", "h").Files(ca))
	for _, client := range []*Context{named, careless} {
		if err := handshake(t, stranger, client, "h"); err == nil || !strings.Contains(Hint(err), "ssl.truststore") {
			t.Errorf("an unknown authority: %v, hint %q", err, Hint(err))
		}
	}
}

// TestSuccessors: which contexts may replace another one on a listener (the cases of Apache Kafka's SslFactoryTest).
func TestSuccessors(t *testing.T) {
	ca, another := testcert.NewAuthority(t, "ca"), testcert.NewAuthority(t, "another")
	keyOnly := func(i *testcert.Identity) map[string]string {
		m := i.Files(ca)
		delete(m, "ssl.truststore.location")
		return m
	}
	base := ca.Issue("broker", "a", "b")
	for _, row := range []struct {
		name      string
		old, next map[string]string
		allowed   Changes
		want      string // empty: it may replace it
	}{
		{"the same names", base.Files(ca), ca.Issue("broker", "b", "a").Files(ca), Changes{Peers: true}, ""},
		{"more alternative names", base.Files(ca), ca.Issue("broker", "a", "b", "c").Files(ca), Changes{}, ""},
		{"another case", base.Files(ca), ca.Issue("BROKER", "a", "b").Files(ca), Changes{}, ""},
		{"another name", base.Files(ca), ca.Issue("other", "a", "b").Files(ca), Changes{}, "ssl.allow.dn.changes"},
		{"another name, allowed", base.Files(ca), ca.Issue("other", "a", "b").Files(ca), Changes{Names: true}, ""},
		{"fewer alternative names", base.Files(ca), ca.Issue("broker", "a").Files(ca), Changes{}, "ssl.allow.san.changes"},
		{"fewer alternative names, allowed", base.Files(ca), ca.Issue("broker", "a").Files(ca), Changes{AlternativeNames: true}, ""},
		{"no keystore", base.Files(ca), map[string]string{}, Changes{}, "cannot be taken away"},
		{"a keystore", map[string]string{}, base.Files(ca), Changes{}, "cannot be added"},
		{"a truststore", keyOnly(base), base.Files(ca), Changes{}, "a truststore cannot be added"},
		{"no truststore", base.Files(ca), keyOnly(base), Changes{}, ""},
		{"another authority", base.Files(ca), another.Issue("broker", "a", "b").Files(another), Changes{}, ""},
		{"another authority between brokers", base.Files(ca), another.Issue("broker", "a", "b").Files(another), Changes{Peers: true}, "are incompatible with"},
	} {
		err := must(t, row.old).CheckSuccessor(must(t, row.next), row.allowed)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

// TestRefusedSuccessorsNameTheSetting: the error names the setting whose store does not match.
func TestRefusedSuccessorsNameTheSetting(t *testing.T) {
	ca, another := testcert.NewAuthority(t, "ca"), testcert.NewAuthority(t, "another")
	base := ca.Issue("broker", "a")
	files := func(i *testcert.Identity, ca *testcert.Authority) map[string]string { return i.Files(ca) }
	inline := func(i *testcert.Identity, ca *testcert.Authority) map[string]string {
		return map[string]string{"ssl.keystore.type": "PEM", "ssl.keystore.key": i.KeyPEM(), "ssl.keystore.certificate.chain": i.ChainPEM(),
			"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca.PEM()}
	}
	without := func(m map[string]string, start string) map[string]string {
		maps.DeleteFunc(m, func(key, _ string) bool { return strings.HasPrefix(key, start) })
		return m
	}
	for _, form := range []struct {
		settings     func(*testcert.Identity, *testcert.Authority) map[string]string
		keys, trusts string
	}{{files, "ssl.keystore.location", "ssl.truststore.location"}, {inline, "ssl.keystore.key", "ssl.truststore.certificates"}} {
		for _, row := range []struct {
			name      string
			old, next map[string]string
			want      string
		}{
			{"another name", form.settings(base, ca), form.settings(ca.Issue("other", "a"), ca), form.keys},
			{"fewer alternative names", form.settings(base, ca), form.settings(ca.Issue("broker"), ca), form.keys},
			{"no keystore", form.settings(base, ca), without(form.settings(base, ca), "ssl.keystore"), form.keys},
			{"a keystore", without(form.settings(base, ca), "ssl.keystore"), form.settings(base, ca), form.keys},
			{"a truststore", without(form.settings(base, ca), "ssl.truststore"), form.settings(base, ca), form.trusts},
			{"a key of another authority", form.settings(base, ca), form.settings(another.Issue("broker", "a"), ca), form.keys},
			{"trust in another authority", form.settings(base, ca), form.settings(base, another), form.trusts},
			{"both of another authority", form.settings(base, ca), form.settings(another.Issue("broker", "a"), another), form.keys},
		} {
			err := must(t, row.old).CheckSuccessor(must(t, row.next), Changes{Peers: true})
			if refused := (*Error)(nil); !errors.As(err, &refused) || refused.Setting != row.want {
				t.Errorf("%s: %v, want %s", row.name, err, row.want)
			}
		}
	}
}

// TestModified: a changed file is recognized by its time or size.
func TestModified(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	settings := ca.Issue("x", "h").Files(ca)
	for _, key := range []string{"ssl.keystore.location", "ssl.truststore.location"} {
		c := must(t, settings)
		if c.Modified() {
			t.Fatal("a store is reported as changed")
		}
		at := time.Now().Add(time.Hour)
		if err := os.Chtimes(settings[key], at, at); err != nil {
			t.Fatal(err)
		}
		if !c.Modified() {
			t.Errorf("%s: a change was not noticed", key)
		}
	}
}
