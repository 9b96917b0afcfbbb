package tools

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"barnabas/config"
	"barnabas/kafkatest"
)

// TestToolsAtPortsOfOtherProtocols: each kind of tool ends soon, with one line that says what is wrong, at ports that
// expect another protocol or where no broker listens.
func TestToolsAtPortsOfOtherProtocols(t *testing.T) {
	t.Parallel()
	const module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
	const bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
	const scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
	c := kafkatest.Run(t, kafkatest.Setting("listeners", "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,TOKENS://127.0.0.1:0"),
		kafkatest.Setting("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,TOKENS:SASL_PLAINTEXT"),
		kafkatest.Setting("listener.name.tokens.sasl.enabled.mechanisms", "OAUTHBEARER"),
		kafkatest.Setting("listener.name.tokens.oauthbearer.sasl.jaas.config", bearer+` unsecuredLoginStringClaim_sub="broker";`),
		kafkatest.Setting("ssl.keystore.location", stores+"server.jks"), kafkatest.Setting("ssl.keystore.password", "secret"),
		kafkatest.Setting("sasl.enabled.mechanisms", "PLAIN"),
		kafkatest.Setting("listener.name.sasl_plaintext.plain.sasl.jaas.config", module+` user_alice="pw";`))
	b := c.Broker(0)
	pages := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	var web [3]*httptest.Server // without TLS, and twice with it
	for i := range web {
		web[i] = httptest.NewUnstartedServer(pages)
		if i < 2 {
			web[i].Config.ReadHeaderTimeout = 100 * time.Millisecond // other servers wait longer for the end of what they take for a line
		}
		web[i].Config.ErrorLog = log.New(io.Discard, "", 0)
		t.Cleanup(web[i].Close)
	}
	web[0].Start()
	web[1].StartTLS()
	web[2].StartTLS() // also waits longer for the end of a handshake
	http, https, strange := web[0].Listener.Addr().String(), web[1].Listener.Addr().String(), web[2].Listener.Addr().String()

	plain := map[string]string{}
	secured := map[string]string{"security.protocol": "SSL", "ssl.truststore.location": stores + "trust.p12", "ssl.truststore.password": "secret",
		"ssl.truststore.type": "PKCS12"}
	login := func(mechanism, with string) map[string]string {
		return map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": with}
	}
	alice := login("PLAIN", module+` username="alice" password="pw";`)
	nobodys := login("OAUTHBEARER", bearer+` clientId="alice" clientSecret="guess";`)
	nobodys["sasl.login.callback.handler.class"] = config.TokenHandlers()[0]
	nobodys["sasl.oauthbearer.token.endpoint.url"] = web[0].URL
	for _, port := range []struct {
		name, addr string
		settings   map[string]string
		says       string
	}{
		{"TLS by plaintext", b.Listener("SSL"), plain, "speaks TLS, and this client does not"},
		{"TLS by a login in plaintext", b.Listener("SSL"), alice, "speaks TLS, and this client does not"},
		{"plaintext by TLS", b.Listener("PLAINTEXT"), secured, "speaks plaintext, and this client uses TLS"},
		{"a login by none", b.Listener("SASL_PLAINTEXT"), plain, "requires a login with PLAIN, and this client has none"},
		{"none by a login", b.Listener("PLAINTEXT"), alice, "accepts no logins, and this client wants to log in"},
		{"another mechanism", b.Listener("SASL_PLAINTEXT"), login("SCRAM-SHA-256", scram+` username="alice" password="pw";`), "accepts logins with PLAIN, and this client uses SCRAM-SHA-256"},
		{"another password", b.Listener("SASL_PLAINTEXT"), login("PLAIN", module+` username="alice" password="guess";`), "SaslAuthenticationException"},
		{"a token that nobody gives", b.Listener("TOKENS"), nobodys, "get a token from " + web[0].URL},
		{"HTTP", http, plain, "speaks HTTP"},
		{"HTTP by TLS", http, secured, "speaks HTTP"},
		{"HTTPS", https, plain, "speaks HTTP"},
		{"ZooKeeper", c.ZooKeeper(), plain, "speaks ZooKeeper's protocol"},
		{"ZooKeeper by TLS", c.ZooKeeper(), secured, "speaks ZooKeeper's protocol"},
		{"a certificate of others", strange, secured, "ssl.truststore"},
	} {
		file := commandConfig(t, port.settings)
		for _, line := range []string{
			"kafka-topics --command-config FILE --list",
			"kafka-consumer-groups --command-config FILE --list",
			"kafka-console-producer --producer.config FILE --topic t",
			"kafka-console-consumer --consumer.config FILE --topic t",
			"kafka-console-consumer --consumer.config FILE --topic t --group g",
			"kafka-consumer-perf-test --consumer.config FILE --topic t --messages 1 --timeout 60000",
			"kafka-verifiable-consumer --consumer.config FILE --topic t --group-id g",
			"kafka-verifiable-producer --producer.config FILE --topic t --max-messages 1",
		} {
			t.Run(port.name+"/"+line, func(t *testing.T) {
				t.Parallel()
				words := append(strings.Fields(strings.Replace(line, "FILE", file, 1)), "--bootstrap-server", port.addr)
				ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
				defer cancel()
				out := runTool(t, ctx, "x\n", words[0], words[1:]...)
				if ctx.Err() != nil || strings.Count(out.stderr, port.says) > 1 || strings.Contains(out.stderr, "WARN") || !strings.Contains(out.stderr+out.stdout, port.says) {
					t.Errorf("exit code %d, %v, %q %q", out.code, ctx.Err(), out.stderr, out.stdout)
				}
			})
		}
	}
}

// TestOneOfTwoAddressesIsAnother: a client continues with the address that it can talk to.
func TestOneOfTwoAddressesIsAnother(t *testing.T) {
	t.Parallel()
	b := kafkatest.Run(t, kafkatest.Setting("listeners", "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"),
		kafkatest.Setting("ssl.keystore.location", stores+"server.jks"), kafkatest.Setting("ssl.keystore.password", "secret")).Broker(0)
	for _, line := range []string{"kafka-topics --create --topic t", "kafka-console-producer --topic t", "kafka-console-consumer --topic t --from-beginning --max-messages 1"} {
		for _, addrs := range []string{b.Listener("SSL") + "," + b.Addr(), b.Addr() + "," + b.Listener("SSL")} {
			words := append(strings.Fields(line), "--bootstrap-server", addrs)
			if out := runTool(t, t.Context(), "x\n", words[0], words[1:]...); out.code != 0 && !strings.Contains(out.stderr, "TopicExistsException") {
				t.Errorf("%s: exit code %d, %q", words, out.code, out.stderr)
			}
		}
	}
}
