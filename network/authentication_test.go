package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"barnabas/internal/testlog"
	"barnabas/internal/testwait"
	"barnabas/network/sasl"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// login is a Dispatcher with the APIs of a login, whose bodies are plain text, and echoNow, which returns who is logged
// in.
type login struct {
	mu   sync.Mutex
	seen []string // users that have called echoNow
}

func (l *login) Route(_ *Conn, key, version int16) (Route, error) {
	switch kmsg.Key(key) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate, echoNow:
		if version > 3 {
			return Route{}, errors.New("no such version")
		}
		return Route{Overlap: key == echoNow}, nil
	}
	return Route{}, fmt.Errorf("unknown API key %d", key)
}

func (l *login) Handle(_ context.Context, r *Request) (Answer, error) {
	c, body := r.Conn, string(r.Body)
	switch kmsg.Key(r.Key) {
	case kmsg.ApiVersions:
		if body == "bad" {
			return Ready(text("35")), nil
		}
		c.VersionsTold()
		return Ready(text("0")), nil
	case kmsg.SASLHandshake:
		offered, err := c.Handshake(body, r.Version)
		return Ready(text(fmt.Sprintf("%d%s", errorCode(err), offered))), nil
	case kmsg.SASLAuthenticate:
		answer, lifetime, err := c.Authenticate([]byte(body), r.Version)
		if err != nil {
			return Ready(text(fmt.Sprint(errorCode(err), " ", err))), nil
		}
		return Ready(text(fmt.Sprintf("0 %s %d", answer, lifetime.Milliseconds()))), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, c.Principal)
	return Ready(text(c.Principal)), nil
}

func (l *login) Refuse(r *Request, why error) (Answer, error) {
	if string(r.Body) == "unanswered" {
		return Answer{}, why
	}
	return Ready(text(fmt.Sprint("refused ", errorCode(why)))), nil
}

func errorCode(err error) int16 {
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Code
	}
	return 0
}

// otherPlain is PLAIN under another name, to test a change of the mechanism.
const otherPlain = "OTHER"

func saslListener(t *testing.T, d Dispatcher, server sasl.Server) (*Server, *net.TCPAddr) {
	t.Helper()
	start := sasl.Plain(sasl.Passwords{"alice": "pw", "bob": "pw2"})
	if server.Mechanisms == nil {
		server.Mechanisms = []sasl.Mechanism{{Name: sasl.PlainName, Start: start}}
	}
	for i := range server.Mechanisms {
		server.Mechanisms[i].Start = start
	}
	if server.MaxReceive == 0 {
		server.MaxReceive = 1000
	}
	s := NewServer(Config{RequestMaxBytes: 1 << 20, QueuedMaxBytes: 1 << 20}, d, testlog.Quiet())
	addr, err := s.Bind(Listener{Name: "SASL_PLAINTEXT", Addr: "127.0.0.1:0", SASL: &server})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve()
	t.Cleanup(s.Close)
	return s, addr
}

// wordy refuses a login with a reason that quotes everything the client has sent.
type wordy struct{}

func (wordy) Step(_ context.Context, message []byte) ([]byte, error) {
	return nil, errors.New(string(message))
}
func (wordy) Login() (sasl.Login, bool) { return sasl.Login{}, false }

