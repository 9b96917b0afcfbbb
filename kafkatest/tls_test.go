package kafkatest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testcert"
	"barnabas/internal/testwait"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// encrypted adds a TLS listener, which the brokers use among themselves, to the PLAINTEXT one.
func encrypted(protocol string, brokers int, perBroker func(id int) map[string]string) []kafkatest.Option {
	return []kafkatest.Option{
		kafkatest.Brokers(brokers),
		kafkatest.Setting("listeners", "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0"),
		kafkatest.Setting("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SECURE:"+protocol+",EXTRA:SSL"),
		kafkatest.Setting("inter.broker.listener.name", "SECURE"),
		kafkatest.Setting("password.encoder.secret", "secret"),
		kafkatest.PerBroker(perBroker),
	}
}

// certified gives each broker a certificate of its own and makes it require client certificates.
func certified(ca *testcert.Authority) func(id int) map[string]string {
	return func(id int) map[string]string {
		settings := ca.Issue("broker-"+strconv.Itoa(id), "127.0.0.1").Files(ca)
		settings["ssl.client.auth"] = "required"
		return settings
	}
}

func clientOver(t *testing.T, c *tls.Config, addr string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.DialTLSConfig(c), kgo.RetryTimeout(20 * time.Second)}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// TestBrokersSpeakTLS: brokers replicate over TLS with certificates on both sides; a topic that needs all three
// replicas in sync is written and read.
func TestBrokersSpeakTLS(t *testing.T) {
	t.Parallel()
	ca := testcert.NewAuthority(t, "ca")
	c := kafkatest.Run(t, encrypted("SSL", 3, certified(ca))...)
	cl := clientOver(t, &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Issue("me").TLS()}}, c.Broker(0).Listener("SECURE"),
		kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 3, 3, map[string]*string{"min.insync.replicas": kadm.StringPtr("3")}, "t"); err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("0123456789", 10_000)
	const records = 60
	for i := range records {
		if err := cl.ProduceSync(ctx, &kgo.Record{Partition: int32(i % 3), Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for got := 0; got < records; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got++
			if string(r.Value) != value {
				t.Fatal("a record has changed")
			}
		})
	}
}

// TestCertificateIsRequired: where a certificate is required, a client without one, or with one of an unknown
// authority, is not served.
func TestCertificateIsRequired(t *testing.T) {
	t.Parallel()
	ca := testcert.NewAuthority(t, "ca")
	c := kafkatest.Run(t, encrypted("SSL", 1, certified(ca))...)
	for name, certs := range map[string][]tls.Certificate{"none": nil, "a stranger's": {testcert.NewAuthority(t, "another").Issue("me").TLS()}} {
		conn, err := tls.Dial("tcp", c.Broker(0).Listener("SECURE"), &tls.Config{RootCAs: ca.Pool(), Certificates: certs})
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // with TLS 1.3 the server checks the certificate after the client has finished its handshake
			_ = conn.Close()
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPrincipalOfACertificate: quotas apply to the principal that the rules derive from a certificate's name.
func TestPrincipalOfACertificate(t *testing.T) {
	t.Parallel()
	ca := testcert.NewAuthority(t, "ca")
	c := kafkatest.Run(t, append(encrypted("SSL", 1, certified(ca)),
		kafkatest.Setting("ssl.principal.mapping.rules", "RULE:^CN=([^,]*),O=Barnabas$/$1/U,DEFAULT"))...)
	adm := kadm.NewClient(client(t, c))
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: kadm.StringPtr("ALICE")}}, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1000}},
	}}); err != nil {
		t.Fatal(err)
	}
	throttled := func(user string) bool {
		cl := clientOver(t, &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Issue(user).TLS()}}, c.Broker(0).Listener("SECURE"))
		for range 5 {
			resp, err := kmsgProduce("t", 2000).RequestWith(t.Context(), cl)
			if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Fatal(resp, err)
			}
			if resp.ThrottleMillis > 0 {
				return true
			}
		}
		return false
	}
	testwait.Until(t, "the quota of ALICE", func() bool { return throttled("alice") })
	if throttled("bob") {
		t.Error("bob has alice's quota")
	}
}

// alter changes settings of broker 0 and returns the error of the response.
func alter(t *testing.T, cl *kgo.Client, validateOnly bool, settings map[string]string) error {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validateOnly
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "0"
	for key, value := range settings {
		set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		set.Name, set.Value = key, &value
		r.Configs = append(r.Configs, set)
	}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	out := resp.Resources[0]
	if err := kerr.ErrorForCode(out.ErrorCode); err != nil {
		text := ""
		if out.ErrorMessage != nil {
			text = *out.ErrorMessage
		}
		return errors.Join(err, errors.New(text))
	}
	return nil
}

