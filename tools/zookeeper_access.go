package tools

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"barnabas/config"
	"barnabas/network/ssl"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zklogin"

	"github.com/sirupsen/logrus"
)

// zkAccess says how a tool's ZooKeeper session is encrypted and authenticated.
type zkAccess struct {
	encryption func(host string) *tls.Config // nil: plaintext
	certified  bool                          // with a certificate to present
	login      *zklogin.Login                // nil: none

	session, connect time.Duration // the session's timeout, and the time limit for the first connection
}

// known reports whether ZooKeeper learns the user of the tool, so that nodes can be restricted to that user.
func (a zkAccess) known() bool { return a.login != nil || a.certified }

// zooKeeperAccess reads TLS from a file of settings zookeeper.ssl.*, if one is named, and the login from where brokers
// have theirs, according to the system properties in KAFKA_OPTS.
func zooKeeperAccess(env *Env, tlsFile string) (a zkAccess, err error) {
	a.session, a.connect = zkTimeout, zkTimeout
	if a.encryption, a.certified, err = zkTLS(env, tlsFile); err != nil {
		return a, err
	}
	a.login, err = zkLogin(func(name string) string { return env.Properties[name] })
	return a, err
}

// brokerZooKeeperAccess reads both from the settings of a broker.
func brokerZooKeeperAccess(b *config.Broker) (a zkAccess, err error) {
	a.session, a.connect = zkTimeout, zkTimeout
	if b.Bool("zookeeper.ssl.client.enable") {
		made, err := ssl.ForZooKeeper(b.Setting)
		if err != nil {
			return a, err
		}
		a.encryption, a.certified = made.Client, b.String("zookeeper.ssl.keystore.location") != ""
	}
	a.login, err = zkLogin(func(name string) string {
		value, _ := b.Setting(name)
		return value
	})
	return a, err
}

// zkLogin reads the login to ZooKeeper, nil if there is none.
func zkLogin(setting func(name string) string) (*zklogin.Login, error) {
	if isFalse(setting("zookeeper.sasl.client")) {
		return nil, nil
	}
	file := setting(config.LoginFileKey)
	login, err := zklogin.Read(zklogin.Config{File: file, Section: setting("zookeeper.sasl.clientconfig"), Krb5: krb5Conf(setting),
		Service: setting("zookeeper.sasl.client.username"), Principal: setting("zookeeper.server.principal"),
		Aliases: isFalse(setting("zookeeper.sasl.client.canonicalize.hostname"))})
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", config.LoginFileKey, file, err)
	}
	if login != nil {
		login.Optional = true
	}
	return login, nil
}

func isFalse(value string) bool { return strings.EqualFold(value, "false") }

// zkTLS reads a file of settings zookeeper.ssl.*, possibly with the prefix authorizer.; without a file it returns nil,
// for plaintext.
func zkTLS(env *Env, file string) (encryption func(host string) *tls.Config, certified bool, err error) {
	p, err := readProperties(file)
	if err != nil {
		return nil, false, err
	}
	get := func(name string) (value string, set bool) {
		for _, from := range []struct {
			settings map[string]string
			name     string
		}{{p, "authorizer." + name}, {p, name}, {env.Properties, name}} {
			if value, set = from.settings[from.name]; set {
				return value, true
			}
		}
		return "", false
	}
	if enabled, set := get("zookeeper.ssl.client.enable"); !set && file == "" || set && !strings.EqualFold(enabled, "true") {
		return nil, false, nil
	}
	made, err := ssl.ForZooKeeper(get)
	if err != nil {
		return nil, false, err
	}
	_, certified = get("zookeeper.ssl.keystore.location")
	return made.Client, certified, nil
}

// connectZooKeeper opens a session without logging. option is the option that gave the address; if secure is true,
// nodes that are created are restricted to the session's user.
func (a zkAccess) connectZooKeeper(ctx context.Context, option, connect string, keepChroot, secure bool) (*zkcoord.Client, error) {
	zk, err := zkcoord.Connect(ctx, zkcoord.Config{
		Connect: connect, ConnectionTimeout: a.connect, KeepChroot: keepChroot, TLS: a.encryption, Login: a.login, SecureNodes: secure,
		Logger: silence(),
	})
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", option, connect, err)
	}
	return zk, nil
}

// silence returns a logger that discards what brokers would log.
func silence() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return logrus.NewEntry(log)
}

// zkDialer connects to ZooKeeper for its library, and reports refused logins, which the library does not.
type zkDialer struct {
	zkAccess
	patience time.Duration // how long a server may take to open a session
	refused  chan error    // capacity 1
}

func newZKDialer(access zkAccess) *zkDialer {
	return &zkDialer{zkAccess: access, patience: access.session, refused: make(chan error, 1)}
}

func (d *zkDialer) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	conn, err := d.open(network, addr, host, timeout)
	if err != nil {
		return nil, err
	}
	conn = zkcoord.AnswersWithin(conn, d.patience)
	if d.login == nil {
		return conn, nil
	}
	return d.login.Over(conn, host, d.connect, func(err error) {
		if err == nil || d.login.Optional && errors.Is(err, zklogin.ErrNoSASL) {
			return
		}
		select {
		case d.refused <- err:
		default:
		}
	}), nil
}

func (d *zkDialer) open(network, addr, host string, timeout time.Duration) (net.Conn, error) {
	if d.encryption == nil {
		return net.DialTimeout(network, addr, timeout)
	}
	return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, addr, d.encryption(host))
}
