package broker

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"barnabas/config"
	"barnabas/network/kerberos"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// writeRealm writes a configuration of Kerberos.
func writeRealm(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("[libdefaults]\n default_realm = EXAMPLE.COM\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeKeys writes a keytab.
func writeKeys(t *testing.T, file, principal string) {
	t.Helper()
	keys := keytab.New()
	if err := keys.AddEntry(principal, "EXAMPLE.COM", "secret", time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	data, err := keys.Marshal()
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestKerberosUserChanges: a listener has one Kerberos user, whose tickets are kept while its settings stay the same or
// cannot be applied, and dropped when they change.
func TestKerberosUserChanges(t *testing.T) {
	dir := t.TempDir()
	c := &config.Kerberos{Key: "listener.name.a.gssapi.sasl.jaas.config", Configuration: config.Krb5{File: filepath.Join(dir, "krb5.conf")},
		Keytab: filepath.Join(dir, "keytab"), Principal: "kafka/host", Service: "kafka"}
	writeRealm(t, c.Configuration.File)
	writeKeys(t, c.Keytab, c.Principal)
	log, _ := test.NewNullLogger()
	k := newKerberosState(logrus.NewEntry(log))
	defer k.close()
	first, err := k.user(c)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := k.user(c); err != nil || again != first {
		t.Errorf("the same settings give another user: %v", err)
	}
	keys := c.Keytab
	c.Keytab = filepath.Join(dir, "missing")
	if kept, err := k.user(c); err != nil || kept != first {
		t.Errorf("with a missing keytab the listener has another user: %v", err)
	}
	c.Keytab, c.Principal = keys, "broker/host"
	second, err := k.user(c)
	if err != nil || second.Name() != "broker/host@EXAMPLE.COM" {
		t.Fatalf("%v, %v", second, err)
	}
	if _, err := first.Start(t.Context(), "kafka", "host.test"); !errors.Is(err, kerberos.ErrClosed) {
		t.Errorf("the previous user is still open: %v", err)
	}
	if len(k.mu.users) != 1 {
		t.Errorf("there are %d users", len(k.mu.users))
	}
}
