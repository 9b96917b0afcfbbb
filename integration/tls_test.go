package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testport"

	"github.com/Shopify/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// storeFile returns the path of a store that keytool and OpenSSL have made: a CA, and a key for localhost and 127.0.0.1
// with a certificate of that CA.
func storeFile(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "network", "keystore", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// tlsSettings returns the settings of a broker or client with stores of a type, PKCS12 or JKS.
func tlsSettings(t *testing.T, kind string) []string {
	ending := strings.TrimPrefix(strings.ToLower(kind), "pkcs")
	if ending != "jks" {
		ending = "p" + ending
	}
	return []string{"ssl.keystore.type=" + kind, "ssl.keystore.password=secret", "ssl.keystore.location=" + storeFile(t, "server."+ending),
		"ssl.truststore.type=" + kind, "ssl.truststore.password=secret", "ssl.truststore.location=" + storeFile(t, "trust."+ending)}
}

// encryptedBy adds a TLS listener SECURE to the PLAINTEXT one, and returns its address. Brokers use it, too; client
// certificates are required.
func encryptedBy(t *testing.T, clients int, kind string) (addr string, settings []string) {
	addr = testport.Address(t)
	return addr, append(tlsSettings(t, kind),
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,SECURE://%s", clients, addr), "ssl.client.auth=required",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SSL", "inter.broker.listener.name=SECURE")
}

// newEncrypted prepares our broker with the two listeners.
func newEncrypted(t *testing.T, id int, zk, kind string, more ...string) (p *process, addr string) {
	t.Helper()
	p = newProcess(t, id, zk, more...)
	addr, settings := encryptedBy(t, p.port, kind)
	file := filepath.Join(p.dir, "server.properties")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(text, "\n"+strings.Join(settings, "\n")...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, addr
}

// clientTLS returns a TLS configuration for Go clients with the same key.
func clientTLS(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(storeFile(t, "chain.pem"), storeFile(t, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{RootCAs: trusted(t), Certificates: []tls.Certificate{pair}}
}

// trusted returns the CA.
func trusted(t *testing.T) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(storeFile(t, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("there is no certificate in ca.pem")
	}
	return pool
}

// TestClientsOverTLS: kcat, Sarama, our tools, and Apache Kafka's if available connect to a broker that requires
// certificates; without one no client is served.
func TestClientsOverTLS(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"PKCS12", "JKS"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			clientsOverTLS(t, kind)
		})
	}
}

func clientsOverTLS(t *testing.T, kind string) {
	p, addr := newEncrypted(t, 0, zookeeper(t), kind)
	p.start()
	value := strings.Repeat("0123456789abcdef", 5000)
	t.Run("kcat", func(t *testing.T) {
		t.Parallel()
		need(t, "kcat", hasProgram("kcat"))
		run := func(stdin string, args ...string) (string, error) {
			cmd := exec.Command("kcat", append([]string{"-b", addr, "-t", "kcat", "-X", "security.protocol=SSL", "-X", "ssl.ca.location=" + storeFile(t, "ca.pem")}, args...)...)
			cmd.Stdin = strings.NewReader(stdin)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			return string(out) + stderr.String(), err
		}
		own := []string{"-X", "ssl.certificate.location=" + storeFile(t, "chain.pem"), "-X", "ssl.key.location=" + storeFile(t, "key.pem")}
		if out, err := run(value, append(own, "-P", "-D", "|", "-X", "topic.message.timeout.ms=20000")...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if out, err := run("", append(own, "-C", "-e", "-q", "-o", "beginning")...); err != nil || strings.TrimSpace(out) != value {
			t.Errorf("%v: read %d bytes, want %d", err, len(out), len(value))
		}
		if out, err := run("", "-L", "-m", "5"); err == nil {
			t.Errorf("without a certificate: %s", out)
		}
	})
	t.Run("Sarama", func(t *testing.T) {
		t.Parallel()
		cfg := sarama.NewConfig()
		cfg.Version, cfg.Producer.Return.Successes, cfg.Metadata.Retry.Max = sarama.V3_0_0_0, true, 2
		cfg.Net.TLS.Enable, cfg.Net.TLS.Config = true, clientTLS(t)
		producer, err := sarama.NewSyncProducer([]string{addr}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = producer.Close() }()
		for range 20 {
			if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: "sarama", Value: sarama.StringEncoder(value)}); err != nil {
				t.Fatal(err)
			}
		}
		cfg = sarama.NewConfig()
		cfg.Net.TLS.Enable, cfg.Metadata.Retry.Max = true, 0
		cfg.Net.TLS.Config = &tls.Config{RootCAs: trusted(t)}
		if client, err := sarama.NewClient([]string{addr}, cfg); err == nil {
			_ = client.Close()
			t.Error("Sarama can connect without a certificate")
		}
	})
	file := propertiesFile(t, append(tlsSettings(t, kind), "security.protocol=SSL")...)
	t.Run("tools", func(t *testing.T) {
		t.Parallel()
		ourTool(t, "", "topics", "--bootstrap-server", addr, "--command-config", file, "--create", "--topic", "ours")
		ourTool(t, value+"\n", "console-producer", "--bootstrap-server", addr, "--producer.config", file, "--topic", "ours")
		got := ourTool(t, "", "console-consumer", "--bootstrap-server", addr, "--consumer.config", file, "--topic", "ours", "--from-beginning", "--max-messages", "1")
		if !strings.HasPrefix(got, value) {
			t.Errorf("read %d bytes", len(got))
		}
	})
	t.Run("Apache Kafka's tools", func(t *testing.T) {
		t.Parallel()
		peer(t)
		in := filepath.Join(t.TempDir(), "in")
		if err := os.WriteFile(in, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		peerTool(t, "", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", addr, "--command-config", file, "--create", "--topic", "theirs")
		peerTool(t, in, "kafka.tools.ConsoleProducer", "--bootstrap-server", addr, "--producer.config", file, "--topic", "theirs")
		got := peerTool(t, "", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", addr, "--consumer.config", file, "--topic", "theirs",
			"--from-beginning", "--max-messages", "1", "--timeout-ms", "30000")
		if strings.TrimSpace(got) != value {
			t.Errorf("read %d bytes", len(got))
		}
	})
}

// TestApacheKafkaAndOursSpeakTLS: two brokers of one cluster, ours and Apache Kafka's, communicate over TLS and require
// each other's certificates. Each leads partitions that the other follows, and each is the controller once.
func TestApacheKafkaAndOursSpeakTLS(t *testing.T) {
	peer(t)
	zk := zookeeper(t)
	both := []string{"min.insync.replicas=2", "offsets.topic.replication.factor=2"}
	ours, addr := newEncrypted(t, 0, zk, "PKCS12", both...)
	ours.start()
	theirs := newPeer(t, 1, zk)
	theirAddr, settings := encryptedBy(t, theirs.port, "JKS")
	theirs.settings = append(settings, both...)
	theirs.start()
	cl := newClient(t, kgo.SeedBrokers(addr, theirAddr), kgo.DialTLSConfig(clientTLS(t)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	replicateBothWays(t, cl, ours)
}

// replicateBothWays lets each of two brokers lead partitions that the other follows, under one as the controller and,
// after ours was restarted, under the other.
func replicateBothWays(t *testing.T, cl *kgo.Client, ours *process) {
	t.Helper()
	const partitions = 4
	adm := kadm.NewClient(cl)
	until(t, "both brokers know each other", func(ctx context.Context) bool {
		brokers, err := adm.ListBrokers(ctx)
		return err == nil && len(brokers) == 2
	})
	if _, err := adm.CreateTopic(t.Context(), partitions, 2, nil, "t"); err != nil {
		t.Fatal(err)
	}
	inSync := func(ctx context.Context) (leaders map[int32]bool, all bool) {
		leaders, all = make(map[int32]bool), true
		topics, err := adm.ListTopics(ctx, "t")
		if err != nil {
			return nil, false
		}
		for _, p := range topics["t"].Partitions {
			leaders[p.Leader] = true
			all = all && len(p.ISR) == 2
		}
		return leaders, all
	}
	write := func() {
		t.Helper()
		for i := range int32(40 * partitions) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: i % partitions, Value: bytes.Repeat([]byte("x"), 20_000)}).FirstErr()
			cancel()
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, all := inSync(t.Context()); !all {
			t.Error("not all replicas are in sync")
		}
	}
	write()
	if leaders, _ := inSync(t.Context()); len(leaders) != 2 {
		t.Errorf("the leaders are %v", leaders)
	}
	ours.stop() // so that the other broker becomes the controller
	ours.start()
	until(t, "all are in sync under the other controller", func(ctx context.Context) bool {
		_, all := inSync(ctx)
		return all
	})
	write()
}
