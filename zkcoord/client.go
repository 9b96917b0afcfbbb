package zkcoord

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"barnabas/internal/logx"
	"barnabas/zkcoord/zklogin"

	"github.com/go-zookeeper/zk"
	"github.com/sirupsen/logrus"
)

const (
	defaultTimeout  = 18 * time.Second // zookeeper.session.timeout.ms
	defaultInFlight = 10               // zookeeper.max.in.flight.requests
	requestLimit    = 4 << 20          // bytes of one request to the server
)

// Config says where the cluster's state is and how to keep a session.
type Config struct {
	Connect           string        // zookeeper.connect: host[:port],...[/chroot]
	SessionTimeout    time.Duration // requested; the server may limit it. 0: 18 s
	ConnectionTimeout time.Duration // maximum duration of Connect. 0: as SessionTimeout
	MaxInFlight       int           // maximum number of concurrent requests in bulk reads and writes. 0: 10
	MaxRequestBytes   int           // what the servers accept (jute.maxbuffer). 0: 1048575
	KeepChroot        bool          // a missing chroot is an error, instead of being created
	NoTopicIDs        bool          // inter.broker.protocol.version before 2.8: CreateTopic assigns no id
	Logger            *logrus.Entry

	TLS   func(host string) *tls.Config // for connections to that host; nil: plaintext
	Login *zklogin.Login                // nil: sessions without a user

	// SecureNodes restricts the nodes that are created to the session's user, whom Login or the TLS certificate
	// identifies (zookeeper.set.acl); otherwise they are open to everyone.
	SecureNodes bool

	Now func() time.Time // used for the age of notifications; nil: time.Now

	// Answered is called with the latency of each request that was answered. It may be called concurrently. May be nil.
	Answered func(took time.Duration)
}

// Client is a session with ZooKeeper, and the next one after it has expired. All methods are safe for concurrent use. A
// method that needs the server waits for it as long as its context lasts.
type Client struct {
	cfg     Config
	log     *logrus.Entry
	chroot  string
	conn    Conn
	hosts   *hostList
	way     *dialer
	events  *dispatcher
	watches watchSet
	session session
	closed  chan struct{}
	closing sync.Once

	simulated bool // no goroutines: calls run on the caller's
}

// Connect opens a session and returns when it is established. A missing chroot is created first, in a separate session
// as in Apache Kafka. The other session begins with the server that answered then: there would not be time to wait
// twice for servers that do not answer.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.SessionTimeout <= 0 {
		cfg.SessionTimeout = defaultTimeout
	}
	if cfg.ConnectionTimeout <= 0 {
		cfg.ConnectionTimeout = cfg.SessionTimeout
	}
	if cfg.MaxInFlight <= 0 {
		cfg.MaxInFlight = defaultInFlight
	}
	if cfg.MaxRequestBytes <= 0 {
		cfg.MaxRequestBytes = defaultLargest
	}
	if cfg.Logger == nil {
		return nil, errors.New("zkcoord: no logger")
	}
	servers, chroot, err := SplitConnect(cfg.Connect)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.ConnectionTimeout,
		fmt.Errorf("no session with ZooKeeper at %s within %v", strings.Join(servers, ","), cfg.ConnectionTimeout))
	defer cancel()
	hosts := new(hostList)
	if chroot != "" {
		if hosts.first, err = createChroot(ctx, cfg, servers, chroot); err != nil {
			return nil, err
		}
	}
	return open(ctx, cfg, servers, chroot, hosts)
}

// createChroot makes sure that there is the chroot, and returns the server that answered.
func createChroot(ctx context.Context, cfg Config, servers []string, chroot string) (answered string, err error) {
	hosts := new(hostList)
	c, err := open(ctx, cfg, servers, "", hosts)
	if err != nil {
		return "", err
	}
	defer c.Close()
	found, err := c.exists(ctx, chroot)
	switch {
	case err == nil && !found && cfg.KeepChroot:
		return "", fmt.Errorf("the chroot %s does not exist", chroot)
	case err == nil && !found:
		err = c.ensurePath(ctx, chroot)
	}
	if err != nil {
		return "", fmt.Errorf("create chroot %s: %w", chroot, err)
	}
	return hosts.latest(), nil
}

func open(ctx context.Context, cfg Config, servers []string, chroot string, hosts *hostList) (*Client, error) {
	c := &Client{
		cfg:    cfg,
		log:    cfg.Logger,
		chroot: chroot,
		hosts:  hosts,
		way:    &dialer{tls: cfg.TLS, login: cfg.Login, patience: Patience(cfg.SessionTimeout, len(servers)), log: cfg.Logger},
		events: newDispatcher(),
		closed: make(chan struct{}),
	}
	c.session.init()
	attached := make(chan struct{}) // the library reports events before Connect has returned
	conn, _, err := zk.Connect(servers, cfg.SessionTimeout,
		zk.WithHostProvider(c.hosts),
		zk.WithDialer(c.way.dial),
		zk.WithLogger(libraryLog{cfg.Logger}),
		zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(requestLimit),
		zk.WithEventCallback(func(e zk.Event) {
			<-attached
			c.onLibraryEvent(e)
		}))
	if err != nil {
		return nil, err
	}
	c.conn = boundedConn{conn, cfg.MaxRequestBytes}
	close(attached)
	select {
	case <-c.session.first:
		time.Sleep(watchSetupPause)
		return c, nil
	case <-ctx.Done():
		c.Close()
		return nil, c.way.because(context.Cause(ctx))
	}
}

// Close ends the session, which removes its registrations, and waits for the event goroutine. Calls in progress return
// ErrClosed.
func (c *Client) Close() {
	c.closing.Do(func() {
		close(c.closed)
		c.conn.Close()
		c.events.stop()
	})
}

// Answers returns when the server has answered, or when ctx ends with its cause and the reason why there is no
// connection, if known.
func (c *Client) Answers(ctx context.Context) error {
	_, err := c.exists(ctx, "/brokers")
	if err != nil {
		return c.way.because(err)
	}
	return nil
}

// libraryLog logs the ZooKeeper library's lines at debug level: the client itself reports what matters.
type libraryLog struct{ entry *logrus.Entry }

// Printf implements the library's logger.
func (l libraryLog) Printf(format string, args ...any) {
	if l.entry.Logger.IsLevelEnabled(logrus.DebugLevel) {
		l.entry.WithField(logx.Value, fmt.Sprintf(format, args...)).Debug("zookeeper client")
	}
}
