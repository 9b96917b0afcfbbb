package integration

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/internal/scram"
	"barnabas/internal/testport"

	"github.com/Shopify/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	franzscram "github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"
	scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule"
)

// securedBy adds a SASL listener SECURE to the PLAINTEXT one, and returns its address. Brokers use it too, as admin.
func securedBy(t *testing.T, clients int) (addr string, settings []string) {
	addr = testport.Address(t)
	return addr, []string{
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,SECURE://%s", clients, addr),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT", "inter.broker.listener.name=SECURE",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER", "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256",
		"connections.max.reauth.ms=3000", "delegation.token.secret.key=abc",
		"listener.name.secure.plain.sasl.jaas.config=" + plainModule + ` required user_alice="pw";`,
		"listener.name.secure.scram-sha-256.sasl.jaas.config=" + scramModule + ` required username="admin" password="between";`,
		"listener.name.secure.scram-sha-512.sasl.jaas.config=" + scramModule + " required;",
		"listener.name.secure.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=admin;",
	}
}

// newSecured prepares our broker with the two listeners.
func newSecured(t *testing.T, id int, zk string, more ...string) (p *process, addr string) {
	t.Helper()
	p = newProcess(t, id, zk, more...)
	addr, settings := securedBy(t, p.port)
	p.add(settings...)
	return p, addr
}

