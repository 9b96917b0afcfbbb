package zklogin

import (
	"context"
	"errors"
	"net"
	"testing"
)

// zone maps hosts to their addresses and addresses to their names.
type zone map[string]string

func (z zone) LookupHost(_ context.Context, host string) ([]string, error) {
	if found, ok := z[host]; ok {
		return []string{found}, nil
	}
	return nil, errors.New("no such host")
}

func (z zone) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	return z.LookupHost(ctx, addr)
}

// TestPrincipalsOfServers has the cases of ZooKeeper 3.8's ClientCanonicalizeTest.
func TestPrincipalsOfServers(t *testing.T) {
	z := zone{"zk1.example.com": "192.0.2.1", "192.0.2.1": "zk1.example.com.", "192.0.2.2": "spoof.example.com", "spoof.example.com": "192.0.2.9"}
	for _, row := range []struct {
		name          string
		config        Config
		host, addr    string
		service, want string
	}{
		{"an alias", Config{}, "zk.example.com", "192.0.2.1", "zookeeper", "zk1.example.com"},
		{"an alias that counts", Config{Aliases: true}, "zk.example.com", "192.0.2.1", "zookeeper", "zk.example.com"},
		{"an address without a name", Config{}, "zk.example.com", "192.0.2.3", "zookeeper", "zk.example.com"},
		{"a name of another address", Config{}, "zk.example.com", "192.0.2.2", "zookeeper", "zk.example.com"},
		{"another service", Config{Service: "zk"}, "zk.example.com", "192.0.2.1", "zk", "zk1.example.com"},
		{"a principal", Config{Principal: "zoo/any.example.com", Service: "zk"}, "zk.example.com", "192.0.2.1", "zoo", "any.example.com"},
		{"a principal with a realm", Config{Principal: "zoo/any.example.com@EXAMPLE.COM"}, "zk.example.com", "192.0.2.1", "zoo", "any.example.com"},
	} {
		s, err := serversOf(row.config)
		if err != nil {
			t.Fatal(err)
		}
		s.names = z
		service, host := s.principal(t.Context(), row.host, &net.TCPAddr{IP: net.ParseIP(row.addr), Port: 2181})
		if service != row.service || host != row.want {
			t.Errorf("%s: %s/%s, want %s/%s", row.name, service, host, row.service, row.want)
		}
	}
	for _, wrong := range []string{"zookeeper", "zookeeper@R", "/h", "zookeeper/"} {
		if _, err := serversOf(Config{Principal: wrong}); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
