package tools

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testcert"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// stores were made with keytool: a key for localhost and 127.0.0.1, and the certificate of its authority.
const stores = "../network/keystore/testdata/"

// commandConfig writes a client's settings to a file.
func commandConfig(t *testing.T, settings map[string]string) string {
	t.Helper()
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		text.WriteString(key + "=" + settings[key] + "\n")
	}
	file := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestToolsOverTLS: tools open Java's stores, write and read over TLS, and say which setting to check if they cannot.
func TestToolsOverTLS(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t,
		kafkatest.Setting("listeners", "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"),
		kafkatest.Setting("ssl.keystore.location", stores+"server.jks"), kafkatest.Setting("ssl.keystore.password", "secret"),
		kafkatest.Setting("ssl.truststore.location", stores+"trust.jks"), kafkatest.Setting("ssl.client.auth", "required"))
	broker := []string{"--bootstrap-server", c.Broker(0).Listener("SSL")}
	tool := func(stdin, name, option string, settings map[string]string, args ...string) output {
		t.Helper()
		return runTool(t, t.Context(), stdin, name, append(append(args, broker...), option, commandConfig(t, settings))...)
	}
	settings := map[string]string{"security.protocol": "SSL",
		"ssl.truststore.location": stores + "trust.p12", "ssl.truststore.password": "secret",
		"ssl.keystore.location": stores + "openssl.p12", "ssl.keystore.password": "secret", "ssl.keystore.type": "PKCS12"}
	if out := tool("", "kafka-topics", "--command-config", settings, "--create", "--topic", "t"); out.code != 0 {
		t.Fatal(out.stderr)
	}
	if out := tool("one\ntwo\n", "kafka-console-producer", "--producer.config", settings, "--topic", "t"); out.code != 0 {
		t.Fatal(out.stderr)
	}
	out := tool("", "kafka-console-consumer", "--consumer.config", settings, "--topic", "t", "--from-beginning", "--max-messages", "2")
	if out.stdout != "one\ntwo\n" {
		t.Errorf("read %q, %s", out.stdout, out.stderr)
	}
	if out := tool("", "kafka-doctor", "--command-config", settings, "listeners"); out.code != 0 || !strings.Contains(out.stdout, "the certificate is valid until") {
		t.Errorf("kafka-doctor listeners: exit code %d, %q, %q", out.code, out.stdout, out.stderr)
	}

	changed := func(key, value string) map[string]string {
		m := maps.Clone(settings)
		m[key] = value
		return m
	}
	stranger := filepath.Join(t.TempDir(), "trust.pem")
	testcert.Write(t, stranger, testcert.NewAuthority(t, "another").PEM())
	strangers := changed("ssl.truststore.location", stranger)
	strangers["ssl.truststore.type"] = "PEM"
	delete(strangers, "ssl.truststore.password")
	strangers["default.api.timeout.ms"], strangers["request.timeout.ms"] = "2000", "1000"
	for _, row := range []struct {
		settings map[string]string
		want     string
	}{
		{changed("ssl.keystore.password", "wrong!"), "the password is wrong"},
		{changed("ssl.truststore.location", "/nowhere"), "ssl.truststore.location=/nowhere"},
		{strangers, "ssl.truststore.*"},
	} {
		out := tool("", "kafka-topics", "--command-config", row.settings, "--list")
		if out.code == 0 || !strings.Contains(out.stderr+out.stdout, row.want) {
			t.Errorf("exit code %d, want %q in\n%s%s", out.code, row.want, out.stdout, out.stderr)
		}
	}
}

