package tools

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reachTimeout bounds one attempt to connect.
const reachTimeout = 3 * time.Second

// listeners checks the addresses that brokers give to clients which connect like this one, and tries them from here.
func (d *doctor) listeners(ctx context.Context) error {
	meta, err := fetchMetadata(ctx, d.cl)
	if err != nil {
		return err
	}
	seeds, err := bootstrapServers(*d.o.bootstrap)
	if err != nil {
		return err
	}
	encrypted, err := d.encryption()
	if err != nil {
		return err
	}
	local := allLoopback(seeds)
	for _, b := range meta.Brokers {
		subject := "broker " + number(b.NodeID)
		addr := d.listener(ctx, b, local)
		if addr == "" {
			continue
		}
		switch understood, err := d.checkProtocol(ctx, subject, addr); {
		case err != nil:
			return err
		case understood && encrypted != nil:
			d.encrypted(ctx, subject, addr, encrypted)
		}
	}
	return nil
}

// encryption returns a dialer with TLS if this client uses it.
func (d *doctor) encryption() (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	p, err := readProperties(*d.o.config)
	if err != nil || !strings.HasSuffix(strings.ToUpper(p["security.protocol"]), "SSL") {
		return nil, err
	}
	return tlsDialer(p)
}

// encrypted checks whether TLS works at an address that can be reached. Its certificate may have other names than the
// address that this client was given.
func (d *doctor) encrypted(ctx context.Context, subject, addr string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		d.trouble(subject, "the broker's ssl.keystore.* must have a certificate for each name in advertised.listeners, from an authority in the clients' ssl.truststore.*",
			"the TLS handshake fails: %v.", err)
		return
	}
	defer func() { _ = conn.Close() }()
	if encrypted, ok := conn.(*tls.Conn); ok {
		d.certificate(subject, encrypted.ConnectionState().PeerCertificates[0])
	}
}

// soonExpired is how long before its expiry a certificate is reported.
const soonExpired = 30 * 24 * time.Hour

func (d *doctor) certificate(subject string, shown *x509.Certificate) {
	const renew = "put a new certificate into the keystore of the broker's ssl.keystore.*; the broker reads it again when the setting is set again"
	switch left := shown.NotAfter.Sub(d.now); {
	case left <= 0:
		d.trouble(subject, renew, "its certificate expired at %s: no client that verifies it can connect.", at(shown.NotAfter.UnixMilli()))
	case left < soonExpired:
		d.warn(subject, renew, "its certificate expires in %s, at %s: after that, no client that verifies it can connect.", lasting(left), at(shown.NotAfter.UnixMilli()))
	default:
		d.note(subject, "the TLS handshake succeeds; the certificate is valid until %s.", at(shown.NotAfter.UnixMilli()))
	}
}

// listener tries a broker's address, and returns it if it can be reached.
func (d *doctor) listener(ctx context.Context, b kmsg.MetadataResponseBroker, local bool) string {
	subject, addr := "broker "+number(b.NodeID), net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	const advertise = "set advertised.listeners on that broker to an address that clients can resolve and reach; listeners is only what it binds to"
	if !local && loopback(b.Host) {
		d.trouble(subject, advertise, "clients are told to connect to %s, which is the client's own machine, wherever it runs.", addr)
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		d.trouble(subject, advertise, "clients are told to connect to %s, a name that cannot be resolved here: %v.", addr, dns.Err)
	case errors.Is(err, context.DeadlineExceeded):
		d.trouble(subject, "look at firewalls and routes between here and there; or "+advertise, "clients are told to connect to %s, where nothing answers within %v.", addr, reachTimeout)
	case err != nil:
		d.trouble(subject, "is the broker up, and are the port and published container ports right? Else "+advertise, "clients are told to connect to %s, which fails: %v.", addr, err)
	default:
		_ = conn.Close()
		d.note(subject, "clients that connect as this one did are told %s, which can be reached from here.", addr)
		return addr
	}
	return ""
}

// allLoopback reports whether all addresses are this machine: then brokers may advertise loopback addresses.
func allLoopback(addrs []string) bool {
	for _, a := range addrs {
		host, _, err := net.SplitHostPort(a)
		if err != nil || !loopback(host) {
			return false
		}
	}
	return true
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
