package broker

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"barnabas/config"
	"barnabas/internal/testwait"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMechanismsStandForThemselves: when a keytab cannot be read, the changes of a listener's other mechanisms are in
// force, that one stays as it was, and its change is in force when the file is there. A request for such a change is
// refused.
func TestMechanismsStandForThemselves(t *testing.T) {
	const (
		prefix    = "listener.name.secure."
		principal = "kafka/host@EXAMPLE.COM"
	)
	dir := t.TempDir()
	realm, first, second := filepath.Join(dir, "krb5.conf"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	writeRealm(t, realm)
	writeKeys(t, first, principal)
	settings := func(password, keytab string) map[string]string {
		return map[string]string{
			prefix + "plain.sasl.jaas.config":  "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"" + password + "\";",
			prefix + "gssapi.sasl.jaas.config": fmt.Sprintf("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=%q principal=%q;", keytab, principal),
			prefix + "sasl.enabled.mechanisms": "PLAIN,GSSAPI",
		}
	}
	static := settings("before", first)
	for key, value := range map[string]string{
		"listeners":                      "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT", "inter.broker.listener.name": "PLAINTEXT",
		"java.security.krb5.conf": realm, "sasl.kerberos.service.name": "kafka", "password.encoder.secret": "s",
		"connection.failed.authentication.delay.ms": "1",
	} {
		static[key] = value
	}
	s := newServer(t, zookeeper(t), static)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	offered := func() []string {
		hello := kmsg.NewPtrSASLHandshakeRequest()
		hello.Version, hello.Mechanism = 1, "GSSAPI"
		resp, err := connectTo(t, s.Addr("SECURE")).Do(t.Context(), hello)
		if err != nil {
			t.Fatal(err)
		}
		return resp.(*kmsg.SASLHandshakeResponse).SupportedMechanisms
	}
	logsIn := func(password string) bool {
		c := connectTo(t, s.Addr("SECURE"))
		hello := kmsg.NewPtrSASLHandshakeRequest()
		hello.Version, hello.Mechanism = 1, "PLAIN"
		if _, err := c.Do(t.Context(), hello); err != nil {
			t.Fatal(err)
		}
		login := kmsg.NewPtrSASLAuthenticateRequest()
		login.Version, login.SASLAuthBytes = 2, []byte("\x00alice\x00"+password)
		resp, err := c.Do(t.Context(), login)
		return err == nil && resp.(*kmsg.SASLAuthenticateResponse).ErrorCode == 0
	}
	if !logsIn("before") {
		t.Fatal("the password of the start is not accepted")
	}

	ops := make([]config.Op, 0, 3)
	for key, value := range settings("now", second) {
		ops = append(ops, config.Op{Key: key, Value: &value})
	}
	if _, err := s.config.AlterBroker(nil, ops); !errors.Is(err, kerr.InvalidRequest) || !strings.Contains(err.Error(), second) {
		t.Errorf("a request with a missing keytab: %v", err)
	}
	stored, err := s.config.EncodeBroker(settings("now", second))
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "brokers", "1", stored) // written by somebody who did not check it
	testwait.Until(t, "the other mechanism", func() bool { return logsIn("now") && !logsIn("before") })
	if got := offered(); !slices.Contains(got, "GSSAPI") {
		t.Errorf("the mechanism with the missing keytab is not kept: %v", got)
	}
	if !s.isPending("SASL settings") {
		t.Error("the change is not tried again")
	}
	writeKeys(t, second, principal)
	testwait.Until(t, "the change", func() bool { return !s.isPending("SASL settings") })
	if _, err := s.config.AlterBroker(nil, ops); err != nil {
		t.Errorf("the same request with a keytab: %v", err)
	}
}
