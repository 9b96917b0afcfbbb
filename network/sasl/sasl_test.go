package sasl

import (
	"context"
	"strings"
	"testing"
	"time"

	"barnabas/internal/scram"
	"barnabas/network/oauth"
)

var passwords = Passwords{"alice": "pw", "bob": "pw2", "none": ""}

func TestPlain(t *testing.T) {
	for _, test := range []struct {
		name, message string
		user          string // empty: the login is refused
	}{
		{"right", "\x00alice\x00pw", "alice"},
		{"as oneself", "alice\x00alice\x00pw", "alice"},
		{"as another", "bob\x00alice\x00pw", ""},
		{"wrong password", "\x00alice\x00pw2", ""},
		{"a beginning of the password", "\x00alice\x00p", ""},
		{"unknown", "\x00eve\x00pw", ""},
		{"empty password", "\x00none\x00", ""},
		{"empty user", "\x00\x00pw", ""},
		{"two parts", "alice\x00pw", ""},
		{"four parts", "\x00alice\x00pw\x00", ""},
		{"nothing", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := Plain(passwords)()
			answer, err := e.Step(t.Context(), []byte(test.message))
			who, proved := e.Login()
			if (err == nil) != (test.user != "") || proved != (err == nil) || proved && who != (Login{User: test.user}) {
				t.Fatalf("%v, %+v, proved %v", err, who, proved)
			}
			if err == nil && (answer == nil || len(answer) != 0) {
				t.Errorf("the answer is %q", answer)
			}
			if _, ok := Reason(err); err != nil && !ok {
				t.Errorf("the client does not get the reason: %v", err)
			}
			if _, err := e.Step(t.Context(), []byte("\x00alice\x00pw")); err == nil {
				t.Error("an exchange can be used a second time")
			}
		})
	}
}

type credentials map[string]scram.Credential // by mechanism and user

func (c credentials) User(mechanism, user string) (scram.Credential, bool) {
	found, ok := c[mechanism+" "+user]
	return found, ok
}

var tokenEnd = time.UnixMilli(1_790_000_000_000)

func (c credentials) Token(mechanism, id string) (scram.Credential, string, time.Time, bool) {
	found, ok := c[mechanism+" token "+id]
	return found, "carl", tokenEnd, ok
}

func derive(t testing.TB, m scram.Mechanism, password string) scram.Credential {
	t.Helper()
	c, err := m.Derive(password, []byte("salt"), scram.MinIterations)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClientLogsIn: our client logs in to our server with every mechanism.
func TestClientLogsIn(t *testing.T) {
	known := make(credentials)
	mechanisms := []Mechanism{{Name: PlainName, Start: Plain(passwords)}}
	for _, m := range scram.Mechanisms() {
		known[m.Name+" alice"] = derive(t, m, "pw")
		known[m.Name+" token id"] = derive(t, m, "hmac")
		mechanisms = append(mechanisms, Mechanism{Name: m.Name, Start: Scram(m, known)})
	}
	server := &Server{Mechanisms: mechanisms}
	if got := strings.Join(server.Names(), " "); got != "PLAIN SCRAM-SHA-256 SCRAM-SHA-512" {
		t.Errorf("the mechanisms are %s", got)
	}
	if server.Find("plain") != nil {
		t.Error("the case of a mechanism's name matters")
	}
	for _, m := range mechanisms {
		for _, test := range []struct {
			client Client
			want   Login
			ok     bool
		}{
			{Client{User: "alice", Password: "pw"}, Login{User: "alice"}, true},
			{Client{User: "alice", Password: "wrong"}, Login{User: "alice"}, false},
			{Client{User: "id", Password: "hmac", Token: true}, Login{User: "carl", Token: true, Expires: tokenEnd}, m.Name != PlainName},
		} {
			test.client.Mechanism = m.Name
			dialog, err := test.client.Start(t.Context(), "host")
			if err != nil {
				t.Fatal(err)
			}
			e := server.Find(m.Name).Start()
			err = talk(dialog, e)
			who, proved := e.Login()
			if (err == nil) != test.ok || proved != test.ok || test.ok && who != test.want {
				t.Errorf("%s, %+v: %v, %+v, proved %v", m.Name, test.client, err, who, proved)
			}
			if _, told := Reason(err); told && m.Name != PlainName {
				t.Errorf("%s: the client gets %v", m.Name, err)
			}
		}
	}
	for _, name := range []string{gssapiName, OAuthBearerName, "CRAM-MD5"} {
		if _, err := (&Client{Mechanism: name}).Start(t.Context(), "host"); err == nil {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestClientShowsAToken(t *testing.T) {
	c := Client{Mechanism: OAuthBearerName, Bearer: oauth.Unsecured(map[string]any{"sub": "alice"}, time.Minute)}
	for _, test := range []struct {
		claim string
		ok    bool
	}{{"sub", true}, {"other", false}} {
		u := oauth.UnsecuredRules{PrincipalClaim: test.claim}
		e := OAuthBearer(func(_ context.Context, token string) (Login, error) {
			user, expires, err := u.Validate(token, time.Now())
			return Login{User: user, Expires: expires}, err
		})()
		dialog, err := c.Start(t.Context(), "host")
		if err != nil {
			t.Fatal(err)
		}
		err = talk(dialog, e)
		who, proved := e.Login()
		if (err == nil) != test.ok || proved != test.ok || test.ok && who.User != "alice" {
			t.Errorf("%v, %+v, proved %v", err, who, proved)
		}
	}
}

func talk(dialog Dialog, e Exchange) error {
	var message []byte
	for {
		var err error
		if message, err = dialog(message); err != nil || message == nil {
			return err
		}
		if message, err = e.Step(context.Background(), message); err != nil {
			return err
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add([]byte("\x00alice\x00pw"))
	f.Fuzz(func(t *testing.T, message []byte) {
		e := Plain(passwords)()
		_, err := e.Step(context.Background(), message)
		who, proved := e.Login()
		if proved != (err == nil) || proved && !strings.HasSuffix(string(message), "\x00"+who.User+"\x00"+passwords[who.User]) {
			t.Errorf("%q: %v, %+v, proved %v", message, err, who, proved)
		}
	})
}
