package kafkatest_test

import (
	"crypto/tls"
	"net"
	"testing"

	"barnabas/internal/testcert"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
)

// BenchmarkTLS does the same as BenchmarkProduce and BenchmarkFetch, over TLS and in plaintext for comparison. The
// client's share of the encryption is included, since it runs in the same process.
func BenchmarkTLS(b *testing.B) {
	for _, work := range []struct {
		name string
		do   func(b *testing.B, conn net.Conn)
	}{
		{"produce-16KiB", func(b *testing.B, conn net.Conn) {
			b.SetBytes(140 * 100)
			produceMany(b, conn, produceFrame(b, "t", 140, 100), 5)
		}},
		{"produce-100B", func(b *testing.B, conn net.Conn) {
			b.SetBytes(100)
			produceMany(b, conn, produceFrame(b, "t", 1, 100), 1)
		}},
		{"fetch-1MiB", fetchMany},
	} {
		ca := testcert.NewAuthority(b, "ca")
		settings := ca.Issue("broker", "127.0.0.1").Files(ca)
		for listener, dial := range map[string]func(addr string) (net.Conn, error){
			"PLAINTEXT": func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) },
			"SSL":       func(addr string) (net.Conn, error) { return tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool()}) },
		} {
			b.Run(work.name+"/"+listener, func(b *testing.B) {
				c := kafkatest.Run(b, kafkatest.Setting("listeners", "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"),
					kafkatest.PerBroker(func(int) map[string]string { return settings }))
				if _, err := kadm.NewClient(client(b, c)).CreateTopic(b.Context(), 1, 1, nil, "t"); err != nil {
					b.Fatal(err)
				}
				conn, err := dial(c.Broker(0).Listener(listener))
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				work.do(b, conn)
			})
		}
	}
}