// shown returns the serial number of the certificate that a listener presents.
func shown(t *testing.T, addr string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// later sets a file's modification time ahead, since the clocks of some file systems are coarse.
func later(t *testing.T, file string) {
	t.Helper()
	at := time.Now().Add(time.Hour)
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}

// TestStoresChangeWhileItRuns: a keystore is replaced under the same name and under another one; a replacement that
// does not match the rest of the settings is refused (SslFactory, DynamicBrokerConfig, 3.9), and the previous store
// remains in use.
func TestStoresChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	ca, another := testcert.NewAuthority(t, "ca"), testcert.NewAuthority(t, "another")
	first := ca.Issue("broker-0", "127.0.0.1")
	settings := first.Files(ca)
	c := kafkatest.Run(t, encrypted("SSL", 1, func(int) map[string]string {
		own := make(map[string]string)
		for key, value := range settings {
			own["listener.name.secure."+key] = value
		}
		return own
	})...)
	cl, addr := client(t, c), c.Broker(0).Listener("SECURE")
	const location = "listener.name.secure.ssl.keystore.location"
	file := settings["ssl.keystore.location"]
	serial := func(i *testcert.Identity) string { return i.Certificate().SerialNumber.String() }
	store := func(i *testcert.Identity) string { return i.KeyPEM() + i.ChainPEM() }
	if got := shown(t, addr); got != serial(first) {
		t.Fatalf("the listener begins with another certificate")
	}

	second := ca.Issue("broker-0", "127.0.0.1")
	testcert.Write(t, file, store(second))
	later(t, file)
	if err := alter(t, cl, true, map[string]string{location: file}); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, addr); got != serial(first) {
		t.Error("a request that only validates has reopened the store")
	}
	if err := alter(t, cl, false, map[string]string{location: file}); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, addr); got != serial(second) {
		t.Error("new content under the same name was not reopened")
	}

	elsewhere := filepath.Join(t.TempDir(), "new.pem")
	put := func(i *testcert.Identity) { testcert.Write(t, elsewhere, store(i)) }
	for _, row := range []struct {
		name string
		make func()
		want string
	}{
		{"a store that is not there", func() {}, "no such file"},
		{"another name", func() { put(ca.Issue("broker-1", "127.0.0.1")) }, "ssl.allow.dn.changes"},
		{"fewer alternative names", func() { put(ca.Issue("broker-0")) }, "ssl.allow.san.changes"},
		{"another authority", func() { put(another.Issue("broker-0", "127.0.0.1")) }, "refuse each other"},
		{"no key", func() { testcert.Write(t, elsewhere, ca.PEM()) }, "PRIVATE KEY"},
	} {
		row.make()
		err := alter(t, cl, false, map[string]string{location: elsewhere})
		if !errors.Is(err, kerr.InvalidRequest) || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), location) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	const trusted = "listener.name.secure.ssl.truststore.location"
	testcert.Write(t, elsewhere, another.PEM())
	if err := alter(t, cl, false, map[string]string{trusted: elsewhere}); !errors.Is(err, kerr.InvalidRequest) || !strings.Contains(err.Error(), trusted) {
		t.Errorf("a truststore with another authority: %v", err)
	}
	third := ca.Issue("broker-0", "127.0.0.1", "more.example.com")
	put(third)
	if err := alter(t, cl, false, map[string]string{location: elsewhere}); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the store of another name", func() bool { return shown(t, addr) == serial(third) })

	testcert.Write(t, elsewhere, "nothing")
	later(t, elsewhere)
	if err := alter(t, cl, false, map[string]string{location: elsewhere}); !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("a corrupted store under the same name: %v", err)
	}
	if got := shown(t, addr); got != serial(third) {
		t.Error("a refused store is used")
	}
}

// TestListenerWithTLSIsAdded: a TLS listener with settings of its own is added while the broker runs.
func TestListenerWithTLSIsAdded(t *testing.T) {
	t.Parallel()
	ca := testcert.NewAuthority(t, "ca")
	c := kafkatest.Run(t, encrypted("SSL", 1, certified(ca))...)
	cl := client(t, c)
	b := c.Broker(0)
	const listeners = "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0,EXTRA://127.0.0.1:0"
	extra := ca.Issue("extra", "127.0.0.1")
	settings := map[string]string{"listeners": listeners, "listener.name.extra.ssl.keystore.type": "PEM",
		"listener.name.extra.ssl.keystore.location": "/nowhere"}
	if err := alter(t, cl, false, settings); !errors.Is(err, kerr.InvalidRequest) || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("a listener without a store: %v", err)
	}
	for key, value := range extra.Files(ca) {
		settings["listener.name.extra."+key] = value
	}
	maps.Copy(settings, map[string]string{"listener.name.extra.ssl.client.auth": "none"})
	if err := alter(t, cl, false, settings); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the listener", func() bool { return b.Listener("EXTRA") != "" })
	if got := shown(t, b.Listener("EXTRA")); got != extra.Certificate().SerialNumber.String() {
		t.Error("the new listener presents another certificate")
	}
	over := clientOver(t, &tls.Config{RootCAs: ca.Pool()}, b.Listener("EXTRA"))
	if err := ping(t, over); err != nil {
		t.Error(err)
	}
}

// TestPasswordsOverTLS: on a SASL_SSL listener the login determines the principal, and client certificates are
// requested only if the listener's own setting says so; brokers replicate over it.
func TestPasswordsOverTLS(t *testing.T) {
	t.Parallel()
	ca := testcert.NewAuthority(t, "ca")
	who := map[string]string{"alice": "pw", "admin": "between"}
	options := append(encrypted("SASL_SSL", 2, certified(ca)),
		kafkatest.Setting("sasl.enabled.mechanisms", "PLAIN"), kafkatest.Setting("sasl.mechanism.inter.broker.protocol", "PLAIN"),
		kafkatest.Setting("listener.name.secure.plain.sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required "+
			`username="admin" password="between" user_admin="between" user_alice="pw";`))
	c := kafkatest.Run(t, options...)
	login := func(user, password string, more ...tls.Certificate) error {
		cl := clientOver(t, &tls.Config{RootCAs: ca.Pool(), Certificates: more}, c.Broker(0).Listener("SECURE"),
			kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
		return ping(t, cl)
	}
	for user, password := range who {
		if err := login(user, password); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	if err := login("alice", "wrong", ca.Issue("alice").TLS()); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a certificate replaces a password: %v", err)
	}
	cl := client(t, c)
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 2, 2, map[string]*string{"min.insync.replicas": kadm.StringPtr("2")}, "t"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}
