package kafkatest_test

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"barnabas/internal/testwait"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// withToken logs in with a delegation token.
func withToken(id string, hmac []byte) sasl.Mechanism {
	return scram.Auth{User: id, Pass: base64.StdEncoding.EncodeToString(hmac), IsToken: true}.AsSha256Mechanism()
}

// TestDelegationTokens: tokens that one broker has created are accepted by another, in their owner's name, until they
// expire.
func TestDelegationTokens(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, secured(kafkatest.Brokers(2), kafkatest.Setting("delegation.token.secret.key", "abc"),
		kafkatest.Setting("delegation.token.max.lifetime.ms", "600000"), kafkatest.Setting("delegation.token.expiry.time.ms", "60000"))...)
	ctx := t.Context()
	alice := kadm.NewClient(clientWith(t, c.Broker(0), plain.Auth{User: "alice", Pass: "pw"}.AsMechanism()))
	token, err := alice.CreateDelegationToken(ctx, kadm.CreateDelegationToken{Renewers: []kadm.Principal{{Type: "User", Name: "admin"}}})
	if err != nil {
		t.Fatal(err)
	}
	if token.Owner != (kadm.Principal{Type: "User", Name: "alice"}) || token.MaxTimestamp.Sub(token.IssueTimestamp) != 10*time.Minute ||
		token.ExpiryTimestamp.Sub(token.IssueTimestamp) != time.Minute {
		t.Errorf("%+v", token)
	}

	login := func() *kgo.Client { return clientWith(t, c.Broker(1), withToken(token.TokenID, token.HMAC)) }
	testwait.Until(t, "a login at the other broker", func() bool { return ping(t, login()) == nil })
	if err := ping(t, clientWith(t, c.Broker(1), withToken(token.TokenID, []byte("wrong")))); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("with a wrong HMAC: %v", err)
	}
	if err := ping(t, clientWith(t, c.Broker(1), withToken("unknown", token.HMAC))); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("with a wrong id: %v", err)
	}
	held := kadm.NewClient(login())
	if _, err := held.CreateDelegationToken(ctx, kadm.CreateDelegationToken{}); !errors.Is(err, kerr.DelegationTokenRequestNotAllowed) {
		t.Errorf("creating a token after a login with a token: %v", err)
	}
	if _, err := kadm.NewClient(client(t, c)).DescribeDelegationTokens(ctx); !errors.Is(err, kerr.DelegationTokenRequestNotAllowed) {
		t.Errorf("without a login: %v", err)
	}

	admin := kadm.NewClient(clientWith(t, c.Broker(1), plain.Auth{User: "admin", Pass: "between"}.AsMechanism()))
	if tokens, err := admin.DescribeDelegationTokens(ctx); err != nil || len(tokens) != 1 || tokens[0].TokenID != token.TokenID {
		t.Errorf("tokens: %+v, %v", tokens, err)
	}
	if tokens, err := admin.DescribeDelegationTokens(ctx, kadm.Principal{Type: "User", Name: "bob"}); err != nil || len(tokens) != 0 {
		t.Errorf("another user's tokens: %+v, %v", tokens, err)
	}
	until, err := admin.RenewDelegationToken(ctx, token.HMAC, time.Hour)
	if err != nil || !until.Equal(token.MaxTimestamp) {
		t.Errorf("renewed until %v, %v", until, err)
	}
	if _, err := alice.ExpireDelegationToken(ctx, token.HMAC, -time.Millisecond); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "its end at the other broker", func() bool { return errors.Is(ping(t, login()), kerr.SaslAuthenticationFailed) })
	if _, err := alice.RenewDelegationToken(ctx, token.HMAC, -time.Millisecond); !errors.Is(err, kerr.DelegationTokenNotFound) {
		t.Errorf("renewed after its expiry: %v", err)
	}
}

// TestNoDelegationTokens: without delegation.token.secret.key no tokens can be created.
func TestNoDelegationTokens(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, secured()...)
	alice := kadm.NewClient(clientWith(t, c.Broker(0), plain.Auth{User: "alice", Pass: "pw"}.AsMechanism()))
	if _, err := alice.CreateDelegationToken(t.Context(), kadm.CreateDelegationToken{}); !errors.Is(err, kerr.DelegationTokenAuthDisabled) {
		t.Error(err)
	}
	if _, err := alice.DescribeDelegationTokens(t.Context()); !errors.Is(err, kerr.DelegationTokenAuthDisabled) {
		t.Error(err)
	}
}

// TestDelegationTokensOfOthers: creating and seeing other users' tokens needs rights (KIP-373).
func TestDelegationTokensOfOthers(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, secured(kafkatest.Setting("delegation.token.secret.key", "abc"),
		kafkatest.Setting("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"), kafkatest.Setting("super.users", "User:admin"))...)
	ctx, bob := t.Context(), kadm.Principal{Type: "User", Name: "bob"}
	as := func(user, password string) *kadm.Client {
		return kadm.NewClient(clientWith(t, c.Broker(0), plain.Auth{User: user, Pass: password}.AsMechanism()))
	}
	alice, admin := as("alice", "pw"), as("admin", "between")
	if _, err := alice.CreateDelegationToken(ctx, kadm.CreateDelegationToken{Owner: &bob}); !errors.Is(err, kerr.DelegationTokenAuthorizationFailed) {
		t.Errorf("without the right: %v", err)
	}
	token, err := admin.CreateDelegationToken(ctx, kadm.CreateDelegationToken{Owner: &bob})
	if err != nil || token.Owner != bob || token.TokenRequesterPrincipal.Name != "admin" {
		t.Fatalf("%+v, %v", token, err)
	}
	if _, err := admin.CreateDelegationToken(ctx, kadm.CreateDelegationToken{Renewers: []kadm.Principal{{Type: "Group", Name: "x"}}}); !errors.Is(err, kerr.InvalidPrincipalType) {
		t.Errorf("a renewer that is not a user: %v", err)
	}
	if tokens, err := alice.DescribeDelegationTokens(ctx); err != nil || len(tokens) != 0 {
		t.Errorf("alice sees %+v, %v", tokens, err)
	}
	if tokens, err := admin.DescribeDelegationTokens(ctx); err != nil || len(tokens) != 1 {
		t.Errorf("admin sees %+v, %v", tokens, err)
	}
	if err := ping(t, clientWith(t, c.Broker(0), withToken(token.TokenID, token.HMAC))); err != nil {
		t.Error(err)
	}
}