// TestToolsSpeakTLSToZooKeeper: tools connect to ZooKeeper over TLS with the settings of a file.
func TestToolsSpeakTLSToZooKeeper(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	ca := testcert.NewAuthority(t, "ca")
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{ca.Issue("zk", "127.0.0.1").TLS()}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go passOn(l, c.ZooKeeper())
	authority := filepath.Join(t.TempDir(), "ca.pem")
	testcert.Write(t, authority, ca.PEM())
	file := commandConfig(t, map[string]string{"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": authority,
		"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty"})
	for _, line := range [][]string{
		{"zookeeper-shell", l.Addr().String(), "-zk-tls-config-file", file, "ls", "/brokers/ids"},
		{"kafka-configs", "--zookeeper", l.Addr().String(), "--zk-tls-config-file", file, "--describe", "--entity-type", "users"},
		{"kafka-acls", "--authorizer-properties", "zookeeper.connect=" + l.Addr().String(), "--zk-tls-config-file", file, "--list"},
	} {
		if out := runTool(t, t.Context(), "", line[0], line[1:]...); out.code != 0 {
			t.Errorf("%v: exit code %d: %s%s", line, out.code, out.stdout, out.stderr)
		}
	}
	doctor := []string{"zookeeper", "--bootstrap-server", c.Broker(0).Addr(), "--zookeeper", l.Addr().String(), "--command-config", file}
	if out := runTool(t, t.Context(), "", "kafka-doctor", doctor...); out.code > 1 || strings.Contains(out.stderr, "without effect") {
		t.Errorf("kafka-doctor: exit code %d: %s%s", out.code, out.stdout, out.stderr)
	}
	wrong := commandConfig(t, map[string]string{"zookeeper.ssl.truststore.location": "/nowhere.jks"})
	if out := runTool(t, t.Context(), "", "zookeeper-shell", l.Addr().String(), "-zk-tls-config-file", wrong, "ls", "/"); out.code == 0 ||
		!strings.Contains(out.stderr, "zookeeper.ssl.truststore.location=/nowhere.jks") {
		t.Errorf("exit code %d: %s", out.code, out.stderr)
	}
}

// TestTLSToZooKeeperBySystemProperties: system properties apply as well, below the settings of a file.
func TestTLSToZooKeeperBySystemProperties(t *testing.T) {
	env := &Env{Properties: map[string]string{"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": stores + "trust.jks",
		"zookeeper.ssl.truststore.password": "secret"}}
	plain := commandConfig(t, map[string]string{"zookeeper.ssl.client.enable": "false"})
	wrong := commandConfig(t, map[string]string{"zookeeper.ssl.truststore.location": "/nowhere.jks"})
	for _, row := range []struct {
		env       *Env
		file      string
		encrypted bool
		refused   string
	}{{env: env, encrypted: true}, {env: env, file: plain}, {env: env, file: wrong, refused: "/nowhere.jks"}, {env: &Env{}}} {
		access, err := zooKeeperAccess(row.env, row.file)
		if (access.encryption != nil) != row.encrypted || (err != nil) != (row.refused != "") || err != nil && !strings.Contains(err.Error(), row.refused) {
			t.Errorf("%+v: encrypted %v, %v", row, access.encryption != nil, err)
		}
	}
}

// passOn forwards connections to a server.
func passOn(l net.Listener, server string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := net.Dial("tcp", server)
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			}()
			_, _ = io.Copy(from, to)
		}()
	}
}

// TestDoctorLooksAtTLS: what a client would find at an advertised address.
func TestDoctorLooksAtTLS(t *testing.T) {
	t.Parallel()
	ends := time.UnixMilli(1_790_000_000_000)
	for before, want := range map[time.Duration]string{365 * 24 * time.Hour: "ok     ", 24 * time.Hour: "WARNING", -time.Hour: "TROUBLE"} {
		d := &doctor{now: ends.Add(-before)}
		if d.certificate("broker 0", &x509.Certificate{NotAfter: ends}); d.diagnosis.Findings[0].mark() != want {
			t.Errorf("%v before its end: %+v", before, d.diagnosis.Findings)
		}
	}
	d := &doctor{now: ends}
	d.encrypted(t.Context(), "broker 0", "h:1", func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("another name") })
	if said := fmt.Sprint(d.diagnosis.Findings); !d.diagnosis.Trouble || !strings.Contains(said, "the TLS handshake fails: another name") {
		t.Error(said)
	}
}

