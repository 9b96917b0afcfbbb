package sasl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"barnabas/network/oauth"
)

// OAuthBearerName is the mechanism for OAuth 2 tokens (RFC 7628).
const OAuthBearerName = "OAUTHBEARER"

// OAuthBearer returns a constructor of logins with OAUTHBEARER. check validates a token and returns its user.
func OAuthBearer(check func(ctx context.Context, token string) (Login, error)) func() Exchange {
	return func() Exchange { return &bearer{check: check} }
}

type bearer struct {
	check  func(ctx context.Context, token string) (Login, error)
	who    Login
	proved bool
	over   bool
	told   string // the error sent to the client, which must acknowledge it
	why    error  // the real reason, which the client is not told
}

var errBearer = errors.New("malformed OAUTHBEARER message")

// Step implements Exchange. An invalid token is answered with a JSON object, which the client acknowledges before the
// login fails.
func (b *bearer) Step(ctx context.Context, message []byte) ([]byte, error) {
	if b.told != "" {
		return nil, fmt.Errorf("%w: %w", Refusal{b.told}, b.why)
	}
	if b.over {
		return nil, Refusal{"the login is already complete"}
	}
	b.over = true
	authzID, token, err := parseBearer(string(message))
	if err != nil {
		return nil, err
	}
	who, err := b.check(ctx, token)
	if err != nil {
		b.told, b.why = `{"status":"invalid_token"}`, err
		if wrong := (oauth.WrongScope{}); errors.As(err, &wrong) {
			b.told = `{"status":"insufficient_scope", "scope":"[` + strings.Join(wrong.Wanted, ", ") + `]"}`
		}
		return []byte(b.told), nil
	}
	b.who = who
	if authzID != "" && authzID != who.User {
		return nil, Refusal{"a user cannot act as another one"}
	}
	b.proved = true
	return []byte{}, nil
}

// Login implements Exchange.
func (b *bearer) Login() (Login, bool) { return b.who, b.proved }

// maxPairs bounds the cost of a message that consists of separators only.
const maxPairs = 100

// parseBearer parses the client's first message: n,[a=AUTHZID],^A KEY=VALUE^A ... ^A, one of which must be auth=Bearer
// TOKEN.
func parseBearer(message string) (authzID, token string, err error) {
	header, pairs, ok := strings.Cut(message, "\x01")
	flag, authz, _ := strings.Cut(header, ",")
	authz, comma := strings.CutSuffix(authz, ",")
	if !ok || flag != "n" || !comma {
		return "", "", errBearer
	}
	if authz != "" {
		if authzID, ok = strings.CutPrefix(authz, "a="); !ok || authzID == "" {
			return "", "", errBearer
		}
	}
	pairs, closed := strings.CutSuffix(pairs, "\x01\x01")
	fields := strings.SplitN(pairs, "\x01", maxPairs+1)
	if !closed || len(fields) > maxPairs {
		return "", "", errBearer
	}
	for _, field := range fields {
		key, value, ok := strings.Cut(field, "=")
		if !ok || key == "" {
			return "", "", errBearer
		}
		if key != "auth" {
			continue // an extension: all are accepted and ignored
		}
		scheme, credential, ok := strings.Cut(value, " ")
		if token = strings.TrimLeft(credential, " "); !ok || !strings.EqualFold(scheme, "bearer") || token == "" {
			return "", "", errBearer
		}
	}
	if token == "" {
		return "", "", errBearer
	}
	return authzID, token, nil
}
