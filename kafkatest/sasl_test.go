package kafkatest_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"barnabas/internal/testwait"
	"barnabas/kafkatest"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// secured adds a SASL listener SECURE, for clients and brokers, to the PLAINTEXT one.
func secured(more ...kafkatest.Option) []kafkatest.Option {
	settings := map[string]string{
		"listeners":                            "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
		"listener.security.protocol.map":       "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
		"inter.broker.listener.name":           "SECURE",
		"sasl.mechanism.inter.broker.protocol": "PLAIN",
		"sasl.enabled.mechanisms":              "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.secure.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required " +
			`username="admin" password="between" user_admin="between" user_alice="pw";`,
		"listener.name.secure.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.secure.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
	}
	var options []kafkatest.Option
	for key, value := range settings {
		options = append(options, kafkatest.Setting(key, value))
	}
	return append(options, more...)
}

func clientWith(t *testing.T, b *kafkatest.Broker, m sasl.Mechanism, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Listener("SECURE")), kgo.SASL(m), kgo.RetryTimeout(20 * time.Second)}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// ping sends a request and returns its error.
func ping(t *testing.T, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return cl.Ping(ctx)
}

// TestBrokersLogInAtEachOther: all communication between brokers, including replication, uses connections that have
// logged in.
func TestBrokersLogInAtEachOther(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, secured(kafkatest.Brokers(3), kafkatest.Setting("connections.max.reauth.ms", "1500"))...)
	cl := clientWith(t, c.Broker(0), plain.Auth{User: "alice", Pass: "pw"}.AsMechanism())
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 3, 3, map[string]*string{"min.insync.replicas": kadm.StringPtr("3")}, "t"); err != nil {
		t.Fatal(err)
	}
	produceFor := func(d time.Duration) {
		for began := time.Now(); time.Since(began) < d; {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	produceFor(2 * time.Second) // meanwhile sessions of brokers and of the client expire
}

// TestControllerLogsInAtItsOwnListener: the listener of control.plane.listener.name has another login than the
// inter-broker listener.
func TestControllerLogsInAtItsOwnListener(t *testing.T) {
	t.Parallel()
	login := func(name string) string {
		return fmt.Sprintf(`org.apache.kafka.common.security.plain.PlainLoginModule required username="%[1]s" password="p" user_%[1]s="p";`, name)
	}
	c := kafkatest.Run(t, secured(kafkatest.Brokers(2), kafkatest.Setting("listeners", "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0,CONTROL://127.0.0.1:0"),
		kafkatest.Setting("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT,CONTROL:SASL_PLAINTEXT"),
		kafkatest.Setting("control.plane.listener.name", "CONTROL"), kafkatest.Setting("listener.name.control.sasl.enabled.mechanisms", "PLAIN"),
		kafkatest.Setting("listener.name.control.plain.sasl.jaas.config", login("controller")))...)
	adm := kadm.NewClient(client(t, c))
	if created, err := adm.CreateTopic(t.Context(), 4, 2, nil, "t"); err != nil || created.Err != nil {
		t.Fatal(err, created)
	}
	testwait.Until(t, "both replicas in sync", func() bool {
		topics, err := adm.ListTopics(t.Context(), "t")
		return err == nil && len(topics["t"].Partitions) == 4 && len(topics["t"].Partitions[3].ISR) == 2
	})
}

// TestOneUserHasSeveralMechanisms: credentials for several mechanisms are created and changed while the broker runs.
func TestOneUserHasSeveralMechanisms(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, secured()...)
	b := c.Broker(0)
	adm := kadm.NewClient(client(t, c))
	set := func(m kadm.ScramMechanism, user, password string) {
		t.Helper()
		done, err := adm.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: m, Iterations: 4096, Password: password}})
		if err != nil || done.Error() != nil {
			t.Fatal(err, done)
		}
	}
	const user = "a=b,c" // characters that SCRAM messages have to escape
	logins := map[string]func(password string) sasl.Mechanism{
		"SCRAM-SHA-256": func(p string) sasl.Mechanism { return scram.Auth{User: user, Pass: p}.AsSha256Mechanism() },
		"SCRAM-SHA-512": func(p string) sasl.Mechanism { return scram.Auth{User: user, Pass: p}.AsSha512Mechanism() },
	}
	works := func(mechanism, password string) func() bool {
		return func() bool { return ping(t, clientWith(t, b, logins[mechanism](password))) == nil }
	}
	set(kadm.ScramSha256, user, "one")
	set(kadm.ScramSha512, user, "two")
	testwait.Until(t, "SCRAM-SHA-256", works("SCRAM-SHA-256", "one"))
	testwait.Until(t, "SCRAM-SHA-512", works("SCRAM-SHA-512", "two"))
	if err := ping(t, clientWith(t, b, logins["SCRAM-SHA-256"]("two"))); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("the other mechanism's password: %v", err)
	}
	set(kadm.ScramSha256, user, "three")
	testwait.Until(t, "a changed password", works("SCRAM-SHA-256", "three"))
	if done, err := adm.AlterUserSCRAMs(t.Context(), []kadm.DeleteSCRAM{{User: user, Mechanism: kadm.ScramSha256}}, nil); err != nil || done.Error() != nil {
		t.Fatal(err, done)
	}
	testwait.Until(t, "the end of a deleted one", func() bool { return !works("SCRAM-SHA-256", "three")() })
	if !works("SCRAM-SHA-512", "two")() {
		t.Error("the other mechanism was removed, too")
	}
}