// ourTool runs one of our command-line tools and returns its output.
func ourTool(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(brokerBinary(t), append([]string{name}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// setPasswords creates SCRAM users, as name=password, before a broker runs.
func setPasswords(t *testing.T, zk string, users ...string) {
	t.Helper()
	for _, u := range users {
		name, password, _ := strings.Cut(u, "=")
		ourTool(t, "", "configs", "--zookeeper", zk, "--alter", "--entity-type", "users", "--entity-name", name,
			"--add-config", fmt.Sprintf("SCRAM-SHA-256=[password=%[1]s],SCRAM-SHA-512=[password=%[1]s]", password))
	}
}

// propertiesFile writes a client's settings to a file.
func propertiesFile(t *testing.T, settings ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(file, []byte(strings.Join(settings, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// clientSettings returns settings for Java clients and our tools.
func clientSettings(mechanism, user, password string) []string {
	module := scramModule
	if mechanism == "PLAIN" {
		module = plainModule
	}
	return []string{"security.protocol=SASL_PLAINTEXT", "sasl.mechanism=" + mechanism,
		fmt.Sprintf(`sasl.jaas.config=%s required username="%s" password="%s";`, module, user, password)}
}

// login is a user with the mechanism and password to log in with.
type login struct{ mechanism, user, password string }

// bearerSettings has a client log in with an unsecured token for carl.
const bearerSettings = `sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="carl";`

// TestClientsLogIn: kcat, Sarama, our tools, and Apache Kafka's if available log in with each mechanism.
func TestClientsLogIn(t *testing.T) {
	t.Parallel()
	zk := zookeeper(t)
	setPasswords(t, zk, "admin=between", "bob=pw2")
	p, addr := newSecured(t, 0, zk)
	p.start()
	ourTool(t, "", "topics", "--bootstrap-server", p.addr(), "--create", "--topic", "t", "--partitions", "1", "--replication-factor", "1")
	for _, l := range []login{{"PLAIN", "alice", "pw"}, {"SCRAM-SHA-256", "bob", "pw2"}, {"SCRAM-SHA-512", "bob", "pw2"}} {
		for client, logsIn := range map[string]func(t *testing.T, addr string, l login){
			"kcat": kcatLogsIn, "Sarama": saramaLogsIn, "tools": ourToolsLogIn, "Apache Kafka's tools": theirToolsLogIn,
		} {
			t.Run(client+" "+l.mechanism, func(t *testing.T) {
				t.Parallel()
				logsIn(t, addr, l)
			})
		}
	}
	for client, logsIn := range map[string]func(t *testing.T, addr string){
		"kcat": kcatBringsToken, "tools": ourToolsBringToken, "Apache Kafka's tools": theirToolsBringToken,
	} {
		t.Run(client+" OAUTHBEARER", func(t *testing.T) {
			t.Parallel()
			logsIn(t, addr)
		})
	}
	t.Run("Apache Kafka's tools make a delegation token", func(t *testing.T) {
		t.Parallel()
		theirToolsMakeDelegationToken(t, addr, login{"PLAIN", "alice", "pw"})
	})
}

// kcatList lists the topics with kcat.
func kcatList(t *testing.T, addr, mechanism string, settings ...string) (string, error) {
	t.Helper()
	need(t, "kcat", hasProgram("kcat"))
	args := []string{"-L", "-b", addr, "-m", "10", "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanisms=" + mechanism}
	for _, s := range settings {
		args = append(args, "-X", s)
	}
	out, err := exec.Command("kcat", args...).CombinedOutput()
	return string(out), err
}

func kcatLogsIn(t *testing.T, addr string, l login) {
	if out, err := kcatList(t, addr, l.mechanism, "sasl.username="+l.user, "sasl.password="+l.password); err != nil || !strings.Contains(out, `topic "t" with 1 partitions`) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := kcatList(t, addr, l.mechanism, "sasl.username="+l.user, "sasl.password=wrong"); err == nil || !strings.Contains(out, "uthentication") {
		t.Errorf("with a wrong password: %v: %s", err, out)
	}
}

func kcatBringsToken(t *testing.T, addr string) {
	const unsecured = "enable.sasl.oauthbearer.unsecure.jwt=true"
	if out, err := kcatList(t, addr, "OAUTHBEARER", unsecured, "sasl.oauthbearer.config=principal=carl"); err != nil || !strings.Contains(out, `topic "t" with 1 partitions`) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := kcatList(t, addr, "OAUTHBEARER", unsecured, "sasl.oauthbearer.config=principalClaimName=other principal=carl"); err == nil || !strings.Contains(out, "invalid_token") {
		t.Errorf("without a name: %v: %s", err, out)
	}
}

func saramaLogsIn(t *testing.T, addr string, l login) {
	if err := produceWithSarama(addr, l.mechanism, l.user, l.password); err != nil {
		t.Error(err)
	}
	var refused *sarama.ConfigurationError
	if err := produceWithSarama(addr, l.mechanism, l.user, "wrong"); err == nil || errors.As(err, &refused) {
		t.Errorf("with a wrong password: %v", err)
	}
}

func ourToolsLogIn(t *testing.T, addr string, l login) {
	file := propertiesFile(t, clientSettings(l.mechanism, l.user, l.password)...)
	topic := "ours-" + l.mechanism
	ourTool(t, "", "topics", "--bootstrap-server", addr, "--command-config", file, "--create", "--topic", topic)
	ourTool(t, "hello\n", "console-producer", "--bootstrap-server", addr, "--producer.config", file, "--topic", topic)
	got := ourTool(t, "", "console-consumer", "--bootstrap-server", addr, "--consumer.config", file, "--topic", topic, "--from-beginning", "--max-messages", "1")
	if !strings.Contains(got, "hello") {
		t.Errorf("read %q", got)
	}
}

func ourToolsBringToken(t *testing.T, addr string) {
	file := propertiesFile(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", bearerSettings)
	if got := ourTool(t, "", "topics", "--bootstrap-server", addr, "--command-config", file, "--list"); !strings.Contains(got, "t\n") {
		t.Errorf("the topics are %q", got)
	}
	file = propertiesFile(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", "default.api.timeout.ms=3000",
		strings.ReplaceAll(strings.TrimSuffix(bearerSettings, ";"), "_sub", "_name")+` unsecuredLoginPrincipalClaimName=name;`)
	out, err := exec.Command(brokerBinary(t), "topics", "--bootstrap-server", addr, "--command-config", file, "--list").CombinedOutput()
	if err == nil || !strings.Contains(strings.ToLower(string(out)), "authentication") {
		t.Errorf("with a token of another claim: %v, %s", err, out)
	}
}

func theirToolsLogIn(t *testing.T, addr string, l login) {
	peer(t)
	file := propertiesFile(t, clientSettings(l.mechanism, l.user, l.password)...)
	topic, in := "theirs-"+l.mechanism, filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(in, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	peerTool(t, "", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", addr, "--command-config", file, "--create", "--topic", topic)
	peerTool(t, in, "kafka.tools.ConsoleProducer", "--bootstrap-server", addr, "--producer.config", file, "--topic", topic)
	got := peerTool(t, "", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", addr, "--consumer.config", file, "--topic", topic,
		"--from-beginning", "--max-messages", "1", "--timeout-ms", "30000")
	if strings.TrimSpace(got) != "hello" {
		t.Errorf("read %q", got)
	}
}

func theirToolsBringToken(t *testing.T, addr string) {
	peer(t)
	file := propertiesFile(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", bearerSettings)
	if got := peerTool(t, "", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", addr, "--command-config", file, "--list"); !strings.Contains(got, "t\n") {
		t.Errorf("the topics are %q", got)
	}
}

// theirToolsMakeDelegationToken: a token that Apache Kafka's tool makes is described alike by its tool and by ours.
func theirToolsMakeDelegationToken(t *testing.T, addr string, l login) {
	peer(t)
	file := propertiesFile(t, clientSettings(l.mechanism, l.user, l.password)...)
	const tool = "org.apache.kafka.tools.DelegationTokenCommand"
	made := peerTool(t, "", tool, "--bootstrap-server", addr, "--command-config", file, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
	theirs := peerTool(t, "", tool, "--bootstrap-server", addr, "--command-config", file, "--describe", "--owner-principal", "User:alice") // without an owner it lists none
	ours := ourTool(t, "", "delegation-tokens", "--bootstrap-server", addr, "--command-config", file, "--describe")
	row := tokenRow(made)
	if row == "" || tokenRow(theirs) != row || tokenRow(ours) != row {
		t.Errorf("created %q, described as %q, by our tool as %q", made, theirs, ours)
	}
}

// tokenRow finds the line of alice's token in a tool's output.
func tokenRow(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "User:alice") && strings.Contains(line, "[User:bob]") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// saramaLogin is the SCRAM implementation that Sarama requires from its user.
type saramaLogin struct {
	mechanism string
	step      func([]byte) ([]byte, error)
	done      bool
}

// Begin implements sarama.SCRAMClient.
func (l *saramaLogin) Begin(user, password, _ string) error {
	m, ok := scram.Named(l.mechanism)
	if !ok {
		return errors.New("no such mechanism")
	}
	l.step = m.NewClient(user, password, false).Step
	return nil
}

// Step implements sarama.SCRAMClient.
func (l *saramaLogin) Step(challenge string) (string, error) {
	answer, err := l.step([]byte(challenge))
	l.done = err == nil && answer == nil
	return string(answer), err
}

// Done implements sarama.SCRAMClient.
func (l *saramaLogin) Done() bool { return l.done }

func produceWithSarama(addr, mechanism, user, password string) error {
	cfg := sarama.NewConfig()
	cfg.Version, cfg.Producer.Return.Successes, cfg.Metadata.Retry.Max = sarama.V3_0_0_0, true, 0
	cfg.Net.SASL.Enable, cfg.Net.SASL.Version, cfg.Net.SASL.Mechanism = true, sarama.SASLHandshakeV1, sarama.SASLMechanism(mechanism)
	cfg.Net.SASL.User, cfg.Net.SASL.Password = user, password
	cfg.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &saramaLogin{mechanism: mechanism} }
	producer, err := sarama.NewSyncProducer([]string{addr}, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = producer.Close() }()
	for began := time.Now(); time.Since(began) < 4*time.Second; time.Sleep(50 * time.Millisecond) { // the session expires meanwhile
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: "t", Value: sarama.StringEncoder("x")}); err != nil {
			return err
		}
	}
	return nil
}

// TestApacheKafkaAndOursLogInAtEachOther: two brokers of one cluster, ours and Apache Kafka's, communicate through a
// SCRAM listener. Each leads a partition that the other follows, and each is the controller once; sessions expire all
// the time.
func TestApacheKafkaAndOursLogInAtEachOther(t *testing.T) {
	peer(t)
	zk := zookeeper(t)
	setPasswords(t, zk, "admin=between")
	ours, addr := newSecured(t, 0, zk, "min.insync.replicas=2", "offsets.topic.replication.factor=2")
	ours.start()
	theirs := newPeer(t, 1, zk)
	theirAddr, settings := securedBy(t, theirs.port)
	theirs.settings = append(settings, "min.insync.replicas=2", "offsets.topic.replication.factor=2")
	theirs.start()
	cl := newClient(t, kgo.SeedBrokers(addr, theirAddr), kgo.SASL(franzscram.Auth{User: "admin", Pass: "between"}.AsSha256Mechanism()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()))
	defer cl.Close()
	adm := kadm.NewClient(cl)
	until(t, "both brokers know each other", func(ctx context.Context) bool {
		brokers, err := adm.ListBrokers(ctx)
		return err == nil && len(brokers) == 2
	})
	if _, err := adm.CreateTopic(t.Context(), 4, 2, nil, "t"); err != nil {
		t.Fatal(err)
	}
	leaders := make(map[int32]bool)
	check := func() {
		t.Helper()
		for began := time.Now(); time.Since(began) < 5*time.Second; {
			for partition := range int32(4) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: partition, Value: []byte("x")}).FirstErr()
				cancel()
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		topics, err := adm.ListTopics(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range topics["t"].Partitions {
			leaders[p.Leader] = true
			if len(p.ISR) != 2 {
				t.Errorf("partition %d is in sync at %v only", p.Partition, p.ISR)
			}
		}
	}
	check()
	if len(leaders) != 2 {
		t.Errorf("the leaders are %v", leaders)
	}
	checkTokens(t, addr, theirAddr)
	ours.stop() // so that Apache Kafka's broker becomes the controller
	ours.start()
	until(t, "all are in sync under the other controller", func(ctx context.Context) bool {
		topics, err := adm.ListTopics(ctx, "t")
		if err != nil {
			return false
		}
		for _, p := range topics["t"].Partitions {
			if len(p.ISR) != 2 {
				return false
			}
		}
		return true
	})
	check()
}

// checkTokens creates delegation tokens on each of two brokers and logs in with them at the other, renews them there,
// and expires them: then neither accepts them.
func checkTokens(t *testing.T, addrs ...string) {
	t.Helper()
	login := func(addr string, auth franzscram.Auth) *kadm.Client {
		cl := newClient(t, kgo.SeedBrokers(addr), kgo.SASL(auth.AsSha512Mechanism()), kgo.RetryTimeout(10*time.Second))
		t.Cleanup(cl.Close)
		return kadm.NewClient(cl)
	}
	for i, made := range addrs {
		other := addrs[1-i]
		token, err := login(made, franzscram.Auth{User: "admin", Pass: "between"}).CreateDelegationToken(t.Context(), kadm.CreateDelegationToken{})
		if err != nil {
			t.Fatal(err)
		}
		works := func(addr string) bool {
			auth := franzscram.Auth{User: token.TokenID, Pass: base64.StdEncoding.EncodeToString(token.HMAC), IsToken: true}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := login(addr, auth).BrokerMetadata(ctx)
			return err == nil
		}
		until(t, "a login with a token at the other broker", func(context.Context) bool { return works(other) })
		owner := login(other, franzscram.Auth{User: "admin", Pass: "between"})
		if ends, err := owner.RenewDelegationToken(t.Context(), token.HMAC, time.Hour); err != nil || !ends.Before(token.ExpiryTimestamp) {
			t.Errorf("renewed until %v, %v", ends, err)
		}
		if _, err := owner.ExpireDelegationToken(t.Context(), token.HMAC, -time.Millisecond); err != nil {
			t.Error(err)
		}
		until(t, "the end of a token", func(context.Context) bool { return !works(made) && !works(other) })
	}
}
