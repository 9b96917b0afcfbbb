package zklogin

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"

	"barnabas/network/kerberos"
)

// servers determines the Kerberos principals of the ZooKeeper servers (SaslServerPrincipal of ZooKeeper's client, 3.8).
type servers struct {
	service string
	host    string // of all servers; empty: each has its own
	aliases bool   // a server's host name is the one that it was reached by
	names   kerberos.Resolver
}

func serversOf(c Config) (servers, error) {
	s := servers{service: cmp.Or(c.Service, Service), aliases: c.Aliases, names: net.DefaultResolver}
	if c.Principal == "" {
		return s, nil
	}
	// The realm is ignored: the KDC knows it, and ZooKeeper's client drops it as well (SecurityUtils.createSaslClient,
	// 3.8).
	name, _, _ := strings.Cut(c.Principal, "@")
	service, host, found := strings.Cut(name, "/")
	if !found || service == "" || host == "" {
		return s, fmt.Errorf("zookeeper.server.principal=%s: must be SERVICE/HOST or SERVICE/HOST@REALM", c.Principal)
	}
	s.service, s.host = service, host
	return s, nil
}

// principal returns the two parts of the principal of a server that was reached at an address by a host name.
func (s servers) principal(ctx context.Context, host string, addr net.Addr) (service, onHost string) {
	if s.host != "" {
		return s.service, s.host
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && !s.aliases {
		host = cmp.Or(kerberos.CanonicalHost(ctx, s.names, tcp.IP.String()), host)
	}
	return s.service, host
}