// TestLoginLineIsShort: the log line is short although the reason quotes what an unauthenticated client has sent.
func TestLoginLineIsShort(t *testing.T) {
	var text bytes.Buffer
	log := logrus.New()
	log.SetOutput(&text)
	s := NewServer(Config{RequestMaxBytes: 1 << 20}, &login{}, logrus.NewEntry(log))
	addr, err := s.Bind(Listener{Name: "SASL_PLAINTEXT", Addr: "127.0.0.1:0", SASL: &sasl.Server{MaxReceive: 1 << 20,
		Mechanisms: []sasl.Mechanism{{Name: sasl.PlainName, Start: func() sasl.Exchange { return wordy{} }}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve()
	c := dial(t, addr)
	ask(t, c, handshake, 0, sasl.PlainName)
	askBare(t, c, strings.Repeat("x", 100_000))
	s.Close()
	if line := text.String(); !strings.Contains(line, "login failed") || strings.Count(line, "x") > 1000 {
		t.Errorf("%d bytes: %.500s", len(line), line)
	}
}

const (
	versions     = int16(kmsg.ApiVersions)
	handshake    = int16(kmsg.SASLHandshake)
	authenticate = int16(kmsg.SASLAuthenticate)
	alice        = "\x00alice\x00pw"
)

// ask sends a request and returns the response; "closed" if there is none.
func ask(t *testing.T, c *net.TCPConn, key, version int16, body string) string {
	t.Helper()
	f := frame(key, 0, 1, body)
	binary.BigEndian.PutUint16(f[6:], uint16(version))
	if _, err := c.Write(f); err != nil {
		return "closed"
	}
	answer, err := readSized(c)
	if err != nil {
		return closedBy(t, err)
	}
	return answer[4:] // without the correlation id
}

// askBare sends a message without a request around it.
func askBare(t *testing.T, c *net.TCPConn, message string) string {
	t.Helper()
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
		return "closed"
	}
	answer, err := readSized(c)
	if err != nil {
		return closedBy(t, err)
	}
	return answer
}

func closedBy(t *testing.T, err error) string {
	t.Helper()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("neither an answer nor the end of the connection")
	}
	return "closed"
}

func readSized(c io.Reader) (string, error) {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return "", err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(c, body)
	return string(body), err
}

func TestLogin(t *testing.T) {
	type step struct {
		key, version int16
		body, want   string // a trailing * makes want a prefix
	}
	const bare = -1
	good := []step{{handshake, 1, "PLAIN", "0[PLAIN]"}, {authenticate, 1, alice, "0  0"}, {echoNow, 0, "", "User:alice"}}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"with SaslAuthenticate", good},
		{"after ApiVersions", append([]step{{versions, 0, "", "0"}}, good...)},
		{"after ApiVersions that failed", append([]step{{versions, 0, "bad", "35"}, {versions, 0, "bad", "35"}, {versions, 0, "", "0"}}, good...)},
		{"with bare tokens", []step{{handshake, 0, "PLAIN", "0[PLAIN]"}, {bare, 0, alice, ""}, {echoNow, 0, "", "User:alice"}}},
		{"wrong password", []step{{handshake, 1, "PLAIN", "0[PLAIN]"}, {authenticate, 1, "\x00alice\x00no", "58 *"}, {echoNow, 0, "", "closed"}}},
		{"wrong password, bare", []step{{handshake, 0, "PLAIN", "0[PLAIN]"}, {bare, 0, "\x00alice\x00no", "closed"}}},
		{"unknown mechanism", []step{{handshake, 1, "GSSAPI", "33[PLAIN]"}, {versions, 0, "", "closed"}}},
		{"a version that is not there", []step{{handshake, 4, "PLAIN", "closed"}}},
		{"no handshake", []step{{authenticate, 1, alice, "closed"}}},
		{"ApiVersions twice", []step{{versions, 0, "", "0"}, {versions, 0, "", "closed"}}},
		{"ApiVersions after the handshake", []step{{handshake, 1, "PLAIN", "0[PLAIN]"}, {versions, 0, "", "refused 34"}, {versions, 0, "", "closed"}}},
		{"two handshakes", []step{{handshake, 1, "PLAIN", "0[PLAIN]"}, {handshake, 1, "PLAIN", "refused 34"}, {echoNow, 0, "", "closed"}}},
		{"a request before", []step{{echoNow, 0, "", "closed"}}},
		{"a request in the middle", []step{{handshake, 1, "PLAIN", "0[PLAIN]"}, {echoNow, 0, "", "refused 34"}, {authenticate, 1, alice, "closed"}}},
		{"a request in the middle without an answer", []step{{handshake, 1, "PLAIN", "0[PLAIN]"}, {echoNow, 0, "unanswered", "closed"}}},
		{"an unknown request in the middle", []step{{handshake, 1, "PLAIN", "0[PLAIN]"}, {echoNow + 1, 0, "", "closed"}}},
		{"another API", []step{{echoNow + 1, 0, "", "closed"}}},
		{"no request at all", []step{{bare, 0, "x", "closed"}}},
		{"too large", []step{{versions, 0, strings.Repeat("x", 1000), "closed"}}},
		{"large ones after the login", append(slices.Clone(good), step{echoNow, 0, strings.Repeat("x", 1000), "User:alice"})},
		{"a second login without a limit to the session", append(slices.Clone(good), step{handshake, 1, "PLAIN", "34[]"},
			step{authenticate, 1, alice, "34 *"}, step{echoNow, 0, "", "User:alice"})},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, addr := saslListener(t, &login{}, sasl.Server{})
			c := dial(t, addr)
			for i, s := range test.steps {
				var got string
				if s.key == bare {
					got = askBare(t, c, s.body)
				} else {
					got = ask(t, c, s.key, s.version, s.body)
				}
				begin, prefix := strings.CutSuffix(s.want, "*")
				if got != s.want && !(prefix && strings.HasPrefix(got, begin)) {
					t.Fatalf("step %d: got %q, want %q", i, got, s.want)
				}
			}
		})
	}
}

