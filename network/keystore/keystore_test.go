package keystore

import (
	"crypto"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// entries describes the content of a store: k:ALIAS(chain) and t:ALIAS, with common names.
func entries(s *Store) []string {
	var list []string
	for _, k := range s.Keys {
		var chain []string
		for _, c := range k.Chain {
			chain = append(chain, c.Subject.CommonName)
		}
		list = append(list, "k:"+k.Alias+"("+strings.Join(chain, ",")+")")
	}
	for _, c := range s.Trusted {
		list = append(list, "t:"+c.Alias+"("+c.Certificate.Subject.CommonName+")")
	}
	slices.Sort(list)
	return list
}

// TestOpen reads the stores that testdata/make.sh has made with keytool and OpenSSL; keytool -list shows the same
// entries.
func TestOpen(t *testing.T) {
	for _, c := range []struct {
		file  string
		store *string
		key   *string
		want  string
	}{
		{"server.jks", new("secret"), nil, "k:server(localhost,Test CA) t:caroot(Test CA)"},
		{"server.p12", new("secret"), nil, "k:server(localhost,Test CA) t:caroot(Test CA)"},
		{"ca.p12", new("secret"), nil, "k:ca(Test CA)"},
		{"keypass.jks", new("secret"), new("another"), "k:server(localhost)"},
		{"two.p12", new("secret"), nil, "k:one(one) k:two(two)"},
		{"legacy.p12", new("secret"), nil, "k:server(localhost)"},
		{"trust.jks", new("secret"), nil, "t:caroot(Test CA)"},
		{"trust.jks", nil, nil, "t:caroot(Test CA)"},
		{"trust.p12", new("secret"), nil, "t:caroot(Test CA)"},
		{"trust.p12", nil, nil, ""}, // encrypted as a whole
		{"open.p12", nil, nil, "t:caroot(Test CA)"},
		{"open.p12", new("any"), nil, "t:caroot(Test CA)"},
		{"openssl.p12", new("secret"), nil, "k:server(localhost,Test CA)"},
		{"openssl-legacy.p12", new("secret"), nil, "k:server(localhost,Test CA)"},
		{"openssl-certs.p12", new("secret"), nil, ""}, // none that Java would consider trusted
	} {
		s, err := Open(read(t, c.file), Passwords{c.store, c.key}, true)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if got := strings.Join(entries(s), " "); got != c.want {
			t.Errorf("%s holds %s, want %s", c.file, got, c.want)
		}
	}
}

// TestKeysAreThose: private keys match their certificates, in every kind of file.
func TestKeysAreThose(t *testing.T) {
	want, err := OpenPEM(string(read(t, "key.pem")), string(read(t, "chain.pem")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"server.p12", "openssl.p12", "openssl-legacy.p12"} {
		s, err := Open(read(t, file), Passwords{Store: new("secret")}, true)
		if err != nil {
			t.Fatal(err)
		}
		if !want.Keys[0].Private.(interface{ Equal(crypto.PrivateKey) bool }).Equal(s.Keys[0].Private) {
			t.Errorf("%s has another key than key.pem", file)
		}
	}
}

func TestOpenPEM(t *testing.T) {
	chain := string(read(t, "chain.pem"))
	for _, c := range []struct {
		key      string
		password *string
	}{
		{"key.pem", nil}, {"key-ec.pem", nil}, {"key-pbes2.pem", new("secret")}, {"key-3des.pem", new("secret")},
	} {
		for _, oneLine := range []bool{false, true} { // as in the values of settings
			text := string(read(t, c.key)) + chain
			if oneLine {
				text = strings.ReplaceAll(text, "\n", " ")
			}
			s, err := OpenPEM(text, text, c.password)
			if err != nil {
				t.Errorf("%s: %v", c.key, err)
				continue
			}
			if got := strings.Join(entries(s), " "); got != "k:kafka(localhost,Test CA)" {
				t.Errorf("%s contains %s", c.key, got)
			}
		}
	}
	s, err := OpenTrustedPEM("a comment: of openssl\n" + chain)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(entries(s), " "); got != "t:kafka0(localhost) t:kafka1(Test CA)" {
		t.Error(got)
	}
}

// TestOpenRefuses: errors name what is wrong.
func TestOpenRefuses(t *testing.T) {
	pem := func(key, chain string, password *string) func() (*Store, error) {
		return func() (*Store, error) { return OpenPEM(string(read(t, key)), string(read(t, chain)), password) }
	}
	store := func(file string, store, key *string) func() (*Store, error) {
		return func() (*Store, error) { return Open(read(t, file), Passwords{store, key}, true) }
	}
	truncated := func(file string) func() (*Store, error) {
		return func() (*Store, error) {
			b := read(t, file)
			return Open(b[:len(b)/2], Passwords{}, false)
		}
	}
	for _, c := range []struct {
		name string
		open func() (*Store, error)
		want string
	}{
		{"a wrong password of JKS", store("server.jks", new("wrong!"), nil), ErrPassword.Error()},
		{"a wrong password of PKCS12", store("server.p12", new("wrong!"), nil), ErrPassword.Error()},
		{"a wrong password of an old PKCS12", store("legacy.p12", new("wrong!"), nil), ErrPassword.Error()},
		{"a wrong key password", store("keypass.jks", new("secret"), nil), `key "server": ` + ErrPassword.Error()},
		{"no password", store("server.jks", nil, nil), "no password is given"},
		{"no password of PKCS12", store("server.p12", nil, nil), "no password is given"},
		{"JCEKS", store("secret.jceks", new("secret"), nil), "JCEKS"},
		{"something else", store("make.sh", new("secret"), nil), "neither a JKS nor a PKCS12 store"},
		{"half a JKS store", truncated("server.jks"), "truncated"},
		{"half a PKCS12 store", truncated("server.p12"), "neither a JKS nor a PKCS12 store"},
		{"no key in PEM", pem("ca.pem", "ca.pem", nil), "the PEM text has no PRIVATE KEY"},
		{"no certificate in PEM", pem("key.pem", "key.pem", nil), "the PEM text has no CERTIFICATE"},
		{"the key of another certificate", pem("key.pem", "ca.pem", nil), "not that of the certificate of"},
		{"an encrypted key without a password", pem("key-pbes2.pem", "chain.pem", nil), "no password is given"},
		{"a password without an encrypted key", pem("key.pem", "chain.pem", new("secret")), "is not encrypted"},
		{"a wrong password of PEM", pem("key-pbes2.pem", "chain.pem", new("wrong")), "the private key: "},
	} {
		_, err := c.open()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Open(read(t, "server.jks"), Passwords{Store: new("wrong!")}, false); !errors.Is(err, ErrPassword) {
		t.Errorf("not ErrPassword: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	files, err := filepath.Glob("testdata/*.[jp]*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		f.Add(read(f, filepath.Base(file)))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		for _, p := range []Passwords{{}, {Store: new("secret")}} {
			if s, err := Open(b, p, true); err == nil {
				_ = entries(s)
			}
		}
	})
}

func FuzzOpenPEM(f *testing.F) {
	for _, file := range []string{"key.pem", "chain.pem", "key-pbes2.pem"} {
		f.Add(string(read(f, file)))
	}
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = OpenPEM(text, text, nil)
		_, _ = OpenPEM(text, text, new("secret"))
	})
}
