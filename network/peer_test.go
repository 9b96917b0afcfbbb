package network

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"barnabas/internal/testcert"
	"barnabas/internal/testlog"
	"barnabas/network/sasl"
)

// patient is a login that waits for another server, which accepts alice when the test says so.
type patient struct {
	waits  chan<- context.Context // receives the contexts that bound the waits
	admit  <-chan struct{}
	proved bool
}

func (p *patient) Step(ctx context.Context, _ []byte) ([]byte, error) {
	p.waits <- ctx
	select {
	case <-p.admit:
		p.proved = true
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *patient) Login() (sasl.Login, bool) { return sasl.Login{User: "alice"}, p.proved }

// TestClientClosesDuringALogin: a client that closes its connection while its login waits is noticed, and does not
// count as a failed login. One that stays is logged in, whatever it has sent in the meantime.
func TestClientClosesDuringALogin(t *testing.T) {
	ca := testcert.NewAuthority(t, "ca")
	for name, encryption := range map[string]*TLS{
		"plaintext": nil,
		"TLS": {Config: func() *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{ca.Issue("server", "127.0.0.1").TLS()}}
		}, Hint: func(error) string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			waits, admit := make(chan context.Context), make(chan struct{})
			s := NewServer(Config{RequestMaxBytes: 1 << 20, QueuedMaxBytes: 1 << 20}, &login{}, testlog.Quiet())
			addr, err := s.Bind(Listener{Name: "L", Addr: "127.0.0.1:0", TLS: encryption, SASL: &sasl.Server{MaxReceive: 1000, FailureDelay: time.Hour,
				Mechanisms: []sasl.Mechanism{{Name: "PATIENT", Waits: true, Start: func() sasl.Exchange { return &patient{waits: waits, admit: admit} }}}}})
			if err != nil {
				t.Fatal(err)
			}
			s.Serve()
			t.Cleanup(s.Close)
			begin := func() net.Conn {
				var c net.Conn = dial(t, addr)
				if encryption != nil {
					c = tls.Client(c, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"})
				}
				requestTo(t, c, handshake, "PATIENT")
				if answer, err := readSized(c); err != nil || answer[4:] != "0[PATIENT]" {
					t.Fatalf("%q, %v", answer, err)
				}
				requestTo(t, c, authenticate, "x")
				return c
			}
			gone := begin()
			ctx := <-waits
			requestTo(t, gone, echoNow, "early")
			_ = gone.Close()
			<-ctx.Done()
			if why := context.Cause(ctx); why != io.EOF {
				t.Errorf("the login fails with %v", why)
			}
			stays := begin()
			ctx = <-waits
			requestTo(t, stays, echoNow, "early")
			close(admit)
			for _, want := range []string{"0  0", "User:alice"} {
				if answer, err := readSized(stays); err != nil || answer[4:] != want {
					t.Errorf("%q, %v", answer, err)
				}
			}
			requestTo(t, stays, echoNow, "")
			if answer, err := readSized(stays); err != nil || answer[4:] != "User:alice" || ctx.Err() != nil {
				t.Errorf("%q, %v", answer, err)
			}
			if n := s.Authentications()["L"]; n.Failed.Load() != 0 || n.Succeeded.Load() != 1 {
				t.Errorf("%d logins failed, %d succeeded", n.Failed.Load(), n.Succeeded.Load())
			}
		})
	}
}

// requestTo sends a request of version 1.
func requestTo(t *testing.T, c net.Conn, key int16, body string) {
	t.Helper()
	f := frame(key, 0, 1, body)
	binary.BigEndian.PutUint16(f[6:], 1)
	if _, err := c.Write(f); err != nil {
		t.Fatal(err)
	}
}
