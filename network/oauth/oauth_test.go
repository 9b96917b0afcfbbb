package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// now is the time at which all tokens of these tests are presented.
var now = time.Unix(1_790_000_000, 0)

// signer is a key of a provider.
type signer struct {
	id        string
	key       any
	algorithm jose.SignatureAlgorithm
}

func newRSA(t testing.TB, id string) signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, key, jose.RS256}
}

func newEC(t testing.TB, id string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, key, jose.ES256}
}

// sign returns a signed token. Its header names the key if the key has an id.
func (s signer) sign(t testing.TB, claims string) string {
	t.Helper()
	made, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: jose.JSONWebKey{Key: s.key, KeyID: s.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := made.Sign([]byte(claims))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// public returns the set of keys as a provider publishes it.
func public(t testing.TB, signers ...signer) []byte {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, s := range signers {
		key := (&jose.JSONWebKey{Key: s.key, KeyID: s.id, Use: "sig"}).Public()
		set.Keys = append(set.Keys, key)
	}
	data, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// keysInFile returns Keys that are read from a file.
func keysInFile(t testing.TB, signers ...signer) *Keys {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, public(t, signers...), 0o600); err != nil {
		t.Fatal(err)
	}
	return NewKeys(t.Context(), Endpoint{URL: "file://" + file}, time.Hour, func(err error) { t.Error(err) })
}

func TestValidate(t *testing.T) {
	first, second, stranger := newRSA(t, "1"), newEC(t, "2"), newRSA(t, "1")
	unnamed := signer{"", second.key, second.algorithm}
	v := &Validator{Keys: keysInFile(t, first, second), ScopeName: "scope", SubName: "sub", ClockSkew: 30 * time.Second}
	strict := *v
	strict.Issuer, strict.Audiences, strict.SubName, strict.ScopeName = "https://idp", []string{"kafka", "other"}, "email", "scp"
	at := func(seconds int) int64 { return now.Unix() + int64(seconds) }
	times := fmt.Sprintf(`"iat":%d,"exp":%d`, at(-10), at(60))
	for _, test := range []struct {
		name  string
		v     *Validator
		token string
		want  string // of the error
	}{
		{"of the first key", v, first.sign(t, `{"sub":" alice ",`+times+`}`), ""},
		{"of the second key", v, second.sign(t, `{"sub":"alice",`+times+`}`), ""},
		{"without the name of its key", v, unnamed.sign(t, `{"sub":"alice",`+times+`}`), ""},
		{"with blanks around", v, " " + first.sign(t, `{"sub":"alice",`+times+`}`) + "\n", ""},
		{"with scopes", v, first.sign(t, `{"sub":"alice","scope":["a","b"],`+times+`}`), ""},
		{"with one scope", v, first.sign(t, `{"sub":"alice","scope":"a",`+times+`}`), ""},
		{"of the future, within the skew", v, first.sign(t, fmt.Sprintf(`{"sub":"alice","iat":%d,"nbf":%d,"exp":%d}`, at(0), at(29), at(60))), ""},
		{"of the past, within the skew", v, first.sign(t, fmt.Sprintf(`{"sub":"alice","iat":%d,"exp":%d}`, at(-60), at(-29))), ""},
		{"for this audience", &strict, first.sign(t, `{"email":"alice","iss":"https://idp","aud":["x","kafka"],`+times+`}`), ""},
		{"for this audience alone", &strict, first.sign(t, `{"email":"alice","iss":"https://idp","aud":"other",`+times+`}`), ""},

		{"signed by another", v, stranger.sign(t, `{"sub":"alice",`+times+`}`), "signature"},
		{"signed with an unknown key", v, signer{"9", first.key, first.algorithm}.sign(t, `{"sub":"alice",`+times+`}`), `key "9"`},
		{"signed with another key than it says", v, signer{"1", second.key, second.algorithm}.sign(t, `{"sub":"alice",`+times+`}`), "signature"},
		{"not signed", v, "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.", "not a token"},
		{"signed with a secret", v, signer{"1", []byte("0123456789abcdef0123456789abcdef"), jose.HS256}.sign(t, `{"sub":"alice",`+times+`}`), "not a token"},
		{"expired", v, first.sign(t, fmt.Sprintf(`{"sub":"alice","iat":%d,"exp":%d}`, at(-60), at(-30))), "expired"},
		{"not yet", v, first.sign(t, fmt.Sprintf(`{"sub":"alice","iat":%d,"nbf":%d,"exp":%d}`, at(0), at(31), at(60))), "not valid before"},
		{"that ends before it begins", v, first.sign(t, fmt.Sprintf(`{"sub":"alice","iat":%d,"exp":%d}`, at(20), at(10))), "ends before"},
		{"without an end", v, first.sign(t, fmt.Sprintf(`{"sub":"alice","iat":%d}`, at(0))), "no time of issue or of expiry"},
		{"without a beginning", v, first.sign(t, fmt.Sprintf(`{"sub":"alice","exp":%d}`, at(60))), "no time of issue or of expiry"},
		{"with an end that is no time", v, first.sign(t, fmt.Sprintf(`{"sub":"alice","iat":%d,"exp":"x"}`, at(0))), "not a time"},
		{"before 1970", v, first.sign(t, fmt.Sprintf(`{"sub":"alice","iat":-1,"exp":%d}`, at(60))), "not a time"},
		{"of nobody", v, first.sign(t, `{`+times+`}`), "names no user"},
		{"of a blank", v, first.sign(t, `{"sub":" ",`+times+`}`), "names no user"},
		{"of a number", v, first.sign(t, `{"sub":5,`+times+`}`), "names no user"},
		{"for an audience where none is expected", v, first.sign(t, `{"sub":"alice","aud":"kafka",`+times+`}`), "expected.audience"},
		{"with a scope twice", v, first.sign(t, `{"sub":"alice","scope":["a"," a"],`+times+`}`), "twice"},
		{"with a scope that is no text", v, first.sign(t, `{"sub":"alice","scope":[5],`+times+`}`), "not a string"},
		{"for another audience", &strict, first.sign(t, `{"email":"alice","iss":"https://idp","aud":"x",`+times+`}`), "expected.audience"},
		{"for no audience", &strict, first.sign(t, `{"email":"alice","iss":"https://idp",`+times+`}`), "no audience"},
		{"of another issuer", &strict, first.sign(t, `{"email":"alice","iss":"https://idp/","aud":"kafka",`+times+`}`), "issuer"},
		{"of no issuer", &strict, first.sign(t, `{"email":"alice","aud":"kafka",`+times+`}`), "issuer"},
		{"that is no object", v, first.sign(t, `[]`), "not a JSON object"},
		{"that is null", v, first.sign(t, `null`), "not a JSON object"},
		{"that is nonsense", v, "a.b", "not a token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			user, expires, err := test.v.Validate(t.Context(), test.token, now)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || user != "alice" || !expires.After(now.Add(-30*time.Second)) {
				t.Errorf("%q, %v, %v", user, expires, err)
			}
		})
	}
}

