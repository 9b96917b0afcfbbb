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
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

// Setting sets a key of server.properties on every broker. With listeners, there must be one that is named PLAINTEXT.
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

// Broker is one broker of a Cluster. Its methods are safe for concurrent use. Like the process of a broker, it stops by
// itself when it cannot go on, because its log directory has failed for example; Start starts it again.
type Broker struct {
	cluster *Cluster
	id      int
	dir     string

	changing struct {
		sync.Mutex               // held while it starts or stops; before mu
		over       bool          // the test has ended
		stopping   chan struct{} // closed when it stops
	}
	mu struct {
		sync.Mutex
		port   int            // kept across restarts
		server *broker.Server // nil: stopped
	}
}

// Run starts a cluster, which is stopped when the test ends. If it cannot be started, the test fails.
func Run(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t, options: options{brokers: 1, settings: make(map[string]string)}}
	for _, o := range opts {
		o(&c.options)
	}
	zk, err := zkserver.Open(zkserver.Config{TickTime: 500 * time.Millisecond})
	if err != nil {
		t.Fatalf("kafkatest: ZooKeeper: %v", err)
	}
	t.Cleanup(func() { _ = zk.Close() })
	if err := zk.Listen("127.0.0.1:0"); err != nil {
		t.Fatalf("kafkatest: ZooKeeper: %v", err)
	}
	c.zk = zk
	dir := tempDir(t)
	for id := range c.options.brokers {
		b := &Broker{cluster: c, id: id, dir: filepath.Join(dir, strconv.Itoa(id))}
		b.mu.port = testport.Reserve(t)
		c.brokers = append(c.brokers, b)
		t.Cleanup(b.end)
		if err := b.Start(); err != nil {
			t.Fatalf("kafkatest: broker %d: %v", id, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for _, b := range c.brokers {
		if err := b.running().AwaitBrokers(ctx, len(c.brokers)); err != nil {
			t.Fatalf("kafkatest: broker %d does not see all others: %v", b.id, err)
		}
	}
	return c
}

// tempDir is testing.TB.TempDir without the test's name in the path: a comma in it would separate two log directories.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv("GOTMPDIR"), "kafkatest-")
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("kafkatest: %v", err)
		}
	})
	if strings.Contains(dir, ",") {
		t.Fatalf("kafkatest: the temporary directory %s has a comma, which separates log directories", dir)
	}
	return dir
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

// Addr returns the broker's address, host:port. It stays the same across Stop and Start, unless settings have replaced
// the listeners by some without a fixed port.
func (b *Broker) Addr() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.mu.port))
}

// Listener returns the address, host:port, of a listener that settings have added to the client listener PLAINTEXT. Its
// port stays the same across restarts only if the setting specifies it. It is empty while the broker is stopped.
func (b *Broker) Listener(name string) string {
	server := b.running()
	if server == nil {
		return ""
	}
	return server.Addr(name)
}

// LogDir returns the broker's log directory, unless settings have replaced log.dirs.
func (b *Broker) LogDir() string { return filepath.Join(b.dir, "logs") }

// running returns the broker proper, nil if it is stopped.
func (b *Broker) running() *broker.Server {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.server
}

// set notes that the broker has started or, with nil, that it is stopped. A port of 0 stands for the same as before.
func (b *Broker) set(server *broker.Server, port int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.server = server
	if port != 0 {
		b.mu.port = port
	}
}

// Start starts the broker again after Stop.
func (b *Broker) Start() error {
	b.changing.Lock()
	defer b.changing.Unlock()
	switch {
	case b.changing.over:
		return errors.New("kafkatest: the test has ended")
	case b.running() != nil:
		return fmt.Errorf("kafkatest: broker %d is running", b.id)
	}
	props := b.properties()
	cfg, err := config.Parse(props)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server := broker.New(cfg, b.logger())
	if err := server.Start(ctx); err != nil {
		return err
	}
	port := 0
	if props["listeners"] != b.listeners() {
		if port, err = portOf(server); err != nil {
			server.Close()
			return fmt.Errorf("listeners=%s: %w", props["listeners"], err)
		}
	}
	b.set(server, port)
	b.changing.stopping = make(chan struct{})
	go b.watch(server, b.changing.stopping)
	return nil
}

// watch stops a broker that cannot go on.
func (b *Broker) watch(server *broker.Server, stopping <-chan struct{}) {
	select {
	case <-stopping:
	case err := <-server.Failed():
		b.changing.Lock()
		defer b.changing.Unlock()
		if b.running() == server { // so the test has not ended either
			b.cluster.t.Logf("kafkatest: broker %d stops: %v", b.id, err)
			b.stop()
		}
	}
}

// portOf returns the port of the client listener.
func portOf(server *broker.Server) (int, error) {
	addr := server.Addr("PLAINTEXT")
	if addr == "" {
		return 0, errors.New("there must be a listener PLAINTEXT")
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// Stop shuts the broker down cleanly; its data remain.
func (b *Broker) Stop() {
	b.changing.Lock()
	defer b.changing.Unlock()
	b.stop()
}

// end stops the broker for good.
func (b *Broker) end() {
	b.changing.Lock()
	defer b.changing.Unlock()
	b.changing.over = true
	b.stop()
}

func (b *Broker) stop() {
	if server := b.running(); server != nil {
		close(b.changing.stopping)
		server.Close()
		b.set(nil, 0)
	}
}

// listeners returns the broker's setting unless there is another one.
func (b *Broker) listeners() string { return "PLAINTEXT://" + b.Addr() }

func (b *Broker) properties() map[string]string {
	props := map[string]string{
		"broker.id": strconv.Itoa(b.id), "listeners": b.listeners(),
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
