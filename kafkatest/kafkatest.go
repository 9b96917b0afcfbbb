// Package kafkatest runs real brokers inside the process of a Go test: on free ports, with their data in temporary
// directories and a ZooKeeper of their own. They start within tens of milliseconds and are removed when the test ends.
//
//	cluster := kafkatest.Run(t)
//	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...))
//
// Several clusters may run at once in one process. All sockets are on 127.0.0.1.
package kafkatest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"barnabas/broker"
	"barnabas/config"
	"barnabas/internal/testport"
	"barnabas/zkcoord/zkserver"

	"github.com/sirupsen/logrus"
)

// startTimeout bounds a broker's start.
const startTimeout = 30 * time.Second

// Option configures a cluster.
type Option func(*options)

type options struct {
	brokers   int
	settings  map[string]string
	perBroker func(id int) map[string]string
	logs      bool
}

// Brokers sets the number of brokers, 1 by default; their ids count from 0.
func Brokers(n int) Option { return func(o *options) { o.brokers = n } }

// Setting sets a key of server.properties on every broker.
func Setting(key, value string) Option { return func(o *options) { o.settings[key] = value } }

// PerBroker sets keys for each broker by its id, on top of those of Setting.
func PerBroker(settings func(id int) map[string]string) Option {
	return func(o *options) { o.perBroker = settings }
}

// Logs shows the brokers' logs in the test's output.
func Logs() Option { return func(o *options) { o.logs = true } }

// Cluster is a running cluster.
type Cluster struct {
	t       testing.TB
	zk      *zkserver.Server
	options options
	brokers []*Broker
}

// Broker is one broker of a Cluster. Its methods are for one goroutine at a time.
type Broker struct {
	cluster *Cluster
	id      int
	dir     string
	port    int // kept across restarts
	server  *broker.Server
}

// Run starts a cluster, which is stopped when the test ends. If it cannot be started, the test fails.
func Run(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t, options: options{brokers: 1, settings: make(map[string]string)}}
	for _, o := range opts {
		o(&c.options)
	}
	zk, err := zkserver.Open(zkserver.Config{TickTime: 500 * time.Millisecond})
	if err == nil {
		err = zk.Listen("127.0.0.1:0")
	}
	if err != nil {
		t.Fatalf("kafkatest: ZooKeeper: %v", err)
	}
	c.zk = zk
	t.Cleanup(func() { _ = zk.Close() })
	dir := t.TempDir()
	for id := range c.options.brokers {
		b := &Broker{cluster: c, id: id, dir: filepath.Join(dir, strconv.Itoa(id)), port: testport.Reserve(t)}
		c.brokers = append(c.brokers, b)
		t.Cleanup(b.Stop)
		if err := b.Start(); err != nil {
			t.Fatalf("kafkatest: broker %d: %v", id, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for _, b := range c.brokers {
		if err := b.server.AwaitBrokers(ctx, len(c.brokers)); err != nil {
			t.Fatalf("kafkatest: broker %d does not see all others: %v", b.id, err)
		}
	}
	return c
}

// Broker returns the broker with the given id.
func (c *Cluster) Broker(id int) *Broker { return c.brokers[id] }

// Addrs returns the brokers' addresses, host:port.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.brokers))
	for i, b := range c.brokers {
		addrs[i] = b.Addr()
	}
	return addrs
}

// ZooKeeper returns the address of the cluster's ZooKeeper, host:port.
func (c *Cluster) ZooKeeper() string { return c.zk.Addr().String() }

// ID returns the broker's id.
func (b *Broker) ID() int { return b.id }

// Addr returns the broker's address, host:port. It stays the same across Stop and Start.
func (b *Broker) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// Listener returns the address, host:port, of a listener that settings have added to the client listener PLAINTEXT. Its
// port stays the same across restarts only if the setting specifies it.
func (b *Broker) Listener(name string) string { return b.server.Addr(name) }

// LogDir returns the broker's log directory.
func (b *Broker) LogDir() string { return filepath.Join(b.dir, "logs") }

// Start starts the broker again after Stop.
func (b *Broker) Start() error {
	cfg, err := config.Parse(b.properties())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server := broker.New(cfg, b.logger())
	if err := server.Start(ctx); err != nil {
		return err
	}
	b.server = server
	_, port, err := net.SplitHostPort(server.Addr("PLAINTEXT"))
	if err != nil {
		return err
	}
	b.port, err = strconv.Atoi(port)
	return err
}

// Stop shuts the broker down cleanly; its data remain.
func (b *Broker) Stop() {
	if b.server != nil {
		b.server.Close()
		b.server = nil
	}
}

func (b *Broker) properties() map[string]string {
	props := map[string]string{
		"broker.id": strconv.Itoa(b.id), "listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", b.port),
		"log.dirs": b.LogDir(), "zookeeper.connect": b.cluster.ZooKeeper(), "zookeeper.session.timeout.ms": "6000",
		"group.initial.rebalance.delay.ms": "0", "controlled.shutdown.retry.backoff.ms": "50",
	}
	replicas := strconv.Itoa(min(b.cluster.options.brokers, 3))
	for _, key := range []string{"offsets.topic.replication.factor", "transaction.state.log.replication.factor"} {
		props[key] = replicas
	}
	props["transaction.state.log.min.isr"] = strconv.Itoa(min(b.cluster.options.brokers, 2)) // of three brokers, one may be stopped
	maps.Copy(props, b.cluster.options.settings)
	if b.cluster.options.perBroker != nil {
		maps.Copy(props, b.cluster.options.perBroker(b.id))
	}
	return props
}

func (b *Broker) logger() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	if b.cluster.options.logs {
		log.SetOutput(b.cluster.t.Output())
	}
	return log
}
