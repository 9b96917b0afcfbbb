package token

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/scram"
	"barnabas/internal/testlog"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
)

// store simulates a ZooKeeper with several brokers.
type store struct {
	mu       sync.Mutex
	tokens   map[string]zkcoord.DelegationToken
	watchers []func(ids []string, all bool)
	broken   error
	lost     chan error // ends a watch
	mute     bool       // setting watches has no effect
	written  func()     // called once after an expiry was written, before that is reported; may be nil
	reading  func()     // called once after all tokens were read, before they are returned; may be nil
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens)
}

func newStore() *store {
	return &store{tokens: make(map[string]zkcoord.DelegationToken), lost: make(chan error)}
}

func (s *store) EnsureTokenNodes(context.Context) error { return s.broken }

func (s *store) DelegationTokens(context.Context) ([]zkcoord.DelegationToken, error) {
	s.mu.Lock()
	var all []zkcoord.DelegationToken
	for _, t := range s.tokens {
		all = append(all, t)
	}
	broken, reading := s.broken, s.reading
	s.reading = nil
	s.mu.Unlock()
	if reading != nil {
		reading()
	}
	return all, broken
}

func (s *store) DelegationToken(_ context.Context, id string) (zkcoord.DelegationToken, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[id]
	return t, ok, s.broken
}

func (s *store) CreateDelegationToken(_ context.Context, t zkcoord.DelegationToken) error {
	return s.change(t.ID, func() { s.tokens[t.ID] = t })
}

func (s *store) SetTokenExpiry(ctx context.Context, id string, expiresMs int64) (zkcoord.DelegationToken, error) {
	t, found, err := s.DelegationToken(ctx, id)
	if err == nil && !found {
		err = kerr.DelegationTokenNotFound
	}
	if err != nil {
		return t, err
	}
	t.ExpiresMs = expiresMs
	err = s.change(id, func() { s.tokens[id] = t })
	s.mu.Lock()
	written := s.written
	s.written = nil
	s.mu.Unlock()
	if written != nil {
		written()
	}
	return t, err
}

func (s *store) DeleteDelegationToken(_ context.Context, id string) error {
	return s.change(id, func() { delete(s.tokens, id) })
}

func (s *store) change(id string, f func()) error {
	s.mu.Lock()
	if s.broken != nil {
		s.mu.Unlock()
		return s.broken
	}
	f()
	watchers := slices.Clone(s.watchers)
	s.mu.Unlock()
	for _, tell := range watchers {
		tell([]string{id}, false)
	}
	return nil
}