// TestReasonsAreShort: a client with an unsigned token cannot determine how much of it is kept in an error.
func TestReasonsAreShort(t *testing.T) {
	key := newEC(t, "1")
	v := &Validator{Keys: keysInFile(t, key), ScopeName: "scope", SubName: "sub"}
	stranger := signer{strings.Repeat("\x01", 100_000), key.key, key.algorithm}
	if _, _, err := v.Validate(t.Context(), stranger.sign(t, `{}`), now); err == nil || len(err.Error()) > 1000 {
		t.Errorf("the reason is %.1000v", err)
	}
}

// TestKeysAreReadAnew: keys are read again when they are old and when a token names an unknown one, but not for every
// such token.
func TestKeysAreReadAnew(t *testing.T) {
	first, second := newEC(t, "1"), newEC(t, "2")
	var shown atomic.Pointer[[]byte]
	var asked atomic.Int32
	show := func(data []byte) { shown.Store(&data) }
	show(public(t, first))
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		data := *shown.Load()
		if data == nil {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(data)
	}))
	defer provider.Close()
	var failures []error
	keys := NewKeys(t.Context(), Endpoint{URL: provider.URL}, time.Hour, func(err error) { failures = append(failures, err) })
	clock := time.Now()
	keys.now = func() time.Time { return clock }
	want := func(what, id string, known bool, requests int32) {
		t.Helper()
		if found := keys.candidates(t.Context(), id); (len(found) > 0) != known || asked.Load() != requests {
			t.Errorf("%s: %d keys after %d requests", what, len(found), asked.Load())
		}
	}
	want("a known one", "1", true, 1)
	want("an unknown one, soon", "2", false, 1)
	show(public(t, first, second))
	clock = clock.Add(11 * time.Second)
	want("an unknown one, later", "2", true, 2)
	for range 100 {
		want("ones that there are not", "3", false, 2)
	}
	show(public(t, second))
	clock = clock.Add(3 * time.Hour)
	want("old ones", "1", false, 3)
	show(nil)
	clock = clock.Add(3 * time.Hour)
	want("when the provider fails", "2", true, 4)
	want("and again, soon", "2", true, 4)
	if len(failures) != 1 || !strings.Contains(failures[0].Error(), "404") {
		t.Errorf("reported %v", failures)
	}
}

