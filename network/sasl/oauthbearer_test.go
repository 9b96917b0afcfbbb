package sasl

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

var oauthNow = time.UnixMilli(1_790_000_000_500)

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

func rules() Unsecured {
	return Unsecured{PrincipalClaim: "sub", ScopeClaim: "scope", ClockSkew: time.Second}
}

// at checks tokens at a time.
func at(u Unsecured, now time.Time) func(token string) (Login, error) {
	return func(token string) (Login, error) { return u.Check(token, now) }
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
			u := rules()
			u.RequiredScope = test.scope
			e := OAuthBearer(at(u, oauthNow))()
			answer, err := e.Step([]byte("n,,\x01auth=Bearer " + test.token + "\x01\x01"))
			who, proved := e.Login()
			if err != nil || proved != test.ok {
				t.Fatalf("proved %v, %v", proved, err)
			}
			if test.ok {
				if who.User != "alice" || !who.Expires.After(oauthNow) || len(answer) != 0 {
					t.Errorf("%+v, answer %q", who, answer)
				}
				return
			}
			if !strings.HasPrefix(string(answer), `{"status":"`) {
				t.Errorf("answered %q", answer)
			}
			if _, err := e.Step([]byte{1}); err == nil {
				t.Error("the login goes on")
			} else if reason, told := Reason(err); !told || reason != string(answer) {
				t.Errorf("the client is told %q", reason)
			}
		})
	}
}

// TestBearerReason: the log has the reason that the client is not told.
func TestBearerReason(t *testing.T) {
	secret := errors.New("it is of a key that was given up")
	e := OAuthBearer(func(string) (Login, error) { return Login{}, secret })()
	if _, err := e.Step([]byte("n,,\x01auth=Bearer x\x01\x01")); err != nil {
		t.Fatal(err)
	}
	_, err := e.Step([]byte{1})
	if reason, told := Reason(err); !errors.Is(err, secret) || !told || reason != `{"status":"invalid_token"}` {
		t.Errorf("%v; the client is told %q", err, reason)
	}
}

func TestBearerMessages(t *testing.T) {
	good := unsecured(t, map[string]any{"sub": "alice", "exp": oauthSeconds + 60})
	for _, test := range []struct {
		message string
		ok      bool
	}{
		{"n,,\x01auth=Bearer " + good + "\x01\x01", true},
		{"n,a=alice,\x01auth=bearer  " + good + "\x01traceId=1\x01\x01", true},
		{"n,a=bob,\x01auth=Bearer " + good + "\x01\x01", false},
		{"n,a=,\x01auth=Bearer " + good + "\x01\x01", false},
		{"n,x=alice,\x01auth=Bearer " + good + "\x01\x01", false},
		{"y,,\x01auth=Bearer " + good + "\x01\x01", false},
		{"n,\x01auth=Bearer " + good + "\x01\x01", false},
		{"n,,\x01auth=Basic " + good + "\x01\x01", false},
		{"n,,\x01auth=" + good + "\x01\x01", false},
		{"n,,\x01auth=Bearer \x01\x01", false},
		{"n,,\x01x=y\x01\x01", false},
		{"n,,\x01auth=Bearer " + good + "\x01", false},
		{"n,,\x01auth=Bearer " + good + strings.Repeat("\x01x=y", 100) + "\x01\x01", false},
		{"", false}, {"\x01", false},
	} {
		e := OAuthBearer(at(rules(), oauthNow))()
		_, err := e.Step([]byte(test.message))
		if _, proved := e.Login(); proved != test.ok || (err == nil) != test.ok {
			t.Errorf("%q: %v, %v", test.message, proved, err)
		}
		if _, err := e.Step([]byte(test.message)); err == nil {
			t.Errorf("%q is taken twice", test.message)
		}
	}
}

func FuzzOAuthBearer(f *testing.F) {
	f.Add([]byte("n,,\x01auth=Bearer " + unsecured(f, map[string]any{"sub": "alice", "exp": oauthSeconds + 60}) + "\x01\x01"))
	f.Fuzz(func(t *testing.T, message []byte) {
		e := OAuthBearer(at(rules(), oauthNow))()
		_, err := e.Step(message)
		who, proved := e.Login()
		if proved && (err != nil || who.User == "" || !who.Expires.After(oauthNow.Add(-time.Second))) {
			t.Errorf("%q: %+v, %v", message, who, err)
		}
	})
}
