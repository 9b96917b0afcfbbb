package kerberos

import (
	"context"
	"net"
	"strings"
	"time"
)

// longestLookup bounds the wait for the name of a host.
const longestLookup = 5 * time.Second

// names is what tells the names of hosts, as *net.Resolver does.
type names interface {
	LookupHost(ctx context.Context, host string) (addrs []string, err error)
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
}

// principalHost is what a host is called in principals: by its name, in small letters. As with Java, that of one that was reached
// by its address is looked up, and a name without a domain gets the one that its host has.
func principalHost(ctx context.Context, n names, host string) string {
	ctx, cancel := context.WithTimeout(ctx, longestLookup)
	defer cancel()
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if net.ParseIP(host) != nil {
		if name := nameOf(ctx, n, host); name != "" {
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
	if name := nameOf(ctx, n, addrs[0]); strings.HasPrefix(name, host+".") {
		return name
	}
	return host
}

// nameOf is an address's first name; empty: there is none.
func nameOf(ctx context.Context, n names, addr string) string {
	all, err := n.LookupAddr(ctx, addr)
	if err != nil || len(all) == 0 {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(all[0], "."))
}
