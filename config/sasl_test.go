package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"barnabas/internal/jaas"

	"github.com/google/go-cmp/cmp"
)

const (
	plainLogin = jaas.PlainModule + ` required username="admin" password="a" user_admin="a" user_alice="pw";`
	scramLogin = jaas.ScramModule + ` required username="admin" password="b";`
)

// saslSettings returns the settings of a broker whose only listener, EXTERNAL, has both mechanisms.
func saslSettings(more ...string) []string {
	return append([]string{
		"listeners=EXTERNAL://:9093", "listener.security.protocol.map=EXTERNAL:SASL_PLAINTEXT", "inter.broker.listener.name=EXTERNAL",
		"sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
		"listener.name.external.plain.sasl.jaas.config=" + plainLogin,
		"listener.name.external.scram-sha-256.sasl.jaas.config=" + scramLogin,
	}, more...)
}

func TestListenerSASL(t *testing.T) {
	b := mustParse(t, saslSettings("connections.max.reauth.ms=1000", "listener.name.external.plain.connections.max.reauth.ms=5",
		"listener.name.external.sasl.server.max.receive.size=77")...)
	if err := b.checkSecurity(); err != nil {
		t.Fatal(err)
	}
	got, err := b.ListenerSASL(b.Listeners[0])
	want := SASL{MaxReceiveBytes: 77, Mechanisms: []SASLMechanism{
		{Name: "PLAIN", MaxReauth: 5 * time.Millisecond, Options: map[string]string{"username": "admin", "password": "a", "user_admin": "a", "user_alice": "pw"}},
		{Name: "SCRAM-SHA-256", MaxReauth: time.Second, Options: map[string]string{"username": "admin", "password": "b"}},
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if diff := cmp.Diff(map[string]string{"admin": "a", "alice": "pw"}, got.Mechanisms[0].UserPasswords()); diff != "" {
		t.Error(diff)
	}
	login, err := b.BrokersSASL(b.Listeners[0])
	if diff := cmp.Diff(SASLLogin{Mechanism: "SCRAM-SHA-256", User: "admin", Password: "b"}, login); err != nil || diff != "" {
		t.Error(err, diff)
	}
	b = mustParse(t, saslSettings("listener.name.external.sasl.enabled.mechanisms=SCRAM-SHA-256, SCRAM-SHA-512",
		"listener.name.external.scram-sha-512.sasl.jaas.config="+jaas.ScramModule+" required;",
		"listener.name.external.scram-sha-256.sasl.jaas.config="+jaas.ScramModule+` required username=id password=h tokenauth=true;`)...)
	if got, err = b.ListenerSASL(b.Listeners[0]); err != nil || len(got.Mechanisms) != 2 || got.MaxReceiveBytes != 524288 {
		t.Error(got, err)
	}
	if login, err = b.BrokersSASL(b.Listeners[0]); err != nil || !login.Token {
		t.Error(login, err)
	}
}

// TestLoginsThatCannotWorkAreRefused: errors name the setting in one line, and contain no secret.
func TestLoginsThatCannotWorkAreRefused(t *testing.T) {
	jaasOf := func(mechanism, text string) string {
		return "listener.name.external." + mechanism + ".sasl.jaas.config=" + text
	}
	for _, test := range []struct {
		name  string
		more  []string
		names []string
	}{
		{"CRAM-MD5", []string{"sasl.enabled.mechanisms=CRAM-MD5,SCRAM-SHA-256"}, []string{"sasl.enabled.mechanisms=CRAM-MD5,SCRAM-SHA-256", "EXTERNAL", "no mechanism CRAM-MD5"}},
		{"GSSAPI without keys", []string{"sasl.enabled.mechanisms=GSSAPI,SCRAM-SHA-256", "sasl.kerberos.service.name=kafka", jaasOf("gssapi", jaas.Krb5Module+` required useTicketCache=true;`)},
			[]string{"listener.name.external.gssapi.sasl.jaas.config", "keyTab"}},
		{"GSSAPI without a service", []string{"sasl.enabled.mechanisms=GSSAPI,SCRAM-SHA-256", jaasOf("gssapi", jaas.Krb5Module+` required useKeyTab=true keyTab="/k" principal="kafka/h@R";`)},
			[]string{"listener.name.external.gssapi.sasl.jaas.config", "sasl.kerberos.service.name"}},
		{"GSSAPI with two services", []string{"sasl.enabled.mechanisms=GSSAPI,SCRAM-SHA-256", "sasl.kerberos.service.name=kafka", jaasOf("gssapi", jaas.Krb5Module+` required useKeyTab=true keyTab="/k" principal="kafka/h@R" serviceName="other";`)},
			[]string{"listener.name.external.gssapi.sasl.jaas.config", "serviceName is other"}},
		{"OAUTHBEARER with signed tokens", []string{"listener.name.external.sasl.enabled.mechanisms=OAUTHBEARER,SCRAM-SHA-256", jaasOf("oauthbearer", jaas.OAuthModule+" required;"),
			"listener.name.external.oauthbearer.sasl.server.callback.handler.class=org.x.Validator"}, []string{"sasl.server.callback.handler.class=org.x.Validator"}},
		{"OAUTHBEARER with a bad option", []string{"sasl.enabled.mechanisms=OAUTHBEARER,SCRAM-SHA-256", jaasOf("oauthbearer", jaas.OAuthModule+" required unsecuredValidatorAllowableClockSkewMs=x;")},
			[]string{"listener.name.external.oauthbearer.sasl.jaas.config=[hidden]", "unsecuredValidatorAllowableClockSkewMs"}},
		{"no login configuration", []string{"sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512"}, []string{"listener.name.external.scram-sha-512.sasl.jaas.config"}},
		{"a broken one", []string{jaasOf("plain", `x required user_alice="s3cret"`)}, []string{"listener.name.external.plain.sasl.jaas.config=[hidden]", "semicolon"}},
		{"another mechanism's", []string{jaasOf("plain", scramLogin)}, []string{"listener.name.external.plain.sasl.jaas.config=[hidden]", jaas.PlainModule}},
		{"no user for brokers", []string{jaasOf("scram-sha-256", jaas.ScramModule+` required password="s3cret";`)}, []string{"listener.name.external.scram-sha-256.sasl.jaas.config=[hidden]", "username"}},
		{"a class", []string{"listener.name.external.plain.sasl.server.callback.handler.class=org.x.Y"}, []string{"listener.name.external.plain.sasl.server.callback.handler.class=org.x.Y"}},
		{"a class for names", []string{"principal.builder.class=org.x.Y"}, []string{"principal.builder.class=org.x.Y", "EXTERNAL"}},
		{"not a number", []string{"listener.name.external.connections.max.reauth.ms=s"}, []string{"listener.name.external.connections.max.reauth.ms=s"}},
		{"no such file", []string{"sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512", "java.security.auth.login.config=/nowhere/jaas"}, []string{"java.security.auth.login.config=/nowhere/jaas"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := mustParse(t, saslSettings(test.more...)...).checkSecurity()
			if err == nil {
				t.Fatal("taken")
			}
			for _, part := range test.names {
				if text := err.Error(); !strings.Contains(text, part) || strings.Contains(text, "\n") || strings.Contains(text, "s3cret") {
					t.Errorf("%q does not mention %s", text, part)
				}
			}
		})
	}
}

func TestLoginsOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jaas.conf")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed := func() *Broker {
		return mustParse(t, "listeners=EXTERNAL://:9093", "listener.security.protocol.map=EXTERNAL:SASL_PLAINTEXT", "inter.broker.listener.name=EXTERNAL",
			"sasl.mechanism.inter.broker.protocol=PLAIN", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256", "java.security.auth.login.config="+file,
			"listener.name.external.scram-sha-256.sasl.jaas.config="+jaas.ScramModule+" required user=own;")
	}
	b := parsed()
	write("KafkaServer { " + scramLogin + "\n" + plainLogin + " };")
	got, err := b.ListenerSASL(b.Listeners[0])
	if err != nil || got.Mechanisms[0].UserPasswords()["alice"] != "pw" || got.Mechanisms[1].Options["user"] != "own" {
		t.Error(got, err)
	}
	write("KafkaServer { " + plainLogin + " }; external.KafkaServer { " + jaas.PlainModule + " required user_bob=x; };")
	if again, err := b.ListenerSASL(b.Listeners[0]); err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("the file is read again: %v, %v", again, err)
	}
	b = parsed()
	if got, err = b.ListenerSASL(b.Listeners[0]); err != nil || got.Mechanisms[0].UserPasswords()["bob"] != "x" || len(got.Mechanisms[0].Options) != 1 {
		t.Error(got, err)
	}
	for _, text := range []string{"", "KafkaServer { };", "KafkaServer { " + scramLogin + " };", "KafkaServer {"} {
		write(text)
		b := parsed()
		if _, err := b.ListenerSASL(b.Listeners[0]); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLoginConfigurationWithoutMechanismHasNoEffect(t *testing.T) {
	b := mustParse(t, "sasl.jaas.config="+plainLogin, "listener.name.plaintext.sasl.jaas.config="+plainLogin, "listener.name.plaintext.plain.sasl.jaas.config="+plainLogin)
	if diff := cmp.Diff([]string{"listener.name.plaintext.sasl.jaas.config", "sasl.jaas.config"}, b.NotHonoured()); diff != "" {
		t.Error(diff)
	}
}

func TestUnsecuredTokenOptions(t *testing.T) {
	m := SASLMechanism{Name: "OAUTHBEARER", Options: map[string]string{}}
	got, err := m.TokenRules()
	if diff := cmp.Diff(TokenRules{PrincipalClaim: "sub", ScopeClaim: "scope", RequiredScope: []string{}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	m.Options = map[string]string{"unsecuredValidatorPrincipalClaimName": "who", "unsecuredValidatorScopeClaimName": "for",
		"unsecuredValidatorRequiredScope": "a  b", "unsecuredValidatorAllowableClockSkewMs": "3000"}
	got, err = m.TokenRules()
	if diff := cmp.Diff(TokenRules{PrincipalClaim: "who", ScopeClaim: "for", RequiredScope: []string{"a", "b"}, ClockSkew: 3 * time.Second}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}

	const login = jaas.OAuthModule + ` required unsecuredLoginStringClaim_sub="admin" unsecuredLoginListClaim_scope=",a,b" unsecuredLoginNumberClaim_n="5" unsecuredLoginLifetimeSeconds="60";`
	b := mustParse(t, saslSettings("sasl.enabled.mechanisms=OAUTHBEARER", "sasl.mechanism.inter.broker.protocol=OAUTHBEARER",
		"listener.name.external.oauthbearer.sasl.jaas.config="+login)...)
	if err := b.checkSecurity(); err != nil {
		t.Fatal(err)
	}
	between, err := b.BrokersSASL(b.Listeners[0])
	want := SASLLogin{Mechanism: "OAUTHBEARER", Claims: map[string]any{"sub": "admin", "scope": []string{"a", "b"}, "n": 5.0}, ClaimsLifetime: time.Minute}
	if diff := cmp.Diff(want, between); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range []string{"", "unsecuredLoginStringClaim_x=y", "unsecuredLoginStringClaim_sub=y unsecuredLoginNumberClaim_n=x", "unsecuredLoginStringClaim_sub=y unsecuredLoginLifetimeSeconds=0"} {
		b := mustParse(t, saslSettings("sasl.enabled.mechanisms=OAUTHBEARER", "sasl.mechanism.inter.broker.protocol=OAUTHBEARER",
			"listener.name.external.oauthbearer.sasl.jaas.config="+jaas.OAuthModule+" required "+bad+";")...)
		if err := b.checkSecurity(); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