// TestFailedLoginsAreHeldBack: ten failed logins wait for connection.failed.authentication.delay.ms before they are
// answered, while other clients log in.
func TestFailedLoginsAreHeldBack(t *testing.T) {
	s, addr := saslListener(t, &login{}, sasl.Server{FailureDelay: time.Hour})
	var held []*net.TCPConn
	for range 10 {
		c := dial(t, addr)
		ask(t, c, handshake, 1, "PLAIN")
		if _, err := c.Write(frame(authenticate, 0, 1, "\x00alice\x00no")); err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	c := dial(t, addr)
	ask(t, c, handshake, 1, "PLAIN")
	if got := ask(t, c, authenticate, 1, alice); got != "0  0" {
		t.Errorf("the right password is answered with %q", got)
	}
	for i, c := range held {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, err := c.Read(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("login %d was not held back: %d bytes, %v", i, n, err)
		}
	}
	testwait.Until(t, "all ten have failed", func() bool { return s.Authentications()["SASL_PLAINTEXT"].Failed.Load() == 10 })
	s.Close() // does not wait for them

	_, addr = saslListener(t, &login{}, sasl.Server{FailureDelay: time.Millisecond})
	c = dial(t, addr)
	ask(t, c, handshake, 1, "PLAIN")
	if got := ask(t, c, authenticate, 1, "\x00alice\x00no"); !strings.HasPrefix(got, "58 ") || len(got) < len("58 xxxx") {
		t.Errorf("the client gets the reason %q", got)
	}
	if got := ask(t, c, versions, 0, ""); got != "closed" {
		t.Errorf("after a failed login there is an answer: %q", got)
	}
}

// TestSessionsEnd: a session ends at its lifetime unless the client re-authenticates as the same user with the same
// mechanism.
func TestSessionsEnd(t *testing.T) {
	both := func(lifetime time.Duration) sasl.Server {
		return sasl.Server{Mechanisms: []sasl.Mechanism{{Name: sasl.PlainName, MaxLifetime: lifetime}, {Name: otherPlain, MaxLifetime: lifetime}}}
	}
	logIn := func(t *testing.T, s sasl.Server, want string) (*Server, *net.TCPConn) {
		t.Helper()
		server, addr := saslListener(t, &login{}, s)
		c := dial(t, addr)
		ask(t, c, handshake, 1, "PLAIN")
		if got := ask(t, c, authenticate, 1, alice); got != want {
			t.Fatalf("the login is answered with %q", got)
		}
		return server, c
	}
	t.Run("again", func(t *testing.T) {
		s, c := logIn(t, both(time.Hour), "0  3600000")
		if got := ask(t, c, handshake, 1, "PLAIN"); got != "0[OTHER PLAIN]" {
			t.Fatalf("the second handshake is answered with %q", got)
		}
		if got := ask(t, c, authenticate, 1, alice); got != "0  3600000" {
			t.Fatalf("the second login is answered with %q", got)
		}
		if got := ask(t, c, echoNow, 0, ""); got != "User:alice" {
			t.Errorf("a later request is answered with %q", got)
		}
		if got := ask(t, c, handshake, 1, "PLAIN"); got != "34[]" {
			t.Errorf("a third login, at once, is answered with %q", got)
		}
		if n := s.Authentications()["SASL_PLAINTEXT"]; n.Succeeded.Load() != 1 || n.Again.Load() != 1 || n.SucceededUnaware.Load() != 0 {
			t.Errorf("counted %d and %d more", n.Succeeded.Load(), n.Again.Load())
		}
	})
	t.Run("only after the answers before", func(t *testing.T) {
		e := &echo{gates: make(chan chan struct{}, 1)}
		_, addr := saslListener(t, &loginAndEcho{login{}, e}, both(time.Hour))
		c := dial(t, addr)
		ask(t, c, handshake, 1, "PLAIN")
		ask(t, c, authenticate, 1, alice)
		if _, err := c.Write(append(frame(echoLater, 0, 1, "later"), frame(handshake, 0, 2, "PLAIN")...)); err != nil {
			t.Fatal(err)
		}
		close(<-e.gates)
		for _, want := range []string{"later", "0[OTHER PLAIN]"} {
			if _, got := readAnswer(t, c); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
	t.Run("as another user", func(t *testing.T) {
		s, c := logIn(t, both(time.Hour), "0  3600000")
		ask(t, c, handshake, 1, "PLAIN")
		if got := ask(t, c, authenticate, 1, "\x00bob\x00pw2"); !strings.HasPrefix(got, "58 ") {
			t.Errorf("answered with %q", got)
		}
		if got := ask(t, c, echoNow, 0, ""); got != "closed" {
			t.Errorf("a later request is answered with %q", got)
		}
		if n := s.Authentications()["SASL_PLAINTEXT"]; n.FailedAgain.Load() != 1 || n.Failed.Load() != 0 {
			t.Errorf("counted %d and %d", n.FailedAgain.Load(), n.Failed.Load())
		}
	})
	t.Run("with another mechanism", func(t *testing.T) {
		_, c := logIn(t, both(time.Hour), "0  3600000")
		if got := ask(t, c, handshake, 1, otherPlain); got != "0[OTHER PLAIN]" {
			t.Errorf("the handshake is answered with %q", got)
		}
		if got := ask(t, c, authenticate, 1, alice); got != "closed" {
			t.Errorf("answered with %q", got)
		}
	})
	t.Run("too late", func(t *testing.T) {
		s, c := logIn(t, both(time.Millisecond), "0  1")
		time.Sleep(2 * time.Millisecond)
		if got := ask(t, c, echoNow, 0, ""); got != "closed" {
			t.Errorf("a request is answered with %q", got)
		}
		if n := s.Authentications()["SASL_PLAINTEXT"]; n.Expired.Load() != 1 {
			t.Errorf("%d failed re-authentications are counted", n.Expired.Load())
		}
	})
	t.Run("late", func(t *testing.T) {
		_, c := logIn(t, both(time.Millisecond), "0  1")
		time.Sleep(2 * time.Millisecond)
		if got := ask(t, c, handshake, 1, "PLAIN"); got != "0[OTHER PLAIN]" {
			t.Errorf("the handshake is answered with %q", got)
		}
	})
}

// loginAndEcho has the APIs of both login and echo.
type loginAndEcho struct {
	login
	echo *echo
}

func (l *loginAndEcho) Route(c *Conn, key, version int16) (Route, error) {
	if key >= echoNow {
		return l.echo.Route(c, key, version)
	}
	return l.login.Route(c, key, version)
}

func (l *loginAndEcho) Handle(ctx context.Context, r *Request) (Answer, error) {
	if r.Key >= echoNow {
		return l.echo.Handle(ctx, r)
	}
	return l.login.Handle(ctx, r)
}

func TestSessionEnd(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	for _, test := range []struct {
		name     string
		most     time.Duration
		credends time.Time
		lifetime time.Duration
		ends     time.Time
	}{
		{"no limit", 0, time.Time{}, 0, time.Time{}},
		{"of the listener", time.Minute, time.Time{}, time.Minute, now.Add(time.Minute)},
		{"of the token", 0, now.Add(time.Second), time.Second, now.Add(time.Second)},
		{"the token's comes first", time.Minute, now.Add(time.Second), time.Second, now.Add(time.Second)},
		{"the listener's comes first", time.Second, now.Add(time.Minute), time.Second, now.Add(time.Second)},
		{"a token that is over", time.Minute, now.Add(-time.Second), 0, now},
	} {
		if lifetime, ends := sessionEnd(now, test.most, test.credends); lifetime != test.lifetime || !ends.Equal(test.ends) {
			t.Errorf("%s: %v, %v", test.name, lifetime, ends)
		}
	}
}

// TestNothingPassesBeforeALogin sends requests in random order and compares the responses with a model. Whatever the
// order, no other API's request is handled before the client has logged in.
func TestNothingPassesBeforeALogin(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	d := &login{}
	_, addr := saslListener(t, d, sasl.Server{})
	asked := 0
	for range 300 {
		c := dial(t, addr)
		m := &loginModel{}
		for i, before := 0, ""; i < 8 && before != "closed"; i++ {
			key, version, body := randomRequest(random)
			bare := m.bare && !m.done && key == authenticate
			want := m.step(key, version, body)
			got := ""
			if bare {
				got = askBare(t, c, body)
			} else {
				got = ask(t, c, key, version, body)
			}
			if begin, prefix := strings.CutSuffix(want, "*"); got != want && !(prefix && strings.HasPrefix(got, begin)) {
				t.Fatalf("seed %d: after %q API %d v%d %q: got %q, want %q", seed, before, key, version, body, got, want)
			}
			if want == "User:alice" {
				asked++
			}
			before = want
		}
		_ = c.Close()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.seen) != asked || slices.ContainsFunc(d.seen, func(who string) bool { return who != "User:alice" }) {
		t.Errorf("seed %d: %d requests were handled, want %d", seed, len(d.seen), asked)
	}
	if asked == 0 {
		t.Error("no login ever succeeded")
	}
}

func randomRequest(random *rand.Rand) (key, version int16, body string) {
	switch random.IntN(8) {
	case 0:
		return versions, 0, []string{"", "bad"}[random.IntN(2)]
	case 1, 2:
		return handshake, int16(random.IntN(2)), []string{"PLAIN", "PLAIN", "PLAIN", "x"}[random.IntN(4)]
	case 3, 4, 5:
		return authenticate, int16(random.IntN(3)), []string{alice, alice, alice, "\x00alice\x00no"}[random.IntN(4)]
	}
	return echoNow, 0, ""
}

// loginModel is another implementation of the stages of a login.
type loginModel struct {
	versions, chosen, bare, done, over bool
}

func (m *loginModel) step(key, version int16, body string) string {
	want, next := m.answer(key, version, body)
	next.over = next.over || want == "closed"
	*m = next
	return want
}

func (m loginModel) answer(key, version int16, body string) (string, loginModel) {
	switch {
	case m.over:
		return "closed", m
	case m.bare && !m.done: // any bytes are taken for a token
		if key == authenticate && body == alice {
			return "", loginModel{versions: true, chosen: true, done: true}
		}
		return "closed", m
	case m.done && key == echoNow:
		return "User:alice", m
	case m.done && key == versions:
		return map[string]string{"": "0", "bad": "35"}[body], m
	case m.done && key == handshake:
		return "34[]", m
	case m.done:
		return "34 *", m
	case m.chosen && key != authenticate:
		m.over = true
		return "refused 34", m
	case m.chosen && key == authenticate && body == alice:
		m.done = true
		return "0  0", m
	case m.chosen && key == authenticate:
		m.over = true
		return "58 *", m
	case !m.chosen && key == handshake && body == "PLAIN":
		m.chosen, m.bare = true, version == 0
		return "0[PLAIN]", m
	case !m.chosen && key == handshake:
		m.over = true
		return "33[PLAIN]", m
	case !m.chosen && !m.versions && key == versions:
		m.versions = body == ""
		return map[string]string{"": "0", "bad": "35"}[body], m
	}
	return "closed", m
}