func (s *store) WatchTokenChanges(ctx context.Context, ready func(), changed func(ids []string, all bool)) error {
	s.mu.Lock()
	s.watchers = append(s.watchers, changed)
	s.mu.Unlock()
	if !s.mute {
		ready()
	}
	select {
	case err := <-s.lost:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// clock is advanced by the test.
type clock struct{ ms int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms) }

const began = 1_790_000_000_000

func manager(t *testing.T, s *store, c *clock) *Manager {
	t.Helper()
	m := New(Config{Secret: []byte("abc"), MaxLifetime: time.Hour, Lifetime: time.Minute, CheckInterval: time.Hour,
		Sweeps: func() bool { return true }, Store: s, Now: c.now, Failed: func(err error) { t.Error(err) }, Logger: testlog.Quiet()})
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func TestSecretOfAToken(t *testing.T) {
	m := manager(t, newStore(), &clock{began})
	got := m.secretOf("ZSTkj5CFRp6lW2KPbUgDTw")
	// Computed with `printf ZSTkj5CFRp6lW2KPbUgDTw | openssl dgst -sha512 -hmac abc`.
	const want = "2ee17c256ab0b33bee74b33d5c42c9d281e5288a4077ff28962937ae292cce177f13e6fe53684b2f357933620c727745ecf4f08abb307280db109fdc932c0339"
	if hex.EncodeToString(got) != want {
		t.Errorf("%x", got)
	}
}

func TestLifeOfAToken(t *testing.T) {
	s, c := newStore(), &clock{began}
	here, there := manager(t, s, c), manager(t, s, c)
	ctx := t.Context()
	created, err := here.Create(ctx, "User:alice", "User:carl", []string{"User:bob"}, -1)
	if err != nil || created.IssuedMs != began || created.MaxMs != began+3_600_000 || created.ExpiresMs != began+60_000 || len(created.ID) != 22 {
		t.Fatalf("%+v, %v", created, err)
	}
	if known := there.Tokens(every); len(known) != 1 || known[0].ID != created.ID || !bytes.Equal(known[0].HMAC, created.HMAC) {
		t.Fatalf("another broker has %+v", known)
	}
	for _, step := range []struct {
		name   string
		do     func(context.Context, string, []byte, int64) (int64, error)
		who    string
		hmac   []byte
		period int64
		want   error
		ends   int64
	}{
		{"a stranger renews", there.Renew, "User:eve", created.HMAC, -1, kerr.DelegationTokenOwnerMismatch, 0},
		{"who asked for it is no renewer", there.Renew, "User:carl", created.HMAC, -1, kerr.DelegationTokenOwnerMismatch, 0},
		{"there is none", there.Renew, "User:alice", []byte("x"), -1, kerr.DelegationTokenNotFound, 0},
		{"a renewer, the usual time", there.Renew, "User:bob", created.HMAC, -1, nil, began + 60_000},
		{"the owner, longer", there.Renew, "User:alice", created.HMAC, 120_000, nil, began + 120_000},
		{"longer than it may live", here.Renew, "User:alice", created.HMAC, 1 << 62, nil, began + 3_600_000},
		{"a shorter life", here.Expire, "User:alice", created.HMAC, 1000, nil, began + 1000},
		{"a stranger ends it", here.Expire, "User:eve", created.HMAC, -1, kerr.DelegationTokenOwnerMismatch, 0},
		{"the end", here.Expire, "User:bob", created.HMAC, -1, nil, began},
		{"it is gone", there.Expire, "User:bob", created.HMAC, -1, kerr.DelegationTokenNotFound, 0},
	} {
		ends, err := step.do(ctx, step.who, step.hmac, step.period)
		if !errors.Is(err, step.want) || err == nil && ends != step.ends {
			t.Errorf("%s: %d, %v", step.name, ends-began, err)
		}
	}
	if len(s.tokens) != 0 || len(there.Tokens(every)) != 0 {
		t.Error("it still exists")
	}
}

func TestExpiredTokens(t *testing.T) {
	s, c := newStore(), &clock{began}
	m := manager(t, s, c)
	short, err := m.Create(t.Context(), "User:alice", "User:alice", nil, 1000)
	if err != nil || short.ExpiresMs != began+1000 || short.MaxMs != began+1000 {
		t.Fatalf("%+v, %v", short, err)
	}
	if _, err := m.Create(t.Context(), "User:alice", "User:alice", nil, 1<<60); err != nil {
		t.Fatal(err)
	}
	c.ms += 1001
	if _, err := m.Renew(t.Context(), "User:alice", short.HMAC, -1); !errors.Is(err, kerr.DelegationTokenExpired) {
		t.Errorf("renewed: %v", err)
	}
	if _, err := m.Expire(t.Context(), "User:alice", short.HMAC, 5); !errors.Is(err, kerr.DelegationTokenExpired) {
		t.Errorf("moved: %v", err)
	}
	if _, _, _, ok := m.Credential("SCRAM-SHA-256", short.ID); ok {
		t.Error("a login with it still succeeds")
	}
	m.removeExpired(t.Context())
	if _, there := s.tokens[short.ID]; there || len(s.tokens) != 1 {
		t.Errorf("stored are %v", s.tokens)
	}
	s.broken = errors.New("no ZooKeeper")
	if _, err := m.Create(t.Context(), "User:alice", "User:alice", nil, -1); err == nil || len(m.Tokens(every)) != 1 {
		t.Errorf("a token that only the creator knows: %v", err)
	}
}

func TestSweepingIsTheControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var controller atomic.Bool
		m := New(Config{Secret: []byte("abc"), MaxLifetime: time.Hour, Lifetime: time.Minute, CheckInterval: time.Hour,
			Sweeps: controller.Load, Store: s, Now: time.Now, Failed: func(err error) { t.Error(err) }, Logger: testlog.Quiet()})
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := m.Create(t.Context(), "User:alice", "User:alice", nil, -1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if s.count() != 1 {
			t.Error("a broker that is not the controller has removed it")
		}
		controller.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.count() != 0 {
			t.Error("it still exists")
		}
	})
}