// TestProviderIsDown: while reading the keys again fails, tokens signed with a known key are accepted at once.
func TestProviderIsDown(t *testing.T) {
	key := newEC(t, "1")
	var down atomic.Bool
	asked, up := make(chan struct{}), make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			asked <- struct{}{}
			<-up
		}
		_, _ = w.Write(public(t, key))
	}))
	defer provider.Close()
	keys := NewKeys(t.Context(), Endpoint{URL: provider.URL}, time.Hour, nil)
	if err := keys.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	clock := time.Now().Add(time.Hour + time.Minute)
	keys.now = func() time.Time { return clock }
	for range 2 {
		if found := keys.candidates(t.Context(), "1"); len(found) != 1 {
			t.Errorf("%d keys", len(found))
		}
	}
	<-asked
	before := keys.set.Load()
	close(up)
	<-keys.again(before)
	if keys.set.Load() == before {
		t.Error("the keys were not read again")
	}
}

// TestKeysThatAreNotReadYet: the first login waits for the keys, and those that come meanwhile wait for the same
// request.
func TestKeysThatAreNotReadYet(t *testing.T) {
	key := newEC(t, "1")
	asked, up := make(chan struct{}), make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-up
		_, _ = w.Write(public(t, key))
	}))
	defer provider.Close()
	keys := NewKeys(t.Context(), Endpoint{URL: provider.URL}, time.Hour, func(err error) { t.Error(err) })
	keys.Prefetch()
	<-asked
	keys.Prefetch()
	found := make(chan int)
	for range 2 {
		go func() { found <- len(keys.candidates(t.Context(), "1")) }()
	}
	close(up)
	for range 2 {
		if n := <-found; n != 1 {
			t.Errorf("%d keys", n)
		}
	}
	keys.Prefetch()
}

// TestGoneWhileKeysAreRead: a cancelled login stops waiting; the keys are read for the others.
func TestGoneWhileKeysAreRead(t *testing.T) {
	key := newEC(t, "1")
	asked, up := make(chan struct{}), make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-up
		_, _ = w.Write(public(t, key))
	}))
	defer provider.Close()
	v := &Validator{Keys: NewKeys(t.Context(), Endpoint{URL: provider.URL}, time.Hour, func(err error) { t.Error(err) }), SubName: "sub", ScopeName: "scope"}
	token := key.sign(t, fmt.Sprintf(`{"sub":"alice","iat":%d,"exp":%d}`, now.Unix(), now.Unix()+60))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, _, err := v.Validate(ctx, token, now); err == nil {
		t.Error("a token is valid without keys")
	}
	close(up)
	if user, _, err := v.Validate(t.Context(), token, now); user != "alice" || err != nil {
		t.Errorf("%q, %v", user, err)
	}
}

