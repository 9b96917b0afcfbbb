package kerberos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
)

// writeFiles writes files and returns the path of the first.
func writeFiles(t testing.TB, files ...[2]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f[0])
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(f[1], "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, files[0][0])
}

// TestConfigurationOfFedora reads the file that Fedora and RHEL install, with a realm as administrators add it.
func TestConfigurationOfFedora(t *testing.T) {
	file := writeFiles(t,
		[2]string{"krb5.conf", `
includedir DIR/krb5.conf.d/
includedir DIR/nowhere
[logging]
    default = FILE:/var/log/krb5libs.log
[libdefaults]
    dns_lookup_realm = off
    ticket_lifetime = 24h
    forwardable = on
    rdns = false
    pkinit_anchors = FILE:/etc/pki/tls/certs/ca-bundle.crt
    spake_preauth_groups = edwards25519
    dns_canonicalize_hostname = fallback
    qualify_shortname = ""
    default_realm = EXAMPLE.COM # ours
    default_ccache_name = KEYRING:persistent:%{uid}
    default_tkt_enctypes = aes128-cts-hmac-sha1-96, aes256-cts-hmac-sha1-96
    kinit = {
        renewable = what
    }
[realms]
 EXAMPLE.COM = {
     kdc = one.test
     auth_to_local_names = {
         alice = al
     }
     kdc = two.test:1088
 }
[domain_realm]
 .example.com = EXAMPLE.COM
`},
		[2]string{"krb5.conf.d/other.conf", "[realms]\nOTHER.COM = {\n kdc = three.test\n}\ninclude DIR/more\n"},
		[2]string{"more", "[libdefaults]\nclockskew = 60\n"},
		[2]string{"krb5.conf.d/.hidden.conf", "[libdefaults]\nnonsense\n"},
		[2]string{"krb5.conf.d/other.conf~", "[libdefaults]\nnonsense\n"})
	c, err := readConfiguration(Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if c.Realm() != "EXAMPLE.COM" || c.skew() != time.Minute || !c.config.LibDefaults.Forwardable || !c.config.LibDefaults.DNSLookupKDC {
		t.Errorf("%+v", c.config.LibDefaults)
	}
	if kinds := c.config.LibDefaults.DefaultTktEnctypeIDs; !slices.Equal(kinds, []int32{etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96}) {
		t.Errorf("encryption types %v", kinds)
	}
	for realm, want := range map[string][]string{"EXAMPLE.COM": {"one.test:88", "two.test:1088"}, "OTHER.COM": {"three.test:88"}} {
		if addrs, err := (kdcs{c.config}).centers("tcp", realm); err != nil || !slices.Equal(addrs, want) {
			t.Errorf("KDCs of %s: %v, %v", realm, addrs, err)
		}
	}
	if realm := c.config.ResolveRealm("broker.example.com"); realm != "EXAMPLE.COM" {
		t.Errorf("the realm of a host is %q", realm)
	}
}

// TestCenters: a realm's KDCs are those that Java and MIT's library find, in the same order.
func TestCenters(t *testing.T) {
	c, err := readConfiguration(Source{File: writeFiles(t, [2]string{"krb5.conf", `
[libdefaults]
 default_realm = "QUOTED.TEST"
 dns_lookup_kdc = false
[realms]
 ONELINE.TEST = { kdc = a }
 NEXT.TEST =
 {
  kdc = next
 }
 BEGUN.TEST =
 { kdc = begun
 }
 MANY.TEST = {
  kdc = z, b:1 'c'
  kdc = "d"
  kdc = tcp/e
  kdc = 2001:db8::1
  kdc = [2001:db8::2]
  kdc = [2001:db8::3]:1088
  kdc = f:
  kdc = g:http
 }
`})})
	if err != nil {
		t.Fatal(err)
	}
	if c.Realm() != "QUOTED.TEST" {
		t.Errorf("the default realm is %s", c.Realm())
	}
	for realm, want := range map[string][]string{
		"ONELINE.TEST": nil, "NEXT.TEST": {"next:88"}, "BEGUN.TEST": {"begun:88"},
		"MANY.TEST": {"z:88", "b:1", "'c':88", "d:88", "tcp/e:88", "[2001:db8::1]:88", "[2001:db8::2]:88", "[2001:db8::3]:1088", "f:88", "g:88"},
	} {
		got, err := kdcs{c.config}.centers("tcp", realm)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %v, %v", realm, got, err)
		}
	}
}

// TestRealmOfSystemProperties: the system properties' realm takes precedence over the file's, and then there need not
// be a file.
func TestRealmOfSystemProperties(t *testing.T) {
	file := writeFiles(t, [2]string{"krb5.conf", "[libdefaults]\ndefault_realm = FILE.TEST\n[realms]\nOURS.TEST = {\nkdc = a\n}\nFILE.TEST = {\nkdc = b\n}\n"})
	for _, test := range []struct {
		from       Source
		asked      string
		want       []string
		unreadable string
	}{
		{Source{File: file, Realm: "OURS.TEST", KDC: "x:y"}, "OURS.TEST", []string{"x:88", "y:88"}, ""},
		{Source{File: file, Realm: "OURS.TEST", KDC: "x"}, "FILE.TEST", []string{"b:88"}, ""},
		{Source{File: "/nowhere", Realm: "OURS.TEST", KDC: "x"}, "OURS.TEST", []string{"x:88"}, ""},
		{Source{File: "/nowhere"}, "", nil, "no such file"},
		{Source{File: file, Realm: "OURS.TEST"}, "", nil, "must both be set, or neither"},
		{Source{File: file, KDC: "x"}, "", nil, "must both be set, or neither"},
	} {
		c, err := readConfiguration(test.from)
		if test.unreadable != "" {
			if err == nil || !strings.Contains(err.Error(), test.unreadable) {
				t.Errorf("%+v: %v", test.from, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", test.from, err)
			continue
		}
		if got, err := (kdcs{c.config}).centers("tcp", test.asked); c.Realm() != "OURS.TEST" || err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%+v: %s, %v, %v", test.from, c.Realm(), got, err)
		}
	}
}

// TestLookupOfCenters: KDCs are looked up in DNS by default, unless one of two settings disables that.
func TestLookupOfCenters(t *testing.T) {
	for text, want := range map[string]bool{"": true, "dns_lookup_kdc = no": false, "dns_fallback = off": false, "dns_fallback = false\ndns_lookup_kdc = true": true} {
		c, err := readConfiguration(Source{File: writeFiles(t, [2]string{"krb5.conf", "[libdefaults]\n" + text + "\n"})})
		if err != nil {
			t.Fatal(err)
		}
		if c.config.LibDefaults.DNSLookupKDC != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[libdefaults]\ndefault_realm\n":         `"default_realm" is not of the form key = value`,
		"[domain_realm]\n.example.com\n":         `".example.com" is not of the form key = value`,
		"[libdefaults]\nclockskew = later\n":     "clockskew",
		"[libdefaults]\nforwardable = perhaps\n": "forwardable",
		"include DIR/krb5.conf\n":                "more than 1000 files",
		"include DIR/nowhere\n":                  "no such file",
	} {
		if _, err := readConfiguration(Source{File: writeFiles(t, [2]string{"krb5.conf", text})}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
