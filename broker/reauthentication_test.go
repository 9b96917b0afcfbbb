package broker

import (
	"context"
	"encoding/base64"
	"maps"
	"testing"
	"time"

	"barnabas/internal/scram"
	"barnabas/internal/testwait"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// scramListener starts a broker with a SCRAM listener that allows re-authentication, and returns its address.
func scramListener(t *testing.T, settings map[string]string) (*Server, string) {
	t.Helper()
	const login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	all := map[string]string{
		"listeners":                      "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT", "inter.broker.listener.name": "PLAINTEXT",
		"sasl.enabled.mechanisms": "SCRAM-SHA-256", "listener.name.secure.scram-sha-256.sasl.jaas.config": login,
		"connections.max.reauth.ms": "3600000", "connection.failed.authentication.delay.ms": "1", "delegation.token.secret.key": "abc",
	}
	maps.Copy(all, settings)
	s := newServer(t, zookeeper(t), all)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, s.Addr("SECURE")
}

const sha256 = "SCRAM-SHA-256"

func mechanism(t testing.TB) scram.Mechanism {
	t.Helper()
	m, ok := scram.Named(sha256)
	if !ok {
		t.Fatal("there is no " + sha256)
	}
	return m
}

// setPassword writes a user's credential and waits until the broker has it.
func setPassword(t *testing.T, s *Server, user, password, salt string, iterations int) {
	t.Helper()
	m := mechanism(t)
	salted, err := m.Salt(password, []byte(salt), iterations)
	if err != nil {
		t.Fatal(err)
	}
	before, had := s.credentials.User(sha256, user)
	set(t, s, "users", user, map[string]string{sha256: m.Credential([]byte(salt), salted, iterations)})
	testwait.Until(t, "the credential", func() bool {
		now, has := s.credentials.User(sha256, user)
		return has && (!had || string(now.Salt) != string(before.Salt) || string(now.StoredKey) != string(before.StoredKey))
	})
}

// client is a connection that can log in repeatedly.
type client struct {
	*network.Client
	t *testing.T
}

func connectTo(t *testing.T, addr string) client {
	t.Helper()
	c, err := network.Dialer{}.Dial(t.Context(), addr, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return client{c, t}
}

// logIn returns the error code of the last response and the session lifetime; -1 if the connection was closed.
func (c client) logIn(user, password string, token bool) (code int16, lifetime time.Duration) {
	c.t.Helper()
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Version, hello.Mechanism = 1, sha256
	if _, err := c.Do(c.t.Context(), hello); err != nil {
		return -1, 0
	}
	exchange := mechanism(c.t).NewClient(user, password, token)
	var answer []byte
	for {
		message, err := exchange.Step(answer)
		if err != nil {
			c.t.Fatal(err)
		}
		if message == nil {
			return code, lifetime
		}
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.Version, req.SASLAuthBytes = 2, message
		resp, err := c.Do(c.t.Context(), req)
		if err != nil {
			return -1, 0
		}
		r := resp.(*kmsg.SASLAuthenticateResponse)
		if code, lifetime = r.ErrorCode, time.Duration(r.SessionLifetimeMillis)*time.Millisecond; code != 0 {
			return code, 0
		}
		answer = append([]byte(nil), r.SASLAuthBytes...)
	}
}

// served reports whether the connection still exists.
func (c client) served() bool {
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	_, err := c.Do(ctx, kmsg.NewPtrMetadataRequest())
	return err == nil
}

// again waits until a client may re-authenticate.
func again() { time.Sleep(1100 * time.Millisecond) }

// TestReauthenticationUsesCurrentCredentials: a re-authentication is checked against what is stored at that time. A
// changed salt or number of iterations makes no difference to a client that knows the password; if the password was
// changed or the user removed, the connection is closed at the next login, not earlier.
func TestReauthenticationUsesCurrentCredentials(t *testing.T) {
	t.Parallel()
	s, addr := scramListener(t, nil)
	setPassword(t, s, "bob", "builder", "salt1", 4096)
	clients := make([]client, 3)
	for i := range clients {
		clients[i] = connectTo(t, addr)
		if code, lifetime := clients[i].logIn("bob", "builder", false); code != 0 || lifetime != time.Hour {
			t.Fatalf("the first login: %d, %v", code, lifetime)
		}
	}
	check := func(step string, c client, password string, want int16) {
		t.Helper()
		if !c.served() {
			t.Errorf("%s: the connection was closed before a login", step)
		}
		if code, _ := c.logIn("bob", password, false); code != want {
			t.Errorf("%s: %d, want %d", step, code, want)
		}
		if got := c.served(); got != (want == 0) {
			t.Errorf("%s: served %v", step, got)
		}
	}
	again()
	setPassword(t, s, "bob", "builder", "salt2", 8192)
	check("another salt", clients[0], "builder", 0)
	setPassword(t, s, "bob", "other", "salt3", 4096)
	check("another password", clients[1], "builder", kerr.SaslAuthenticationFailed.Code)
	again()
	check("the new password", clients[0], "other", 0)
	set(t, s, "users", "bob", map[string]string{})
	testwait.Until(t, "the removal", func() bool { _, there := s.credentials.User(sha256, "bob"); return !there })
	check("a user that is gone", clients[2], "other", kerr.SaslAuthenticationFailed.Code)
}

// TestTokensThatEndWhileConnected: a session lasts no longer than its token was valid when the session began; an
// expired token is not accepted again.
func TestTokensThatEndWhileConnected(t *testing.T) {
	t.Parallel()
	s, addr := scramListener(t, nil)
	testwait.Until(t, "the tokens", func() bool { return s.controller.Active() })
	made, err := s.tokens.Create(t.Context(), "User:alice", "User:alice", nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	secret := base64.StdEncoding.EncodeToString(made.HMAC)
	if _, err := s.tokens.Renew(t.Context(), "User:alice", made.HMAC, 5000); err != nil {
		t.Fatal(err)
	}
	short, long := connectTo(t, addr), connectTo(t, addr)
	if code, lifetime := short.logIn(made.ID, secret, true); code != 0 || lifetime <= 0 || lifetime > 5*time.Second {
		t.Fatalf("the login: %d, %v", code, lifetime)
	}
	if _, err := s.tokens.Renew(t.Context(), "User:alice", made.HMAC, 600_000); err != nil {
		t.Fatal(err)
	}
	if code, lifetime := long.logIn(made.ID, secret, true); code != 0 || lifetime < 9*time.Minute {
		t.Fatalf("after a renewal: %d, %v", code, lifetime)
	}
	testwait.Until(t, "the end of the session", func() bool { return !short.served() })
	again()
	if _, err := s.tokens.Expire(t.Context(), "User:alice", made.HMAC, -1); err != nil {
		t.Fatal(err)
	}
	if !long.served() {
		t.Error("the session does not end with its token")
	}
	if code, _ := long.logIn(made.ID, secret, true); code != kerr.SaslAuthenticationFailed.Code {
		t.Errorf("a later login with a revoked token: %d", code)
	}
	if long.served() {
		t.Error("the connection is still open")
	}
}
