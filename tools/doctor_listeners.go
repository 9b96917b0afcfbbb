package tools

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reachTimeout bounds one attempt to connect.
const reachTimeout = 3 * time.Second

// listeners looks at the addresses that brokers give to clients which connect as this one did, and tries them from here.
func (d *doctor) listeners(ctx context.Context) error {
	meta, err := fetchMetadata(ctx, d.cl)
	if err != nil {
		return err
	}
	seeds, err := bootstrapServers(*d.o.bootstrap)
	if err != nil {
		return err
	}
	local := allLoopback(seeds)
	for _, b := range meta.Brokers {
		d.listener(ctx, b, local)
	}
	return nil
}

func (d *doctor) listener(ctx context.Context, b kmsg.MetadataResponseBroker, local bool) {
	subject, addr := "broker "+number(b.NodeID), net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	const advertise = "set advertised.listeners on that broker to an address that clients can resolve and reach; listeners is only what it binds to"
	if !local && loopback(b.Host) {
		d.trouble(subject, advertise, "clients are told to connect to %s, which is the client's own machine wherever it runs.", addr)
		return
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
	}
}

// allLoopback tells whether all addresses are this machine: then brokers may well advertise that.
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