// TestDoctorOnPortsOfOtherProtocols: each kind of client with each kind of listener.
func TestDoctorOnPortsOfOtherProtocols(t *testing.T) {
	t.Parallel()
	const module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
	protocols := []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}
	b := kafkatest.Run(t, kafkatest.Setting("listeners", strings.Join(protocols, "://127.0.0.1:0,")+"://127.0.0.1:0"),
		kafkatest.Setting("ssl.keystore.location", stores+"server.jks"), kafkatest.Setting("ssl.keystore.password", "secret"),
		kafkatest.Setting("sasl.enabled.mechanisms", "PLAIN"),
		kafkatest.Setting("listener.name.sasl_plaintext.plain.sasl.jaas.config", module+` user_alice="pw";`),
		kafkatest.Setting("listener.name.sasl_ssl.plain.sasl.jaas.config", module+` user_alice="pw";`)).Broker(0)
	const noTLS, noPlaintext = "speaks TLS, and this client does not", "speaks plaintext, and this client uses TLS"
	const noLogin, noLogins = "requires a login with PLAIN, and this client has none", "accepts no logins"
	for _, row := range []struct {
		client string
		says   [4]string // for each of protocols
		want   string    // the advice for the first that expects another protocol
	}{
		{"PLAINTEXT", [4]string{"", noTLS, noLogin, noTLS}, "security.protocol=SSL"},
		{"SSL", [4]string{noPlaintext, "", noPlaintext, noLogin}, "security.protocol=PLAINTEXT"},
		{"SASL_PLAINTEXT", [4]string{noLogins, noTLS, "", noTLS}, "security.protocol=PLAINTEXT"},
		{"SASL_SSL", [4]string{noPlaintext, noLogins, noPlaintext, ""}, "security.protocol=PLAINTEXT"},
	} {
		file := commandConfig(t, map[string]string{"security.protocol": row.client, "sasl.mechanism": "PLAIN",
			"sasl.jaas.config":        module + ` username="alice" password="pw";`,
			"ssl.truststore.location": stores + "trust.p12", "ssl.truststore.password": "secret", "ssl.truststore.type": "PKCS12"})
		for i, port := range protocols {
			out := runTool(t, t.Context(), "", "kafka-doctor", "listeners", "--bootstrap-server", b.Listener(port), "--command-config", file)
			code := 0
			if row.says[i] != "" {
				code = 1
			}
			if out.code != code || !strings.Contains(out.stdout, row.says[i]) || i == 0 && code == 1 && !strings.Contains(out.stdout, row.want) {
				t.Errorf("%s at %s: exit code %d, want %d, %q in %q %q", row.client, port, out.code, code, row.says[i], out.stdout, out.stderr)
			}
		}
	}
	other := commandConfig(t, map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256",
		"sasl.jaas.config": `org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="pw";`})
	out := runTool(t, t.Context(), "", "kafka-doctor", "listeners", "--bootstrap-server", b.Listener("SASL_PLAINTEXT"), "--command-config", other)
	if out.code != 1 || !strings.Contains(out.stdout, "accepts logins with PLAIN, and this client uses SCRAM-SHA-256") {
		t.Errorf("another mechanism: exit code %d, %q %q", out.code, out.stdout, out.stderr)
	}
}

// TestHandshakeWithStrangers: servers other than brokers may answer anything.
func TestHandshakeWithStrangers(t *testing.T) {
	t.Parallel()
	const alert = "\x15\x03\x03\x00\x02\x02\x46"
	for _, answer := range []string{alert, "", "HTTP/1.1 400 Bad Request\r\n\r\n", "\x00\x00\x00\x03\x00\x00\x00",
		"\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x7f\xff"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1024))
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		}()
		heard, err := probeListener(t.Context(), l.Addr().String(), securityProtocol{}, &tls.Config{InsecureSkipVerify: true})
		if heard.encrypted != (answer == alert) || (heard.otherServer != "") != strings.HasPrefix(answer, "HTTP") || (err == nil) != (heard.encrypted || heard.otherServer != "") {
			t.Errorf("%q: %+v, %v", answer, heard, err)
		}
	}
}

// FuzzHandshake: no answer causes a panic or large allocations.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x11\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x05PLAIN"))
	f.Add([]byte("\x15\x03\x03\x00\x02\x02\x46"))
	f.Fuzz(func(_ *testing.T, answer []byte) {
		_, _ = handshake(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(answer), io.Discard}, kmsg.NewPtrSASLHandshakeRequest())
	})
}
