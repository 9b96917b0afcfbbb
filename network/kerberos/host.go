package kerberos

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"
)

// longestLookup bounds the lookup of a host name.
const longestLookup = 5 * time.Second

// Resolver looks up the names of hosts, as *net.Resolver does.
type Resolver interface {
	LookupHost(ctx context.Context, host string) (addrs []string, err error)
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
}

// principalHost returns a host's name in principals, in lower case. As in Java, the name is looked up if the host was
// reached by its address, and a name without a domain is completed with that of the host.
func principalHost(ctx context.Context, n Resolver, host string) string {
	ctx, cancel := context.WithTimeout(ctx, longestLookup)
	defer cancel()
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if net.ParseIP(host) != nil {
		if name := CanonicalHost(ctx, n, host); name != "" {
			return name
		}
		return host
	}
	if strings.Contains(host, ".") {
		return host
	}
	addrs, err := n.LookupHost(ctx, host)
	if err != nil || len(addrs) == 0 {
		return host
	}
	if name := CanonicalHost(ctx, n, addrs[0]); strings.HasPrefix(name, host+".") {
		return name
	}
	return host
}

// CanonicalHost returns the first name of an address, in lower case, or an empty string if it has none. As in Java
// (InetAddress.getCanonicalHostName), a name that does not lead back to the address does not count.
func CanonicalHost(ctx context.Context, n Resolver, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, longestLookup)
	defer cancel()
	all, err := n.LookupAddr(ctx, addr)
	if err != nil || len(all) == 0 {
		return ""
	}
	name := strings.ToLower(strings.TrimSuffix(all[0], "."))
	back, err := n.LookupHost(ctx, name)
	if err != nil || !slices.ContainsFunc(back, func(b string) bool { return net.ParseIP(b).Equal(net.ParseIP(addr)) }) {
		return ""
	}
	return name
}