// TestRedirections: redirections are followed, except to plaintext.
func TestRedirections(t *testing.T) {
	keys := public(t, newEC(t, "1"))
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) })
	plain, encrypted := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer encrypted.Close()
	for to, want := range map[string]string{plain.URL: "unencrypted", encrypted.URL: "", "/": "more than"} {
		provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }))
		defer provider.Close()
		trust := x509.NewCertPool()
		trust.AddCert(provider.Certificate())
		trust.AddCert(encrypted.Certificate())
		from := Endpoint{URL: provider.URL, TLS: &tls.Config{RootCAs: trust}, Backoff: time.Hour, MaxBackoff: 2 * time.Hour}
		if err := NewKeys(t.Context(), from, time.Hour, nil).Fetch(t.Context()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestUntrustedProvider: a provider whose certificate is not trusted is not asked again.
func TestUntrustedProvider(t *testing.T) {
	provider := httptest.NewUnstartedServer(http.NotFoundHandler())
	provider.Config.ErrorLog = log.New(io.Discard, "", 0)
	provider.StartTLS()
	defer provider.Close()
	from := Endpoint{URL: provider.URL, Backoff: time.Hour, MaxBackoff: 2 * time.Hour}
	if err := NewKeys(t.Context(), from, time.Hour, nil).Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
}

// TestUnknownKinds: keys of unknown types are left out of a set.
func TestUnknownKinds(t *testing.T) {
	known := string(public(t, newEC(t, "1")))
	set, err := parseKeys([]byte(strings.Replace(known, `[`, `[{"kty":"XYZ","kid":"2","x":"AA"},{"kty":"OKP","crv":"X448","x":"AA"},`, 1)))
	if err != nil || len(set.Keys) != 1 || set.Keys[0].KeyID != "1" {
		t.Errorf("%v, %v", set, err)
	}
	if _, err := parseKeys([]byte(`{"keys":[{"kty":"XYZ"}]}`)); err == nil || !strings.Contains(err.Error(), "none of the keys") {
		t.Errorf("%v", err)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	answer := ""
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
	defer provider.Close()
	for text, want := range map[string]string{"": "not a set of keys", "{}": "empty", `{"keys":[]}`: "empty", strings.Repeat(" ", largestAnswer+1): "more than"} {
		answer = text
		if err := NewKeys(t.Context(), Endpoint{URL: provider.URL}, time.Hour, nil).Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if err := NewKeys(t.Context(), Endpoint{URL: "file:///nowhere"}, time.Hour, nil).Fetch(t.Context()); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	for url, ok := range map[string]bool{"https://x/y": true, "http://x": true, "file:///x": true, "file://": false, "x": false, "ftp://x": false, "https://": false, "%": false} {
		if err := (&Endpoint{URL: url}).Secure(nil); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestSource: a token is requested as RFC 6749 describes, used for most of its lifetime, and requested again where that
// may help.
func TestSource(t *testing.T) {
	key := newEC(t, "1")
	var requests []string
	var answers []string // the next responses; a number is an HTTP status
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		id, secret, _ := r.BasicAuth()
		requests = append(requests, r.Method+" "+id+":"+secret+" "+r.PostForm.Encode())
		next := answers[0]
		answers = answers[1:]
		var status int
		if _, err := fmt.Sscanf(next, "%d", &status); err == nil {
			w.WriteHeader(status)
			return
		}
		_, _ = w.Write([]byte(next))
	}))
	defer provider.Close()
	token := func(from, to time.Duration) string {
		return key.sign(t, fmt.Sprintf(`{"sub":"kafka","iat":%d,"exp":%d}`, time.Now().Add(from).Unix(), time.Now().Add(to).Unix()))
	}
	give := func(token string) string { return `{"access_token":"` + token + `","token_type":"bearer"}` }
	s := &Source{Life: t.Context(), From: Endpoint{URL: provider.URL, Backoff: time.Millisecond, MaxBackoff: time.Minute}, ClientID: "id", Secret: "p:w", Scope: "a b", Window: 0.8}
	want := func(what, token string, err string, count int) {
		t.Helper()
		got, failed := s.Token(t.Context())
		if got != token || (failed != nil) != (err != "") || failed != nil && !strings.Contains(failed.Error(), err) || len(requests) != count || len(answers) > 0 {
			t.Errorf("%s: %q, %v after %d requests", what, got, failed, len(requests))
		}
	}
	answers = []string{"401"}
	want("refused", "", "401", 1)
	answers = []string{"503", "503", give("a.b")}
	want("no token", "", "not a token (JWT)", 4)
	answers = []string{`{"token":"x"}`}
	want("no access_token", "", "access_token", 5)
	answers = []string{give(key.sign(t, `{"sub":"x"}`))}
	want("no end", "", "exp", 6)
	first, second := token(-time.Hour, time.Minute), token(0, time.Hour)
	answers = []string{give(first)}
	want("one that is old already", first, "", 7)
	answers = []string{"400"}
	want("another cannot be had", first, "", 8)
	answers = []string{give(second)}
	want("another", second, "", 9)
	want("the same", second, "", 9)
	if requests[8] != "POST id:p:w grant_type=client_credentials&scope=a+b" {
		t.Errorf("requested %q", requests[8])
	}

	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(second+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (&Source{Life: t.Context(), From: Endpoint{URL: "file://" + file}, Window: 1}).Token(t.Context()); got != second || err != nil {
		t.Errorf("from a file: %q, %v", got, err)
	}
}

// TestProviderOfTokensIsDown: a valid token is used at once while another one is being requested.
func TestProviderOfTokensIsDown(t *testing.T) {
	asked, up := make(chan struct{}), make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-up
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer provider.Close()
	failed := make(chan error, 1)
	s := &Source{Life: t.Context(), From: Endpoint{URL: provider.URL}, ClientID: "id", Secret: "secret", Failed: func(err error) { failed <- err }}
	s.current.Store(&heldToken{"held", time.Now().Add(-time.Minute), time.Now().Add(time.Hour)})
	for range 2 {
		if text, err := s.Token(t.Context()); text != "held" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	}
	<-asked
	close(up)
	if err := <-failed; !strings.Contains(err.Error(), "401") {
		t.Error(err)
	}
}

// TestWaitingForATokenEnds: a caller that gives up stops waiting for the provider, and does not cancel the request for
// others.
func TestWaitingForATokenEnds(t *testing.T) {
	key, asked, up := newEC(t, "1"), make(chan struct{}), make(chan struct{})
	token := key.sign(t, fmt.Sprintf(`{"sub":"kafka","exp":%d}`, time.Now().Add(time.Hour).Unix()))
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-up
		_, _ = io.WriteString(w, `{"access_token":"`+token+`"}`)
	}))
	defer provider.Close()
	s := &Source{Life: t.Context(), From: Endpoint{URL: provider.URL}, ClientID: "id", Secret: "secret", Window: 0.8}
	impatient, giveUp := context.WithCancelCause(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := s.Token(impatient)
		first <- err
	}()
	<-asked
	reason := errors.New("the dial's time is up")
	giveUp(reason)
	if err := <-first; !errors.Is(err, reason) {
		t.Error(err)
	}
	second := make(chan string, 1)
	go func() {
		text, _ := s.Token(t.Context())
		second <- text
	}()
	close(up)
	if text := <-second; text != token {
		t.Errorf("%q", text)
	}
}

