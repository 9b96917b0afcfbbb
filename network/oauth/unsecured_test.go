package oauth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

var unsecuredNow = time.UnixMilli(1_790_000_000_500)

const oauthSeconds = 1_790_000_000

func unsecured(t testing.TB, claims map[string]any) string {
	t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(body) + "."
}

func unsecuredRules() UnsecuredRules {
	return UnsecuredRules{PrincipalClaim: "sub", ScopeClaim: "scope", ClockSkew: time.Second}
}

func TestUnsecuredTokens(t *testing.T) {
	with := func(change func(map[string]any)) string {
		claims := map[string]any{"sub": "alice", "iat": oauthSeconds, "exp": oauthSeconds + 60}
		change(claims)
		return unsecured(t, claims)
	}
	good := with(func(map[string]any) {})
	header, rest, _ := strings.Cut(good, ".")
	for _, test := range []struct {
		name, token string
		scope       []string
		ok          bool
	}{
		{"good", good, nil, true},
		{"padded", header + "==." + rest, nil, true},
		{"no time of issue", with(func(c map[string]any) { delete(c, "iat") }), nil, true},
		{"the clocks differ a little", with(func(c map[string]any) { c["iat"] = oauthSeconds + 1 }), nil, true},
		{"a scope", with(func(c map[string]any) { c["scope"] = []string{"a", " kafka "} }), []string{"kafka"}, true},
		{"a scope that is a text", with(func(c map[string]any) { c["scope"] = "kafka" }), []string{"kafka"}, true},
		{"it never ends", with(func(c map[string]any) { c["exp"] = 1e300 }), nil, true},
		{"another scope", with(func(c map[string]any) { c["scope"] = "x" }), []string{"kafka"}, false},
		{"no scope", good, []string{"kafka"}, false},
		{"expired", with(func(c map[string]any) { delete(c, "iat"); c["exp"] = oauthSeconds - 1 }), nil, false},
		{"from the future", with(func(c map[string]any) { c["iat"] = oauthSeconds + 5 }), nil, false},
		{"ends before it began", with(func(c map[string]any) { c["iat"] = oauthSeconds; c["exp"] = oauthSeconds }), nil, false},
		{"no end", with(func(c map[string]any) { delete(c, "exp") }), nil, false},
		{"an end that is no number", with(func(c map[string]any) { c["exp"] = "x" }), nil, false},
		{"an issue that is no number", with(func(c map[string]any) { c["iat"] = "x" }), nil, false},
		{"no user", with(func(c map[string]any) { delete(c, "sub") }), nil, false},
		{"a blank user", with(func(c map[string]any) { c["sub"] = " " }), nil, false},
		{"a user that is a number", with(func(c map[string]any) { c["sub"] = 5 }), nil, false},
		{"a signature", good + "AAAA", nil, false},
		{"two parts", strings.TrimSuffix(good, "."), nil, false},
		{"an algorithm", "eyJhbGciOiJIUzI1NiJ9." + rest, nil, false},
		{"no base64", "?." + rest, nil, false},
		{"no JSON", "AAAA." + rest, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := unsecuredRules()
			u.RequiredScope = test.scope
			user, expires, err := u.Validate(test.token, unsecuredNow)
			if (err == nil) != test.ok || test.ok && (user != "alice" || !expires.After(unsecuredNow)) {
				t.Errorf("%q, %v, %v", user, expires, err)
			}
			if wrong := (WrongScope{}); errors.As(err, &wrong) != strings.HasSuffix(test.name, " scope") && !test.ok {
				t.Errorf("%v", err)
			}
		})
	}
}

// FuzzUnsecured: an accepted token names a user and has not expired.
func FuzzUnsecured(f *testing.F) {
	f.Add(unsecured(f, map[string]any{"sub": "alice", "exp": oauthSeconds + 60}))
	f.Fuzz(func(t *testing.T, token string) {
		user, expires, err := unsecuredRules().Validate(token, unsecuredNow)
		if err == nil && (strings.TrimSpace(user) == "" || !expires.After(unsecuredNow.Add(-time.Second))) {
			t.Errorf("%q: %q, %v", token, user, expires)
		}
	})
}
