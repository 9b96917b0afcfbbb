package scram

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

// The exchanges of RFC 7677, section 3, and the same for SHA-512.
const (
	clientNonce = "rOprNGfwEbeRWgbNEkqO"
	serverNonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	rfcSalt     = "W22ZaJ0SNY7soEsUEjb6gQ=="
)

func credential(t testing.TB, m Mechanism, password string) Credential {
	t.Helper()
	salt, err := base64.StdEncoding.DecodeString(rfcSalt)
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Derive(password, salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rfcServer knows the users pencil-cased "user" and "a=b,c", and the token "id".
func rfcServer(t testing.TB, m Mechanism) *Server {
	known := map[string]Credential{"user": credential(t, m, "pencil"), "a=b,c": credential(t, m, "pencil")}
	tokens := map[string]Credential{"id": credential(t, m, "aG1hYw==")}
	s := m.NewServer(func(user string, token bool) (Credential, bool) {
		of := known
		if token {
			of = tokens
		}
		c, ok := of[user]
		return c, ok
	})
	s.nonce = func() string { return serverNonce }
	return s
}

func sha256Mechanism(t testing.TB) Mechanism {
	m, ok := Named("SCRAM-SHA-256")
	if !ok {
		t.Fatal("no SCRAM-SHA-256")
	}
	return m
}

func TestExchangeOfTheRFC(t *testing.T) {
	m := sha256Mechanism(t)
	s, c := rfcServer(t, m), m.NewClient("user", "pencil", false)
	c.nonce = clientNonce
	want := []string{
		"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
		"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
		"",
	}
	var message []byte
	for i, text := range want {
		step := c.Step
		if i%2 == 1 {
			step = s.Step
		}
		var err error
		if message, err = step(message); err != nil || string(message) != text {
			t.Fatalf("message %d is %q, %v", i, message, err)
		}
	}
	if !s.Done() || s.User() != "user" || s.Token() {
		t.Errorf("done %v, as %q", s.Done(), s.User())
	}
	if _, err := c.Step(nil); err == nil {
		t.Error("the client continues after the end")
	}
}

// run exchanges messages between a client and a server until one of them ends the exchange.
func run(s *Server, c *Client) error {
	var message []byte
	for {
		var err error
		if message, err = c.Step(message); err != nil || message == nil {
			return err
		}
		if message, err = s.Step(message); err != nil {
			return err
		}
	}
}

func TestLogins(t *testing.T) {
	for _, m := range Mechanisms() {
		for _, test := range []struct {
			name, user, password string
			token, ok            bool
		}{
			{"right", "user", "pencil", false, true},
			{"a name with = and a comma", "a=b,c", "pencil", false, true},
			{"wrong password", "user", "pen", false, false},
			{"no such user", "eve", "pencil", false, false},
			{"delegation token", "id", "aG1hYw==", true, true},
			{"a token's id as a user", "id", "aG1hYw==", false, false},
			{"a user as a token", "user", "pencil", true, false},
		} {
			t.Run(m.Name+" "+test.name, func(t *testing.T) {
				s := rfcServer(t, m)
				err := run(s, m.NewClient(test.user, test.password, test.token))
				if (err == nil) != test.ok || s.Done() != test.ok {
					t.Errorf("%v, done %v", err, s.Done())
				}
				if s.User() != test.user || s.Token() != test.token {
					t.Errorf("it was %q, token %v", s.User(), s.Token())
				}
				if _, err := s.Step([]byte("n,,n=user,r=x")); err == nil {
					t.Error("the exchange continues after its end")
				}
			})
		}
	}
}

// TestFinalNonceIsChecked tries a nonce of another exchange, and the doubled one of old releases of librdkafka, whose
// proof covers what they send.
func TestFinalNonceIsChecked(t *testing.T) {
	m := sha256Mechanism(t)
	for _, test := range []struct {
		name, nonce string
		ok          bool
	}{
		{"ours", clientNonce + serverNonce, true},
		{"doubled", clientNonce + clientNonce + serverNonce, true},
		{"foreign", "x" + serverNonce, false},
		{"the client's part alone", clientNonce, false},
		{"ours and more", clientNonce + serverNonce + "x", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := rfcServer(t, m)
			first, err := s.Step([]byte("n,,n=user,r=" + clientNonce))
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Step([]byte(signed(t, m, string(first), "c=biws,r="+test.nonce)))
			if (err == nil) != test.ok || s.Done() != test.ok {
				t.Errorf("%v, done %v", err, s.Done())
			}
		})
	}
}

// signed appends the proof of the password to a client's final message.
func signed(t *testing.T, m Mechanism, serverFirst, withoutProof string) string {
	t.Helper()
	c := credential(t, m, "pencil")
	salted, err := m.Salt("pencil", c.Salt, c.Iterations)
	if err != nil {
		t.Fatal(err)
	}
	proof := m.mac(salted, clientKeyText)
	for i, b := range m.mac(c.StoredKey, authMessage("n=user,r="+clientNonce, serverFirst, withoutProof)) {
		proof[i] ^= b
	}
	return withoutProof + ",p=" + base64.StdEncoding.EncodeToString(proof)
}

func TestExtensionsAreSigned(t *testing.T) {
	m := sha256Mechanism(t)
	s := rfcServer(t, m)
	first, err := s.Step([]byte("n,,n=user,r=" + clientNonce))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Step([]byte(signed(t, m, string(first), "c=biws,r="+clientNonce+serverNonce+",x=y"))); err != nil {
		t.Error(err)
	}
}

func TestBadClientMessages(t *testing.T) {
	m := sha256Mechanism(t)
	for _, text := range []string{
		"", "n", "n,", "n,,", "n,,n=user", "n,,n=user,r=", "n,,r=x,n=user", "y,,n=user,r=x", "p=tls-unique,,n=user,r=x",
		"n,,m=x,n=user,r=x", "n,,n=,r=x", "n,,n=us=er,r=x", "n,,n=us=2cer,r=x", "n,,n=\x00,r=x", "n,,n=\xc3\xa9,r=x", "n,,n=user,r=x y",
		"n,,n=user,r=x,", "n,,n=user,r=x,=y", "n,,n=user,r=x,1=y", "n,user,n=user,r=x", "n,a=,n=user,r=x", "n,a=eve,n=user,r=x",
		"n,,n=user,r=x" + strings.Repeat(",x=y", 100),
	} {
		if answer, err := rfcServer(t, m).Step([]byte(text)); err == nil {
			t.Errorf("%q was answered with %q", text, answer)
		}
	}
	for _, text := range []string{
		"", "c=biws", "c=biws,r=" + clientNonce + serverNonce, "c=biws,r=" + clientNonce + serverNonce + ",p=", "c=biws,r=" + clientNonce + serverNonce + ",p=AAAA",
		"c=?,r=" + clientNonce + serverNonce + ",p=AAAA", "c=biws,r=" + clientNonce + serverNonce + ",p=?", "r=x,c=biws,p=AAAA",
	} {
		s := rfcServer(t, m)
		if _, err := s.Step([]byte("n,a=user,n=user,r=" + clientNonce)); err != nil {
			t.Fatal(err)
		}
		if answer, err := s.Step([]byte(text)); err == nil {
			t.Errorf("%q was answered with %q", text, answer)
		}
	}
}

func TestClientDoesNotTrustTheServer(t *testing.T) {
	m := sha256Mechanism(t)
	for _, text := range []string{
		"", "r=foreign,s=" + rfcSalt + ",i=4096", "r=" + clientNonce + ",s=" + rfcSalt + ",i=4096", "r=" + clientNonce + "x,s=?,i=4096",
		"r=" + clientNonce + "x,s=" + rfcSalt + ",i=1", "r=" + clientNonce + "x,s=" + rfcSalt + ",i=2000000000", "r=" + clientNonce + "x,s=" + rfcSalt + ",i=x",
		"m=y,r=" + clientNonce + "x,s=" + rfcSalt + ",i=4096",
	} {
		c := m.NewClient("user", "pencil", false)
		c.nonce = clientNonce
		if _, err := c.Step(nil); err != nil {
			t.Fatal(err)
		}
		if answer, err := c.Step([]byte(text)); err == nil {
			t.Errorf("%q was answered with %q", text, answer)
		}
	}
	for _, text := range []string{"", "e=invalid-proof", "v=?", "v=AAAA", "x=y"} {
		c := m.NewClient("user", "pencil", false)
		c.nonce = clientNonce
		for _, message := range []string{"", "r=" + clientNonce + "x,s=" + rfcSalt + ",i=4096"} {
			if _, err := c.Step([]byte(message)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Step([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestStoredCredentials(t *testing.T) {
	for _, m := range Mechanisms() {
		c := credential(t, m, "pencil")
		salted, err := m.Salt("pencil", c.Salt, c.Iterations)
		if err != nil {
			t.Fatal(err)
		}
		stored := m.Credential(c.Salt, salted, c.Iterations)
		read, err := m.ParseCredential(stored)
		if err != nil || !bytes.Equal(read.Salt, c.Salt) || !bytes.Equal(read.StoredKey, c.StoredKey) ||
			!bytes.Equal(read.ServerKey, c.ServerKey) || read.Iterations != c.Iterations {
			t.Errorf("%s: %+v, %v", m.Name, read, err)
		}
		for _, text := range []string{
			"", "x", stored + ",x=y", stored + ",salt=AAAA", strings.Replace(stored, "salt=", "salt=?", 1),
			strings.Replace(stored, "iterations=4096", "iterations=100", 1), strings.Replace(stored, "iterations=4096", "iterations=x", 1),
			strings.Replace(stored, "stored_key=", "stored_key=AAAA", 1),
		} {
			if _, err := m.ParseCredential(text); err == nil {
				t.Errorf("%s: %q was accepted", m.Name, text)
			}
		}
	}
}

func FuzzServer(f *testing.F) {
	f.Add([]byte("n,,n=user,r="+clientNonce), []byte("c=biws,r="+clientNonce+serverNonce+",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="))
	f.Add([]byte("n,a=user,n=user,r=x,tokenauth=true"), []byte("c=biws,r=x,x=y,p="))
	m := sha256Mechanism(f)
	c := credential(f, m, "pencil")
	f.Fuzz(func(t *testing.T, first, final []byte) {
		s := m.NewServer(func(user string, token bool) (Credential, bool) { return c, user == "user" && !token })
		s.nonce = func() string { return serverNonce }
		if _, err := s.Step(first); err != nil {
			return
		}
		if parsed, err := parseClientFirst(first); err != nil || "n="+encodeName(parsed.user)+",r="+parsed.nonce != parsed.bare[:len("n=,r=")+len(encodeName(parsed.user))+len(parsed.nonce)] {
			t.Errorf("%q is not decoded to the same: %+v, %v", first, parsed, err)
		}
		if _, err := s.Step(final); (err == nil) != s.Done() {
			t.Errorf("%v, done %v", err, s.Done())
		}
	})
}

func FuzzClient(f *testing.F) {
	f.Add([]byte("r="+clientNonce+"x,s="+rfcSalt+",i=4096"), []byte("v=AAAA"))
	m := sha256Mechanism(f)
	f.Fuzz(func(t *testing.T, first, final []byte) {
		if m, err := parseServerFirst(first); err == nil && m.iterations > MinIterations {
			return // it would only take long
		}
		c := m.NewClient("user", "pencil", false)
		c.nonce = clientNonce
		for _, message := range [][]byte{nil, first, final} {
			if _, err := c.Step(message); err != nil {
				return
			}
		}
		t.Error("a server that does not know the password was accepted")
	})
}

func FuzzParseCredential(f *testing.F) {
	m := sha256Mechanism(f)
	f.Add(m.Credential([]byte("salt"), make([]byte, m.size), 4096))
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := m.ParseCredential(text); err == nil && (len(c.StoredKey) != m.size || c.Iterations < MinIterations) {
			t.Errorf("%+v", c)
		}
	})
}