func TestRenewal(t *testing.T) {
	s := &Source{Window: 0.8, Jitter: 0.1, MinPeriod: time.Minute, Buffer: 5 * time.Minute}
	for _, test := range []struct {
		life   time.Duration
		chance float64
		want   time.Duration
	}{
		{time.Hour, 0, 48 * time.Minute}, {time.Hour, 1, 54 * time.Minute}, {10 * time.Minute, 1, 5 * time.Minute}, {5 * time.Minute, 0, 4 * time.Minute},
	} {
		if got := s.renewalOf(now, now, now.Add(test.life), test.chance).Sub(now); got.Round(time.Second) != test.want {
			t.Errorf("%v: renewed after %v, want %v", test.life, got, test.want)
		}
	}
	if got := s.renewalOf(now, now.Add(-time.Hour), now.Add(30*time.Minute), 0).Sub(now); got != 12*time.Minute {
		t.Errorf("an old one: renewed after %v", got)
	}
	if got := s.renewalOf(now, now.Add(-10*time.Hour), now.Add(30*time.Minute), 0).Sub(now); got != time.Minute {
		t.Errorf("one past its window: renewed after %v", got)
	}
}

// FuzzToken: no token is accepted unless one of the keys has signed it.
func FuzzToken(f *testing.F) {
	key := newEC(f, "1")
	v := &Validator{Keys: keysInFile(f, key), ScopeName: "scope", SubName: "sub"}
	good := key.sign(f, fmt.Sprintf(`{"sub":"alice","iat":%d,"exp":%d}`, now.Unix(), now.Unix()+60))
	f.Add(good)
	f.Add("a.b.c")
	f.Add(string(public(f, key)))
	f.Fuzz(func(t *testing.T, token string) {
		if user, _, err := v.Validate(t.Context(), token, now); err == nil && user != "alice" {
			t.Errorf("%q is taken for %q", token, user)
		}
		_, _, _ = lifetime(token, now)
		_, _ = answered([]byte(token))
		_, _ = parseKeys([]byte(token))
	})
}
