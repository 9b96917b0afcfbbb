package zkcoord

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
)

const defaultPort = "2181"

// SplitConnect parses a zookeeper.connect string: host[:port],...[/chroot]. The returned chroot has no trailing slash,
// and is empty for the root.
func SplitConnect(connect string) (servers []string, chroot string, err error) {
	hosts, rest, found := strings.Cut(strings.TrimSpace(connect), "/")
	if found {
		chroot = "/" + strings.Trim(rest, "/")
	}
	if chroot == "/" {
		chroot = ""
	}
	if strings.Contains(chroot, "//") {
		return nil, "", fmt.Errorf("the chroot %s has an empty level", chroot)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		host = strings.TrimSpace(host)
		if host == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
		}
		servers = append(servers, host)
	}
	if len(servers) == 0 {
		return nil, "", errors.New("no host is given")
	}
	return servers, chroot, nil
}

// hostList returns the servers in turn. Unlike the library's own list it leaves name resolution to the dialer, so that
// a server that has moved is found, and it requests a pause only after all of them have failed, not before each
// reconnection to a single server.
type hostList struct {
	first string // the server to begin with; empty: any
	mu    struct {
		sync.Mutex
		servers []string
		next    int
		failed  int // attempts since the last success
	}
}

// Init sets the servers; the library calls it first.
func (h *hostList) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.servers, h.mu.next = servers, max(0, slices.Index(servers, h.first))
	return nil
}

// NewHostProvider returns a list of servers for the library that does not resolve their names, which certificates and
// tickets must match.
func NewHostProvider() zk.HostProvider { return new(hostList) }

// Len returns the number of servers.
func (h *hostList) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.mu.servers)
}

// Next returns the server to try, and whether all have been tried in vain.
func (h *hostList) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.mu.servers[h.mu.next%len(h.mu.servers)]
	h.mu.next++
	h.mu.failed++
	return server, h.mu.failed > len(h.mu.servers)
}

// latest returns the server that was tried last: the one that is connected, if one is.
func (h *hostList) latest() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.servers[(h.mu.next-1)%len(h.mu.servers)]
}

// Connected ends a round of attempts.
func (h *hostList) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.failed = 0
}
