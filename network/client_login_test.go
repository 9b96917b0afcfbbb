package network

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"barnabas/network/sasl"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// saslAPIs answers the requests of a login as a broker does, and Metadata.
type saslAPIs struct{}

func (saslAPIs) Route(_ *Conn, key, version int16) (Route, error) {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	return Route{FlexibleRequest: req.IsFlexible(), FlexibleResponse: req.IsFlexible()}, nil
}

func (saslAPIs) Refuse(*Request, error) (Answer, error) { return Answer{}, errNotYet }

func (saslAPIs) Handle(_ context.Context, r *Request) (Answer, error) {
	req := kmsg.RequestForKey(r.Key)
	req.SetVersion(r.Version)
	if err := req.ReadFrom(r.Body); err != nil {
		return Answer{}, err
	}
	resp := req.ResponseKind()
	switch req := req.(type) {
	case *kmsg.SASLHandshakeRequest:
		out := resp.(*kmsg.SASLHandshakeResponse)
		offered, err := r.Conn.Handshake(req.Mechanism, r.Version)
		out.ErrorCode, out.SupportedMechanisms = errorCode(err), offered
	case *kmsg.SASLAuthenticateRequest:
		out := resp.(*kmsg.SASLAuthenticateResponse)
		answer, lifetime, err := r.Conn.Authenticate(req.SASLAuthBytes, r.Version)
		out.ErrorCode, out.SASLAuthBytes, out.SessionLifetimeMillis = errorCode(err), answer, lifetime.Milliseconds()
		if err != nil {
			text := err.Error()
			out.ErrorMessage = &text
		}
	}
	return Ready(resp), nil
}

func TestClientLogsIn(t *testing.T) {
	s, addr := saslListener(t, saslAPIs{}, sasl.Server{Mechanisms: []sasl.Mechanism{{Name: sasl.PlainName, MaxLifetime: time.Hour}}})
	d := Dialer{SASL: &sasl.Client{Mechanism: sasl.PlainName, User: "alice", Password: "pw"}}
	c, err := d.Dial(t.Context(), addr.String(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if left := time.Until(c.again); left < 45*time.Minute || left > 55*time.Minute {
		t.Errorf("with an hour's session it re-authenticates after %v", left)
	}
	for range 2 {
		if _, err := c.Do(t.Context(), kmsg.NewPtrMetadataRequest()); err != nil {
			t.Fatal(err)
		}
		c.again = time.Now().Add(-time.Second) // the session is due for re-authentication
	}
	if n := s.Authentications()["SASL_PLAINTEXT"]; n.Succeeded.Load() != 1 || n.Again.Load() != 1 {
		t.Errorf("it has logged in %d times and re-authenticated %d times", n.Succeeded.Load(), n.Again.Load())
	}
}

// TestReloginAfter: a session without an end in sight is not due at once.
func TestReloginAfter(t *testing.T) {
	for lifetime, want := range map[int64]time.Duration{1000: 850 * time.Millisecond, math.MaxInt64: 248 * 365 * 24 * time.Hour} {
		if after := reloginAfter(lifetime); after < want || after > want+want/100 {
			t.Errorf("with a session of %d ms it re-authenticates after %v", lifetime, after)
		}
	}
}

func TestClientIsRefused(t *testing.T) {
	_, addr := saslListener(t, saslAPIs{}, sasl.Server{})
	for _, test := range []struct {
		name   string
		client sasl.Client
		want   error
		says   string
	}{
		{"wrong password", sasl.Client{Mechanism: sasl.PlainName, User: "alice", Password: "s3cret"}, kerr.SaslAuthenticationFailed, "PLAIN as alice"},
		{"another mechanism", sasl.Client{Mechanism: "SCRAM-SHA-256", User: "alice", Password: "s3cret"}, kerr.UnsupportedSaslMechanism, "[PLAIN]"},
	} {
		_, err := Dialer{SASL: &test.client}.Dial(t.Context(), addr.String(), "test")
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestLoginEndsWithItsContext: a login ends with its context if the server does not answer.
func TestLoginEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		c, err := silent.Accept()
		if err == nil {
			_, _ = c.Read(make([]byte, 1)) // the client has begun to log in
			defer func() { _ = c.Close() }()
		}
		cancel(why)
		<-t.Context().Done()
	}()
	d := Dialer{SASL: &sasl.Client{Mechanism: sasl.PlainName, User: "alice", Password: "pw"}}
	if _, err := d.Dial(ctx, silent.Addr().String(), "test"); !errors.Is(err, why) {
		t.Error(err)
	}
}
