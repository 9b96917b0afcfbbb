package tools

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"barnabas/network/ssl"
)

// dialTimeout is the default of socket.connection.setup.timeout.ms in Apache Kafka's clients.
const dialTimeout = 10 * time.Second

// tlsDialer returns a dialer for brokers with the ssl.* settings.
func tlsDialer(p properties) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	secured, err := ssl.ForClient(p)
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
