package tools

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"barnabas/network/ssl"
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
