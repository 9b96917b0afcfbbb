package sasl

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// OAuthBearerName is the mechanism that shows a token of OAuth 2 (RFC 7628).
const OAuthBearerName = "OAUTHBEARER"

// Unsecured says which tokens without a signature are good. They are for development: whoever makes one is who it says
// (OAuthBearerUnsecuredValidatorCallbackHandler, 3.9).
type Unsecured struct {
	PrincipalClaim string   // that holds the user's name
	ScopeClaim     string   // that holds what the token is for
	RequiredScope  []string // what it must be for
	ClockSkew      time.Duration
}

// OAuthBearer makes logins of the mechanism OAUTHBEARER with the tokens that check says are good, and whose they are.
func OAuthBearer(check func(token string) (Login, error)) func() Exchange {
	return func() Exchange { return &bearer{check: check} }
}

// WrongScope is that a token is good, but for something else.
type WrongScope struct{ Wanted []string }

func (w WrongScope) Error() string { return fmt.Sprintf("the token is not for %q", w.Wanted) }

type bearer struct {
	check  func(token string) (Login, error)
	who    Login
	proved bool
	over   bool
	told   string // the error that the client has been sent and is to acknowledge
	why    error  // what it is not told
}

var (
	errBearer     = errors.New("a message of OAUTHBEARER is not of the form that it must have")
	errToken      = errors.New("the token is not one without a signature, or says too little")
	errTokenEnded = errors.New("the token is not valid now")
)

// Step implements Exchange. A bad token is answered with a JSON object, which the client acknowledges before the login fails.
func (b *bearer) Step(message []byte) ([]byte, error) {
	if b.told != "" {
		return nil, fmt.Errorf("%w: %w", Refusal{b.told}, b.why)
	}
	if b.over {
		return nil, Refusal{"the login is over"}
	}
	b.over = true
	authzID, token, err := parseBearer(string(message))
	if err != nil {
		return nil, err
	}
	who, err := b.check(token)
	if err != nil {
		b.told, b.why = `{"status":"invalid_token"}`, err
		if wrong := (WrongScope{}); errors.As(err, &wrong) {
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

// maxPairs bounds what a message of nothing but separators costs.
const maxPairs = 100

// parseBearer reads the client's first message: n,[a=AUTHZID],^A KEY=VALUE^A ... ^A, of which auth=Bearer TOKEN must be one.
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
			continue // an extension: all are let through, and nobody asks for them
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

// latest bounds how late a token may end: the year 9999.
const latest = 253402300799

// Check reads a token, HEADER.CLAIMS. in base64 without a signature behind the second dot, and tells whose it is.
func (u Unsecured) Check(token string, now time.Time) (Login, error) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 || parts[2] != "" {
		return Login{}, errToken
	}
	var header struct {
		Algorithm string `json:"alg"`
	}
	claims := make(map[string]any)
	if decodePart(parts[0], &header) != nil || header.Algorithm != "none" || decodePart(parts[1], &claims) != nil {
		return Login{}, errToken
	}
	user, _ := claims[u.PrincipalClaim].(string)
	expires, ends := claims["exp"].(float64)
	issued, dated := claims["iat"].(float64)
	if strings.TrimSpace(user) == "" || !ends || claims["iat"] != nil && !dated {
		return Login{}, errToken
	}
	seconds, skew := float64(now.UnixMilli())/1000, u.ClockSkew.Seconds()
	if dated && (issued > seconds+skew || expires <= issued) || seconds-skew >= expires {
		return Login{}, errTokenEnded
	}
	scope := scopeOf(claims[u.ScopeClaim])
	for _, wanted := range u.RequiredScope {
		if !slices.Contains(scope, wanted) {
			return Login{}, WrongScope{u.RequiredScope}
		}
	}
	return Login{User: user, Expires: time.UnixMilli(int64(min(expires, latest) * 1000))}, nil
}

func decodePart(text string, into any) error {
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// scopeOf is a claim's text, or the texts of its list.
func scopeOf(claim any) []string {
	switch value := claim.(type) {
	case string:
		return []string{strings.TrimSpace(value)}
	case []any:
		var scope []string
		for _, item := range value {
			if text, ok := item.(string); ok {
				scope = append(scope, strings.TrimSpace(text))
			}
		}
		return scope
	}
	return nil
}