// TestQuotaOfAUserWhoLoggedIn: a user's quota throttles the producer that has logged in as this user, and no other.
func TestQuotaOfAUserWhoLoggedIn(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, secured()...)
	adm := kadm.NewClient(client(t, c))
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: kadm.StringPtr("alice")}}, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1000}},
	}}); err != nil {
		t.Fatal(err)
	}
	throttle := func(user, password string) int32 {
		cl := clientWith(t, c.Broker(0), plain.Auth{User: user, Pass: password}.AsMechanism())
		var most int32
		for range 5 {
			resp, err := kmsgProduce("t", 2000).RequestWith(t.Context(), cl)
			if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Fatal(resp, err)
			}
			if most = max(most, resp.ThrottleMillis); most > 0 {
				break
			}
		}
		return most
	}
	testwait.Until(t, "the quota", func() bool { return throttle("alice", "pw") > 0 })
	if ms := throttle("admin", "between"); ms > 0 {
		t.Errorf("another user is throttled for %d ms", ms)
	}
}

func kmsgProduce(topic string, valueBytes int) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = 1, 10_000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	w := record.NewBuilder()
	w.Add(1_790_000_000_000, nil, make([]byte, valueBytes))
	p.Records = w.MustBuild()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// TestClientWithoutLogin: a client that does not log in is not served on a SASL listener.
func TestClientWithoutLogin(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, secured()...)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Broker(0).Listener("SECURE")), kgo.RetryTimeout(time.Second), kgo.RequestRetries(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := ping(t, cl); err == nil {
		t.Error("the request was answered")
	}
	for _, wrong := range []sasl.Mechanism{plain.Auth{User: "alice", Pass: "x"}.AsMechanism(), scram.Auth{User: "alice", Pass: "pw"}.AsSha256Mechanism()} {
		if err := ping(t, clientWith(t, c.Broker(0), wrong)); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("%s: %v", wrong.Name(), fmt.Sprint(err))
		}
	}
}

// TestPasswordsOfPlainChangeWhileTheBrokerRuns: changed passwords of PLAIN apply to new connections.
func TestPasswordsOfPlainChangeWhileTheBrokerRuns(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, secured(kafkatest.Setting("password.encoder.secret", "s"))...)
	adm := kadm.NewClient(client(t, c))
	carl := func() error {
		return ping(t, clientWith(t, c.Broker(0), plain.Auth{User: "carl", Pass: "new"}.AsMechanism()))
	}
	if err := carl(); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Fatal(err)
	}
	login := "org.apache.kafka.common.security.plain.PlainLoginModule required " + `username="admin" password="between" user_admin="between" user_carl="new";`
	changed, err := adm.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "listener.name.secure.plain.sasl.jaas.config", Value: &login}}, 0)
	if err != nil || changed[0].Err != nil {
		t.Fatal(err, changed)
	}
	testwait.Until(t, "the new user", func() bool { return carl() == nil })
	if err := ping(t, clientWith(t, c.Broker(0), plain.Auth{User: "alice", Pass: "pw"}.AsMechanism())); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a removed user: %v", err)
	}
	for _, broken := range []string{"x", "x required;"} {
		changed, err := adm.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "listener.name.secure.plain.sasl.jaas.config", Value: &broken}}, 0)
		if err != nil || changed[0].Err == nil {
			t.Errorf("%q is accepted: %v", broken, err)
		}
	}
}

// TestUnsecuredTokensOfOAuth: clients and brokers can log in with unsecured tokens for as long as the tokens are valid.
func TestUnsecuredTokensOfOAuth(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, secured(kafkatest.Brokers(2), kafkatest.Setting("sasl.enabled.mechanisms", "OAUTHBEARER"),
		kafkatest.Setting("sasl.mechanism.inter.broker.protocol", "OAUTHBEARER"),
		kafkatest.Setting("listener.name.secure.oauthbearer.sasl.jaas.config", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "+
			`unsecuredLoginStringClaim_sub="admin" unsecuredLoginLifetimeSeconds="2";`))...)
	login := func(claims string) *kgo.Client {
		encode := base64.RawURLEncoding.EncodeToString
		token := encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."
		return clientWith(t, c.Broker(0), oauth.Auth{Token: token}.AsMechanism())
	}
	ends := time.Now().Add(time.Hour).Unix()
	cl := login(fmt.Sprintf(`{"sub":"alice","exp":%d}`, ends))
	if created, err := kadm.NewClient(cl).CreateTopic(t.Context(), 2, 2, map[string]*string{"min.insync.replicas": kadm.StringPtr("2")}, "t"); err != nil || created.Err != nil {
		t.Fatal(err, created)
	}
	for began := time.Now(); time.Since(began) < 3*time.Second; { // the brokers' tokens expire meanwhile
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, claims := range []string{`{"sub":"alice"}`, `{"sub":"alice","exp":1}`, fmt.Sprintf(`{"exp":%d}`, ends)} {
		if err := ping(t, login(claims)); err == nil {
			t.Errorf("%s is accepted", claims)
		}
	}
}
