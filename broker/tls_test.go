package broker

import (
	"bytes"
	"crypto/tls"
	"maps"
	"os"
	"strings"
	"testing"

	"barnabas/config"
	"barnabas/internal/testcert"
	"barnabas/internal/testwait"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// sslBroker returns the settings of a broker whose only listener uses TLS.
func sslBroker(id string, settings map[string]string) map[string]string {
	all := map[string]string{"broker.id": id, "listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL"}
	maps.Copy(all, settings)
	return all
}

// TestTLSThatCannotBeServed: the start fails with a line that names the setting.
func TestTLSThatCannotBeServed(t *testing.T) {
	ca, another := testcert.NewAuthority(t, "ca"), testcert.NewAuthority(t, "another")
	files := ca.Issue("broker", "127.0.0.1").Files(ca)
	zk := zookeeper(t)
	for _, row := range []struct {
		name string
		with map[string]string
		want string
	}{
		{"no key", map[string]string{}, "listener.name.ssl.ssl.keystore.location: listener SSL has protocol SSL"},
		{"no such file", map[string]string{"ssl.keystore.location": "/nowhere", "ssl.keystore.password": "x"}, "ssl.keystore.location=/nowhere: "},
		{"nothing that vouches", another.Issue("broker", "127.0.0.1").Files(ca), "brokers speak to each other by listener SSL, and would refuse each other"},
		{"a class", map[string]string{"listener.name.ssl.ssl.engine.factory.class": "org.example.Engine"}, "listener.name.ssl.ssl.engine.factory.class=org.example.Engine"},
		{"a class for principals", map[string]string{"principal.builder.class": "org.example.Builder"}, "principal.builder.class=org.example.Builder"},
		{"a rule", map[string]string{"ssl.principal.mapping.rules": "RULE:(?=x)/y/"}, "ssl.principal.mapping.rules=RULE:(?=x)/y/"},
	} {
		settings := maps.Clone(files)
		if row.name == "no key" || row.name == "no such file" {
			settings = map[string]string{}
		}
		maps.Copy(settings, row.with)
		err := newServer(t, zk, sslBroker("1", settings)).Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

// TestUntrustedBroker: a broker whose certificate was issued by another authority cannot connect, and both sides
// log which setting to check.
func TestUntrustedBroker(t *testing.T) {
	ca, another := testcert.NewAuthority(t, "ca"), testcert.NewAuthority(t, "another")
	zk := zookeeper(t)
	start := func(id string, settings map[string]string) *test.Hook {
		settings["log.dirs"], settings["zookeeper.connect"] = t.TempDir(), zk
		settings["ssl.client.auth"], settings["controlled.shutdown.enable"] = "required", "false"
		cfg, err := config.Parse(sslBroker(id, settings))
		if err != nil {
			t.Fatal(err)
		}
		log, lines := test.NewNullLogger()
		s := New(cfg, log)
		t.Cleanup(s.Close)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	ours := start("1", ca.Issue("broker-1", "127.0.0.1").Files(ca))
	theirs := start("2", another.Issue("broker-2", "127.0.0.1").Files(another))
	for name, lines := range map[string]*test.Hook{"the broker of the cluster": ours, "the stranger": theirs} {
		testwait.Until(t, name+" says where to look", func() bool {
			return says(lines, "nothing in ssl.truststore.* vouches") || says(lines, "the other side refused")
		})
	}
}

// TestTLSSettingsThatCouldNotBeApplied: settings that could not be applied when they changed, because a file could not be
// read just then, are applied when they are written again.
func TestTLSSettingsThatCouldNotBeApplied(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	first, second := ca.Issue("broker", "127.0.0.1"), ca.Issue("broker", "127.0.0.1")
	before, now := sslConfig(t, first.Files(ca)), sslConfig(t, second.Files(ca))
	log, _ := test.NewNullLogger()
	s := newSecured(logrus.NewEntry(log))
	l := before.Listeners[0]
	serving, err := s.server(before, l)
	if err != nil {
		t.Fatal(err)
	}
	serves := func(who *testcert.Identity) bool {
		return bytes.Equal(serving.Config().Certificates[0].Certificate[0], who.Certificate().Raw)
	}
	_, keystore, _ := now.ListenerSetting(l, "ssl.keystore.location")
	if err := os.Rename(keystore, keystore+".away"); err != nil {
		t.Fatal(err)
	}
	if err := s.changed(now); err == nil || !serves(first) {
		t.Fatalf("the listener does not keep its certificate: %v", err)
	}
	if err := os.Rename(keystore+".away", keystore); err != nil {
		t.Fatal(err)
	}
	if err := s.reload(now); err != nil || !serves(second) {
		t.Errorf("the new certificate is not used: %v", err)
	}
}

// TestTLSOfAListenerThatIsOpenedLater: a listener has the settings with which it is opened, not those of an earlier
// attempt whose port could not be bound.
func TestTLSOfAListenerThatIsOpenedLater(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	files := ca.Issue("broker", "127.0.0.1").Files(ca)
	log, _ := test.NewNullLogger()
	s := newSecured(logrus.NewEntry(log))
	for _, row := range []struct {
		setting string
		want    tls.ClientAuthType
	}{{"none", tls.NoClientCert}, {"required", tls.RequireAndVerifyClientCert}} {
		files["ssl.client.auth"] = row.setting
		c := sslConfig(t, files)
		serving, err := s.server(c, c.Listeners[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := serving.Config().ClientAuth; got != row.want {
			t.Errorf("ssl.client.auth=%s: %v, want %v", row.setting, got, row.want)
		}
	}
}

func sslConfig(t *testing.T, settings map[string]string) *config.Broker {
	t.Helper()
	settings = sslBroker("1", settings)
	settings["log.dirs"], settings["zookeeper.connect"] = t.TempDir(), "127.0.0.1:1"
	c, err := config.Parse(settings)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func says(lines *test.Hook, text string) bool {
	for _, e := range lines.AllEntries() {
		if line, err := (&logrus.TextFormatter{}).Format(e); err == nil && strings.Contains(string(line), text) {
			return true
		}
	}
	return false
}
