package tools

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"barnabas/network/ssl"
	"barnabas/zkcoord"

	"github.com/go-zookeeper/zk"
	"github.com/sirupsen/logrus"
)

// sslDefaults are those of Apache Kafka's clients.
var sslDefaults = map[string]string{
	"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.2,TLSv1.3", "ssl.endpoint.identification.algorithm": "https",
	"ssl.keystore.type": "JKS", "ssl.truststore.type": "JKS",
}

// tlsContext makes TLS of the settings ssl.*, as brokers do. Settings have that prefix instead of ssl, if it is another one.
func tlsContext(p properties, prefix string) (*ssl.Context, error) {
	return ssl.New(ssl.Settings{Get: func(name string) (as, value string, set bool) {
		as = prefix + name[len("ssl"):]
		if value, set = p[as]; !set {
			value, set = sslDefaults[name]
		}
		return as, value, set
	}})
}

// dialTimeout is that of socket.connection.setup.timeout.ms when it is not set, in Apache Kafka's clients.
const dialTimeout = 10 * time.Second

// tlsDialer opens connections to brokers with the settings ssl.*.
func tlsDialer(p properties) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	secured, err := tlsContext(p, "ssl")
	if err != nil {
		return nil, err
	}
	timeout, err := p.millis("socket.connection.setup.timeout.ms", dialTimeout)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		socket, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(socket, secured.Client(host))
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = socket.Close()
			if hint := ssl.Hint(err); hint != "" {
				err = fmt.Errorf("%w (%s)", err, hint)
			}
			return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
		}
		return conn, nil
	}, nil
}

// zkTLS is how to speak to ZooKeeper by a file of settings zookeeper.ssl.*, each maybe with authorizer. before it; nil for no file:
// in plaintext.
func zkTLS(file string) (func(host string) *tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	p, err := readProperties(file)
	if err != nil {
		return nil, err
	}
	get := func(name string) (value string, set bool) {
		if value, set = p["authorizer."+name]; !set {
			value, set = p[name]
		}
		return value, set
	}
	if enabled, set := get("zookeeper.ssl.client.enable"); set && !strings.EqualFold(enabled, "true") {
		return nil, nil
	}
	made, err := ssl.ForZooKeeper(get)
	if err != nil {
		return nil, err
	}
	return made.Client, nil
}

// connectZooKeeper opens a session in silence, by TLS if a file of settings says so. option is what the place was given by.
func connectZooKeeper(ctx context.Context, option, connect, tlsFile string, keepChroot bool) (*zkcoord.Client, error) {
	encryption, err := zkTLS(tlsFile)
	if err != nil {
		return nil, err
	}
	zk, err := zkcoord.Connect(ctx, zkcoord.Config{
		Connect: connect, ConnectionTimeout: zkTimeout, KeepChroot: keepChroot, TLS: encryption, Logger: silence(),
	})
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", option, connect, err)
	}
	return zk, nil
}

// silence is where what brokers would log goes to.
func silence() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return logrus.NewEntry(log)
}

// zkDialer connects to ZooKeeper for its library; without encryption in plaintext.
func zkDialer(encryption func(host string) *tls.Config) zk.Dialer {
	if encryption == nil {
		return net.DialTimeout
	}
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, addr, encryption(host))
	}
}
