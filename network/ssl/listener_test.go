package ssl

import (
	"crypto/tls"
	"errors"
	"maps"
	"strings"
	"testing"

	"barnabas/internal/testcert"
)

// TestCertificatesWhereClientsLogIn: on a SASL_SSL listener, certificates are requested only if the listener's own
// setting says so.
func TestCertificatesWhereClientsLogIn(t *testing.T) {
	const own = "listener.name.x."
	ca := testcert.NewAuthority(t, "ca")
	for _, test := range []struct {
		name    string
		logins  bool
		setting string
		want    tls.ClientAuthType
	}{
		{"no logins", false, "ssl.client.auth", tls.RequireAndVerifyClientCert},
		{"logins", true, "ssl.client.auth", tls.NoClientCert},
		{"logins, and a setting of its own", true, own + "ssl.client.auth", tls.RequireAndVerifyClientCert},
	} {
		settings := ca.Issue("broker").Files(ca)
		settings[test.setting] = "required"
		all := given(settings)
		made, err := ForListener(Settings{Get: func(name string) (as, value string, set bool) {
			if _, value, set := all.Get(own + name); set {
				return own + name, value, true
			}
			return all.Get(name)
		}}, Listener{Name: "X", Protocol: "SSL", Prefix: own, Logins: test.logins, Brokers: true}, nil)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := made.Server().ClientAuth; got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestListenersThatAreRefused: listeners without a key are refused, and those with certificates that brokers would not
// accept from each other.
func TestListenersThatAreRefused(t *testing.T) {
	ca, another := testcert.NewAuthority(t, "ca"), testcert.NewAuthority(t, "another")
	stranger := another.Issue("broker").Files(ca)
	noKey := maps.Clone(stranger)
	delete(noKey, keystoreLocation)
	for _, test := range []struct {
		name          string
		settings      map[string]string
		brokers       bool
		setting, says string
	}{
		{"no key", noKey, false, "listener.name.x.ssl.keystore.location", "listener X has protocol SASL_SSL"},
		{"a stranger", stranger, true, "ssl.truststore.location", "would refuse each other"},
		{"a stranger for clients", stranger, false, "", ""},
	} {
		_, err := ForListener(given(test.settings), Listener{Name: "X", Protocol: "SASL_SSL", Prefix: "listener.name.x.", Logins: true, Brokers: test.brokers}, nil)
		refused := new(Error)
		if test.setting == "" && err != nil || test.setting != "" && (!errors.As(err, &refused) || refused.Setting != test.setting || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