func TestLoginWithAToken(t *testing.T) {
	s, c := newStore(), &clock{began}
	here, there := manager(t, s, c), manager(t, s, c)
	created, err := here.Create(t.Context(), "User:alice", "User:alice", nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range scram.Mechanisms() {
		first, owner, expires, ok := there.Credential(m.Name, created.ID)
		if !ok || owner != "User:alice" || expires.UnixMilli() != began+60_000 {
			t.Fatalf("%s: %v, %s, %v", m.Name, ok, owner, expires)
		}
		server := m.NewServer(func(string, bool) (scram.Credential, bool) { return first, true })
		client := m.NewClient(created.ID, base64.StdEncoding.EncodeToString(created.HMAC), true)
		for message := []byte(nil); ; {
			if message, err = client.Step(message); err != nil || message == nil {
				break
			}
			if message, err = server.Step(message); err != nil {
				break
			}
		}
		if err != nil || !server.Done() {
			t.Errorf("%s: %v", m.Name, err)
		}
		if _, err := here.Renew(t.Context(), "User:alice", created.HMAC, 90_000); err != nil {
			t.Fatal(err)
		}
		again, _, expires, _ := there.Credential(m.Name, created.ID)
		if !bytes.Equal(again.Salt, first.Salt) || expires.UnixMilli() != began+90_000 {
			t.Errorf("%s: the renewed token has new credentials, or expires at %v", m.Name, expires)
		}
		if _, err := s.SetTokenExpiry(t.Context(), created.ID, began+60_000); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, ok := there.Credential("PLAIN", created.ID); ok {
		t.Error("there are no credentials for PLAIN")
	}
	if _, _, _, ok := there.Credential("SCRAM-SHA-256", "x"); ok {
		t.Error("the token does not exist")
	}
}

func TestTokensAreReadAnewAfterASessionWasLost(t *testing.T) {
	s, c := newStore(), &clock{began}
	s.tokens["old"] = zkcoord.DelegationToken{ID: "old", Owner: "User:alice", ExpiresMs: began + 1, MaxMs: began + 1}
	m := manager(t, s, c)
	if known := m.Tokens(every); len(known) != 1 || known[0].ID != "old" {
		t.Fatalf("known tokens: %+v", known)
	}
	s.mu.Lock()
	delete(s.tokens, "old")
	s.tokens["new"] = zkcoord.DelegationToken{ID: "new", Owner: "User:alice", ExpiresMs: began + 1, MaxMs: began + 1}
	s.mu.Unlock()
	s.watchers[0](nil, true)
	if known := m.Tokens(every); len(known) != 1 || known[0].ID != "new" {
		t.Errorf("known tokens: %+v", known)
	}
}

// TestTokenRemovedDuringAStart: a token that is removed while a starting broker reads all tokens is not accepted by it.
func TestTokenRemovedDuringAStart(t *testing.T) {
	s, c := newStore(), &clock{began}
	s.tokens["old"] = zkcoord.DelegationToken{ID: "old", Owner: "User:alice", ExpiresMs: began + 1, MaxMs: began + 1}
	told := make(chan struct{})
	s.reading = func() {
		s.mu.Lock()
		delete(s.tokens, "old")
		tell := s.watchers[0]
		s.mu.Unlock()
		go func() { tell([]string{"old"}, false); close(told) }()
		select {
		case <-told:
		case <-time.After(20 * time.Millisecond): // it waits for the read to be over
		}
	}
	m := manager(t, s, c)
	<-told
	if known := m.Tokens(every); len(known) != 0 {
		t.Errorf("%d tokens are known", len(known))
	}
}

// TestTokensAreReadAgain: a token that is removed is forgotten although it could not be read at first, because ZooKeeper
// refused to answer.
func TestTokensAreReadAgain(t *testing.T) {
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, c := newStore(), &clock{began}
			s.tokens["old"] = zkcoord.DelegationToken{ID: "old", Owner: "User:alice", ExpiresMs: began + 1, MaxMs: began + 1}
			m := manager(t, s, c)
			defer m.Close()
			refuse := func(err error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.broken = err
				delete(s.tokens, "old")
			}
			refuse(errors.New("throttled"))
			ids := []string{"old"}
			if all {
				ids = nil
			}
			s.watchers[0](ids, all)
			if known := m.Tokens(every); len(known) != 1 {
				t.Errorf("%d tokens are known", len(known))
			}
			refuse(nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if known := m.Tokens(every); len(known) != 0 {
				t.Errorf("%d tokens are still known", len(known))
			}
		})
	}
}

