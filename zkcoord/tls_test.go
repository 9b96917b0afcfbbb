package zkcoord_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testcert"
	"barnabas/internal/testlog"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zktest"
)

// tlsInFrontOf starts a proxy that terminates TLS for a plaintext server, and returns its address.
func tlsInFrontOf(t *testing.T, server string, config *tls.Config) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = from.Close() }()
				to, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(to, from)
					_ = to.Close()
				}()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
	return l.Addr().String()
}

// TestSessionOverTLS: sessions work over TLS, and if there is none, a server's untrusted certificate is named as the
// reason.
func TestSessionOverTLS(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	server, _, _ := strings.Cut(zktest.Connect(t), "/")
	addr := tlsInFrontOf(t, server, &tls.Config{Certificates: []tls.Certificate{ca.Issue("zk", "127.0.0.1").TLS()}})
	cfg := zkcoord.Config{Connect: addr + "/over-tls", SessionTimeout: 5 * time.Second, Logger: testlog.Quiet(),
		TLS: func(host string) *tls.Config { return &tls.Config{RootCAs: ca.Pool(), ServerName: host} }}
	zk, err := zkcoord.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer zk.Close()
	if err := zk.EnsureTopNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id, err := zk.ClusterID(t.Context()); err != nil || id == "" {
		t.Errorf("the cluster's id is %q, %v", id, err)
	}

	cfg.ConnectionTimeout = time.Second
	cfg.TLS = func(host string) *tls.Config { return &tls.Config{ServerName: host} }
	if _, err := zkcoord.Connect(t.Context(), cfg); !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("an unknown authority: %v", err)
	}
}
