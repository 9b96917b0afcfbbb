package sasl

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"barnabas/network/oauth"
)

// alice accepts the token "good".
func alice(_ context.Context, token string) (Login, error) {
	switch token {
	case "good":
		return Login{User: "alice", Expires: oauthEnd}, nil
	case "other":
		return Login{}, oauth.WrongScope{Wanted: []string{"a", "b"}}
	}
	return Login{}, errors.New("it is bad")
}

var oauthEnd = time.UnixMilli(1_790_000_000_500)

func TestBearerTokens(t *testing.T) {
	for token, want := range map[string]string{"good": "", "bad": `{"status":"invalid_token"}`, "other": `{"status":"insufficient_scope", "scope":"[a, b]"}`} {
		e := OAuthBearer(alice)()
		answer, err := e.Step(t.Context(), []byte("n,,\x01auth=Bearer "+token+"\x01\x01"))
		who, proved := e.Login()
		if err != nil || proved != (want == "") || string(answer) != want {
			t.Errorf("%s: answered %q, proved %v, %v", token, answer, proved, err)
		}
		if proved && who != (Login{User: "alice", Expires: oauthEnd}) {
			t.Errorf("%+v", who)
		}
		if _, err := e.Step(t.Context(), []byte{1}); err == nil {
			t.Error("the login continues")
		} else if reason, told := Reason(err); want != "" && (!told || reason != want) {
			t.Errorf("the client gets the reason %q", reason)
		}
	}
}

// TestBearerReason: the log has the reason, which the client is not told.
func TestBearerReason(t *testing.T) {
	secret := errors.New("it is of a key that was given up")
	e := OAuthBearer(func(context.Context, string) (Login, error) { return Login{}, secret })()
	if _, err := e.Step(t.Context(), []byte("n,,\x01auth=Bearer x\x01\x01")); err != nil {
		t.Fatal(err)
	}
	_, err := e.Step(t.Context(), []byte{1})
	if reason, told := Reason(err); !errors.Is(err, secret) || !told || reason != `{"status":"invalid_token"}` {
		t.Errorf("%v; the client gets %q", err, reason)
	}
}

func TestBearerMessages(t *testing.T) {
	const good = "good"
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
		e := OAuthBearer(alice)()
		_, err := e.Step(t.Context(), []byte(test.message))
		if _, proved := e.Login(); proved != test.ok || (err == nil) != test.ok {
			t.Errorf("%q: %v, %v", test.message, proved, err)
		}
		if _, err := e.Step(t.Context(), []byte(test.message)); err == nil {
			t.Errorf("%q occurs twice", test.message)
		}
	}
}

func FuzzOAuthBearer(f *testing.F) {
	f.Add([]byte("n,,\x01auth=Bearer good\x01\x01"))
	f.Fuzz(func(t *testing.T, message []byte) {
		e := OAuthBearer(alice)()
		_, err := e.Step(t.Context(), message)
		who, proved := e.Login()
		if proved && (err != nil || who.User != "alice") {
			t.Errorf("%q: %+v, %v", message, who, err)
		}
	})
}
