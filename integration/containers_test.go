package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"barnabas/internal/testport"

	"github.com/Shopify/sarama"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	brokerImage         = "barnabas-test/broker:latest"
	zookeeperImage      = "barnabas-test/zookeeper:latest"
	containerPartitions = 3
)

// TestContainers runs clusters of three brokers and three ZooKeeper servers in containers. It needs a Docker engine,
// but no registry: it builds the images itself. ZOOKEEPER_IMAGE names an image to use instead of one with Debian's
// package.
func TestContainers(t *testing.T) {
	if out, err := command(t, "docker", "info", "--format", "{{.ServerVersion}}").CombinedOutput(); err != nil {
		t.Skipf("left out, for want of a docker engine that answers: %v %s", err, out)
	}
	zk := buildImages(t)
	t.Run("process 1", testProcessOne)
	t.Run("cluster", func(t *testing.T) { testContainerCluster(t, zk) })
	t.Run("compose", func(t *testing.T) { testCompose(t, zk) })
}

// command returns a program that may run for at most three minutes.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // not the test's context: cleanups run commands too
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = ".."
	return cmd
}

// docker runs a docker command and returns its output.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t, "docker", args...).CombinedOutput()
	if err != nil {
		t.Errorf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// buildImages builds the brokers' image and, unless one is given, ZooKeeper's. It returns the name of the latter.
func buildImages(t *testing.T) string {
	t.Helper()
	build := func(image, name string, args ...string) {
		if out, err := command(t, name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", image, err, out)
		}
		t.Cleanup(func() { docker(t, "image", "rm", "--force", image) })
	}
	build(brokerImage, "make", "image", "IMAGE="+brokerImage)
	if image := os.Getenv("ZOOKEEPER_IMAGE"); image != "" {
		return image
	}
	jars, _ := filepath.Glob("/usr/share/java/zookeeper*.jar")
	need(t, "ZooKeeper (Debian's zookeeper, default-jre-headless, unzip)", len(jars) > 0 && hasProgram("java") && hasProgram("unzip"))
	build(zookeeperImage, "integration/zookeeper-image", zookeeperImage)
	return zookeeperImage
}

// testProcessOne: a container ends as its broker does: with its exit code, and cleanly on a signal.
func testProcessOne(t *testing.T) {
	var exit *exec.ExitError
	out, err := command(t, "docker", "run", "--rm", brokerImage).CombinedOutput()
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "zookeeper.connect") {
		t.Errorf("without settings: %v, want exit code 1 and the name of a setting: %s", err, out)
	}
	id := docker(t, "run", "--detach", brokerImage, "/config/server.properties") // with an embedded ZooKeeper
	t.Cleanup(func() { docker(t, "rm", "--force", "--volumes", id) })
	await(t, "the container is healthy", func(context.Context) (string, bool) {
		return docker(t, "logs", id), docker(t, "inspect", "--format", "{{.State.Health.Status}}", id) == "healthy"
	})
	docker(t, "stop", "--time", "60", id)
	if code := docker(t, "inspect", "--format", "{{.State.ExitCode}}", id); code != "0" || !strings.Contains(docker(t, "logs", id), "shut down completed") {
		t.Errorf("after a stop: exit code %s: %s", code, docker(t, "logs", id))
	}
}

// containerCluster is three brokers, number i+1 at index i. They reach each other and ZooKeeper through one network,
// and clients through another, so that a broker can be cut off from its cluster while clients still reach it.
type containerCluster struct {
	t       *testing.T
	inside  *testcontainers.DockerNetwork
	brokers [3]testcontainers.Container
}