// TestNothingIsReadAfterClose: what waits to be read again ends with Close.
func TestNothingIsReadAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newStore(), &clock{began}
		s.tokens["old"] = zkcoord.DelegationToken{ID: "old", Owner: "User:alice", ExpiresMs: began + 1, MaxMs: began + 1}
		m := manager(t, s, c)
		s.mu.Lock()
		s.broken = errors.New("throttled")
		s.mu.Unlock()
		s.watchers[0]([]string{"old"}, false)
		m.Close()
		s.mu.Lock()
		s.broken = nil
		delete(s.tokens, "old")
		s.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if known := m.Tokens(every); len(known) != 1 {
			t.Error("tokens were read after Close")
		}
	})
}

// TestTokensThatCannotBeWatched: if changes of tokens cannot be watched, that is reported to the operator, since a
// revoked token would still be accepted.
func TestTokensThatCannotBeWatched(t *testing.T) {
	failed := make(chan error, 1)
	prepared := func(s *store) *Manager {
		m := New(Config{CheckInterval: time.Hour, Store: s, Now: time.Now, Failed: func(err error) { failed <- err }, Logger: testlog.Quiet()})
		t.Cleanup(m.Close)
		return m
	}
	s := newStore()
	if err := prepared(s).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("no session any more")
	s.lost <- gone
	if err := <-failed; !errors.Is(err, gone) {
		t.Errorf("it failed with %v", err)
	}

	s = newStore()
	s.mute = true
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if err := prepared(s).Start(ctx); !errors.Is(err, stopped) {
		t.Errorf("a cancelled start: %v", err)
	}
	m := prepared(s)
	m.Close()
	if err := m.Start(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("a start after Close: %v", err)
	}
	if len(failed) != 0 {
		t.Errorf("that was reported: %v", <-failed)
	}
}

// TestTokenRemovedDuringARenewal: a token that another broker removes before this one has heard that its renewal was
// written is not accepted by this one.
func TestTokenRemovedDuringARenewal(t *testing.T) {
	s, c := newStore(), &clock{began}
	m := manager(t, s, c)
	created, err := m.Create(t.Context(), "User:alice", "User:alice", nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	s.written = func() {
		if err := s.DeleteDelegationToken(t.Context(), created.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := m.Renew(t.Context(), "User:alice", created.HMAC, -1); err != nil {
		t.Fatal(err)
	}
	if known := m.Tokens(every); len(known) != 0 {
		t.Errorf("%d tokens are known", len(known))
	}
}