// testContainerCluster produces with acks=all while one broker after the other is killed, cut off from its cluster, and
// paused. In the end every acknowledged record is there.
func testContainerCluster(t *testing.T, zk string) {
	c := startContainerCluster(t, zk)
	admin, err := sarama.NewClusterAdmin(c.addrs(), c.clientConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	if err := admin.CreateTopic("t", &sarama.TopicDetail{NumPartitions: containerPartitions, ReplicationFactor: 3}, false); err != nil {
		t.Fatal(err)
	}
	c.awaitISR(0, 3)
	p := c.produce("t")
	for _, harm := range []struct {
		name       string
		broker     int
		harm, heal func(id string)
	}{
		{"kill", 0, func(id string) { docker(t, "kill", id) }, func(id string) { docker(t, "start", id) }},
		{"cut from the network", 1, func(id string) { docker(t, "network", "disconnect", c.inside.Name, id) },
			func(id string) { docker(t, "network", "connect", "--alias", brokerName(1), c.inside.Name, id) }},
		{"pause", 2, func(id string) { docker(t, "pause", id) }, func(id string) { docker(t, "unpause", id) }},
	} {
		id, other := c.brokers[harm.broker].GetContainerID(), (harm.broker+1)%3
		harm.harm(id)
		c.awaitISR(other, 2)
		p.awaitMore(t, 1) // not of each partition: a client may keep asking the isolated broker for the leader
		harm.heal(id)
		c.awaitISR(other, 3)
		p.awaitMore(t, containerPartitions)
		t.Logf("%s: survived", harm.name)
	}
	for partition, acked := range p.stop() {
		checkConsumed(t, c.addrs(), c.clientConfig(), "t", int32(partition), acked)
	}
}

func brokerName(i int) string { return fmt.Sprintf("broker-%d", i+1) }

func startContainerCluster(t *testing.T, zk string) *containerCluster {
	t.Helper()
	t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true") // it would have to be pulled from a registry
	if os.Getenv("TESTCONTAINERS_HOST_OVERRIDE") == "" {
		t.Setenv("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	}
	c := &containerCluster{t: t}
	var clients *testcontainers.DockerNetwork
	c.inside, clients = newNetwork(t, network.WithInternal()), newNetwork(t)
	var servers, connect []string
	for i := 1; i <= 3; i++ {
		servers = append(servers, fmt.Sprintf("server.%d=zookeeper-%d:2888:3888;2181", i, i))
		connect = append(connect, fmt.Sprintf("zookeeper-%d:2181", i))
	}
	var starting sync.WaitGroup
	for i := range 3 {
		starting.Go(func() {
			c.run(zk, network.WithNetwork([]string{fmt.Sprintf("zookeeper-%d", i+1)}, c.inside), testcontainers.WithEnv(map[string]string{
				"ZOO_MY_ID": strconv.Itoa(i + 1), "ZOO_SERVERS": strings.Join(servers, " "), "ZOO_ADMINSERVER_ENABLED": "false",
				"ZOO_TICK_TIME": "500", "ZOO_INIT_LIMIT": "40", "ZOO_SYNC_LIMIT": "20", "SERVER_JVMFLAGS": "-Xmx128m"}))
		})
		starting.Go(func() {
			c.brokers[i] = c.run(brokerImage, network.WithNetwork([]string{brokerName(i)}, c.inside), network.WithNetwork(nil, clients),
				testcontainers.WithExposedPorts("9092/tcp"), testcontainers.WithWaitStrategyAndDeadline(2*time.Minute, wait.ForHealthCheck()),
				testcontainers.WithEnv(map[string]string{
					"KAFKA_BROKER_ID": strconv.Itoa(i + 1), "KAFKA_ZOOKEEPER_CONNECT": strings.Join(connect, ","),
					"KAFKA_ADVERTISED_LISTENERS":            "PLAINTEXT://" + brokerName(i) + ":9092",
					"KAFKA_ZOOKEEPER_CONNECTION_TIMEOUT_MS": "60000", "KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS": "4000",
					"KAFKA_REPLICA_LAG_TIME_MAX_MS": "4000", "KAFKA_MIN_INSYNC_REPLICAS": "2"}))
		})
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return c
}

func newNetwork(t *testing.T, opts ...network.NetworkCustomizer) *testcontainers.DockerNetwork {
	t.Helper()
	n, err := network.New(t.Context(), opts...)
	testcontainers.CleanupNetwork(t, n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// run starts a container, which is removed with the test; if the test fails the end of its output is logged. It is safe
// for concurrent use.
func (c *containerCluster) run(image string, opts ...testcontainers.ContainerCustomizer) testcontainers.Container {
	ctr, err := testcontainers.Run(c.t.Context(), image, opts...)
	testcontainers.CleanupContainer(c.t, ctr, testcontainers.StopTimeout(0))
	if ctr != nil {
		c.t.Cleanup(func() {
			if c.t.Failed() {
				c.t.Logf("%s:\n%s", image, docker(c.t, "logs", "--tail", "50", ctr.GetContainerID()))
			}
		})
	}
	if err != nil {
		c.t.Errorf("%s: %v", image, err)
	}
	return ctr
}

// addrs returns the addresses that the brokers advertise.
func (c *containerCluster) addrs() []string {
	return []string{brokerName(0) + ":9092", brokerName(1) + ":9092", brokerName(2) + ":9092"}
}

// Dial connects to a broker by the name that it advertises, at the port that it currently has on this host.
func (c *containerCluster) Dial(_, addr string) (net.Conn, error) {
	i := slices.Index(c.addrs(), addr)
	if i < 0 {
		return nil, fmt.Errorf("no broker advertises %s", addr)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	endpoint, err := c.brokers[i].PortEndpoint(ctx, "9092/tcp", "")
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", endpoint)
}

func (c *containerCluster) clientConfig() *sarama.Config {
	cfg := clientConfig()
	cfg.Net.Proxy.Enable, cfg.Net.Proxy.Dialer = true, c
	return cfg
}

// clientConfig returns the configuration of a client that notices changes soon, and has short timeouts.
func clientConfig() *sarama.Config {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V3_3_1_0
	cfg.Net.DialTimeout, cfg.Net.ReadTimeout, cfg.Net.WriteTimeout = 3*time.Second, 5*time.Second, 5*time.Second
	cfg.Metadata.RefreshFrequency, cfg.Metadata.Retry.Backoff = time.Second, 100*time.Millisecond
	cfg.Metadata.Retry.Max = 20
	cfg.Producer.RequiredAcks, cfg.Producer.Timeout = sarama.WaitForAll, 3*time.Second
	cfg.Producer.Return.Successes = true
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	cfg.Producer.Retry.Max, cfg.Producer.Retry.Backoff = 2, 100*time.Millisecond
	cfg.Consumer.Return.Errors = true
	return cfg
}

// awaitISR waits until each partition of topic t has this many in-sync replicas, as reported by the tool in broker i's
// container.
func (c *containerCluster) awaitISR(i, size int) {
	c.t.Helper()
	await(c.t, fmt.Sprintf("the ISRs have %d replicas", size), func(context.Context) (string, bool) {
		out, _ := command(c.t, "docker", "exec", c.brokers[i].GetContainerID(),
			"/kafka", "topics", "--bootstrap-server", "localhost:9092", "--describe", "--topic", "t").CombinedOutput()
		return string(out), isrsHave(string(out), size)
	})
}

// isrsHave parses the output of kafka-topics --describe.
func isrsHave(described string, size int) bool {
	found := 0
	for _, field := range strings.Split(described, "\t") {
		if isr, ok := strings.CutPrefix(field, "Isr: "); ok && len(strings.Split(isr, ",")) == size {
			found++
		}
	}
	return found == containerPartitions
}

// steadyProducer writes numbered records to each partition, one after the other, and remembers the acknowledged ones.
type steadyProducer struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex // guards acked
	acked   [containerPartitions][]string
}

// produce uses one client per partition, so that partitions do not wait for each other.
func (c *containerCluster) produce(topic string) *steadyProducer {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	p := &steadyProducer{cancel: cancel}
	c.t.Cleanup(func() { p.stop() })
	for partition := range containerPartitions {
		client, err := sarama.NewSyncProducer(c.addrs(), c.clientConfig())
		if err != nil {
			c.t.Fatal(err)
		}
		p.running.Go(func() {
			defer func() { _ = client.Close() }()
			for i := 0; ctx.Err() == nil; i++ {
				value := strconv.Itoa(i)
				if _, _, err := client.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: int32(partition), Value: sarama.StringEncoder(value)}); err == nil {
					p.mu.Lock()
					p.acked[partition] = append(p.acked[partition], value)
					p.mu.Unlock()
				}
				time.Sleep(time.Millisecond) // the brokers need CPU time, too
			}
		})
	}
	return p
}

func (p *steadyProducer) counts() (counts [containerPartitions]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range counts {
		counts[i] = len(p.acked[i])
	}
	return counts
}

// awaitMore waits until this many partitions have 20 more acknowledged records.
func (p *steadyProducer) awaitMore(t *testing.T, partitions int) {
	t.Helper()
	before := p.counts()
	await(t, "progress", func(context.Context) (string, bool) {
		more := 0
		for i, n := range p.counts() {
			if n >= before[i]+20 {
				more++
			}
		}
		return fmt.Sprintf("%v records were acknowledged, %v now", before, p.counts()), more >= partitions
	})
}

// stop stops producing and returns the acknowledged records by partition. It may be called repeatedly.
func (p *steadyProducer) stop() [containerPartitions][]string {
	p.cancel()
	p.running.Wait()
	return p.acked
}

// checkConsumed reads a partition from its start to its end; all acknowledged records must be there.
func checkConsumed(t *testing.T, addrs []string, cfg *sarama.Config, topic string, partition int32, acked []string) {
	t.Helper()
	var there map[string]bool
	// Five seconds after its start the controller moves leaders to their preferred replicas. For some milliseconds, brokers
	// then disagree on who leads, and Sarama asks for an offset only twice, without a pause.
	await(t, fmt.Sprintf("partition %d is read", partition), func(ctx context.Context) (string, bool) {
		var err error
		there, err = consumeAll(ctx, addrs, cfg, topic, partition)
		return fmt.Sprint(err), err == nil
	})
	lost := slices.DeleteFunc(slices.Clone(acked), func(value string) bool { return there[value] })
	if len(lost) > 0 {
		t.Errorf("partition %d: of %d acknowledged records %d are missing, the first of them %s", partition, len(acked), len(lost), lost[0])
	}
	t.Logf("partition %d: %d records acknowledged, %d there", partition, len(acked), len(there))
}

// consumeAll reads a partition from its start to its end as of now.
func consumeAll(ctx context.Context, addrs []string, cfg *sarama.Config, topic string, partition int32) (map[string]bool, error) {
	client, err := sarama.NewClient(addrs, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
	if err != nil || end == 0 {
		return nil, err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	defer func() { _ = consumer.Close() }()
	records, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer func() { _ = records.Close() }()
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("not all records arrived"))
	defer cancel()
	values := make(map[string]bool, end)
	for {
		select {
		case r := <-records.Messages():
			values[string(r.Value)] = true
			if r.Offset == end-1 {
				return values, nil
			}
		case err := <-records.Errors():
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// testCompose starts docker-compose.yml, fills a topic, removes all containers, starts them again with their volumes,
// and reads the topic.
func testCompose(t *testing.T, zk string) {
	c := newCompose(t, zk)
	c.run("up", "-d", "--no-build")
	c.awaitHealthy()
	admin, err := sarama.NewClusterAdmin(c.addrs, clientConfig())
	if err != nil {
		t.Fatal(err)
	}
	brokers, _, err := admin.DescribeCluster()
	if err != nil {
		t.Fatal(err)
	}
	racks := make(map[string]bool)
	for _, b := range brokers {
		racks[b.Rack()] = true
	}
	if len(racks) != 3 {
		t.Errorf("racks %v, want three", racks)
	}
	if err := admin.CreateTopic("t", &sarama.TopicDetail{NumPartitions: containerPartitions, ReplicationFactor: 3}, false); err != nil {
		t.Fatal(err)
	}
	if err := admin.Close(); err != nil {
		t.Fatal(err)
	}
	acked := produceSome(t, c.addrs, "t")
	c.run("down")
	c.run("up", "-d", "--no-build")
	c.awaitHealthy()
	for partition := range acked {
		checkConsumed(t, c.addrs, clientConfig(), "t", int32(partition), acked[partition])
	}
}

// produceSome writes 100 records to each partition.
func produceSome(t *testing.T, addrs []string, topic string) (acked [containerPartitions][]string) {
	t.Helper()
	cfg := clientConfig()
	cfg.Producer.Retry.Max = 50
	producer, err := sarama.NewSyncProducer(addrs, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	for partition := range acked {
		var messages []*sarama.ProducerMessage
		for i := range 100 {
			acked[partition] = append(acked[partition], strconv.Itoa(i))
			messages = append(messages, &sarama.ProducerMessage{Topic: topic, Partition: int32(partition), Value: sarama.StringEncoder(strconv.Itoa(i))})
		}
		if err := producer.SendMessages(messages); err != nil {
			t.Fatal(err)
		}
	}
	return acked
}

// compose is the cluster of docker-compose.yml with its own name and ports.
type compose struct {
	t       *testing.T
	command []string
	project string
	env     []string
	addrs   []string
}

// newCompose finds the compose command. The cluster and its volumes are removed with the test.
func newCompose(t *testing.T, zk string) *compose {
	t.Helper()
	c := &compose{t: t, command: []string{"docker", "compose"}, project: fmt.Sprintf("barnabas-test-%d", os.Getpid())}
	if command(t, "docker", "compose", "version").Run() != nil {
		need(t, "docker compose", hasProgram("docker-compose"))
		c.command = []string{"docker-compose"}
	}
	c.env = append(os.Environ(), "ZOOKEEPER_IMAGE="+zk, "ZOOKEEPER_JVMFLAGS=-Xmx128m", "BROKER_IMAGE="+brokerImage)
	for i := 1; i <= 3; i++ {
		port := testport.Reserve(t)
		c.env = append(c.env, fmt.Sprintf("BROKER_%d_PORT=%d", i, port))
		c.addrs = append(c.addrs, fmt.Sprintf("localhost:%d", port))
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.run("logs", "--tail", "50")
		}
		c.run("down", "--volumes", "--timeout", "0")
	})
	return c
}

// run runs a compose command; its output is logged by the test.
func (c *compose) run(args ...string) {
	c.t.Helper()
	args = slices.Concat(c.command, []string{"-p", c.project}, args)
	cmd := command(c.t, args[0], args[1:]...)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	c.t.Logf("%s\n%s", strings.Join(args, " "), out)
	if err != nil {
		c.t.Errorf("%s: %v", strings.Join(args, " "), err)
	}
}

// awaitHealthy waits until all six containers are healthy.
func (c *compose) awaitHealthy() {
	c.t.Helper()
	project := "label=com.docker.compose.project=" + c.project
	await(c.t, "all are healthy", func(context.Context) (string, bool) {
		healthy := strings.Fields(docker(c.t, "ps", "--quiet", "--filter", project, "--filter", "health=healthy"))
		return docker(c.t, "ps", "--all", "--filter", project), len(healthy) == 6
	})
}
