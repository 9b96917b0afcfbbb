// Package token keeps delegation tokens (KIP-48): names and secrets with which a user's programs log in by SCRAM in the
// user's name for a limited time. ZooKeeper stores the tokens; every broker derives their secrets from one that all
// brokers share. The package knows nothing about requests and connections.
package token

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"barnabas/internal/logx"
	"barnabas/internal/scram"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Store is where the tokens of all brokers are stored.
type Store interface {
	EnsureTokenNodes(ctx context.Context) error
	DelegationTokens(ctx context.Context) ([]zkcoord.DelegationToken, error)
	DelegationToken(ctx context.Context, id string) (zkcoord.DelegationToken, bool, error)
	CreateDelegationToken(ctx context.Context, t zkcoord.DelegationToken) error
	SetTokenExpiry(ctx context.Context, id string, expiresMs int64) (zkcoord.DelegationToken, error)
	DeleteDelegationToken(ctx context.Context, id string) error
	WatchTokenChanges(ctx context.Context, ready func(), changed func(ids []string, all bool)) error
}

// Config holds the settings of a Manager.
type Config struct {
	Secret        []byte        // delegation.token.secret.key, the same on all brokers
	MaxLifetime   time.Duration // delegation.token.max.lifetime.ms
	Lifetime      time.Duration // until a token must be renewed: delegation.token.expiry.time.ms
	CheckInterval time.Duration // delegation.token.expiry.check.interval.ms
	Sweeps        func() bool   // reports whether this broker removes expired tokens: the controller does
	Store         Store
	Now           func() time.Time
	Failed        func(error) // called once if tokens cannot be followed any more, since a removed token would stay valid forever
	Logger        *logrus.Entry
}

// Manager holds the existing tokens. Its methods are safe for concurrent use.
type Manager struct {
	cfg    Config
	ctx    context.Context // of the background work
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	reading sync.Mutex // held from reading tokens until they are stored, so that an older read does not bring back a removed token
	closed  bool       // by Close; no task may begin any more. Guarded by reading

	mu struct {
		sync.RWMutex
		byID   map[string]*held
		byHMAC map[string]*held
	}
}

// held is a token with its secret and its credentials. It is immutable; a renewed token is another one with the same
// credentials.
type held struct {
	Token
	credentials map[string]*credential // by mechanism
}

// credential is computed when it is first needed, since salting is slow.
type credential struct {
	once sync.Once
	made scram.Credential
	err  error
}

// Token is a token with its secret.
type Token struct {
	zkcoord.DelegationToken
	HMAC []byte // its base64 form is the password
}

// New returns a Manager without tokens.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.mu.byID, m.mu.byHMAC = make(map[string]*held), make(map[string]*held)
	return m
}

// Create creates a token with the owner's rights. A lifetime that is not positive stands for the maximum.
func (m *Manager) Create(ctx context.Context, owner, requester string, renewers []string, lifetimeMs int64) (Token, error) {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	now, longest := m.cfg.Now().UnixMilli(), m.cfg.MaxLifetime.Milliseconds()
	if lifetimeMs <= 0 || lifetimeMs > longest {
		lifetimeMs = longest
	}
	t := zkcoord.DelegationToken{ID: base64.RawURLEncoding.EncodeToString(raw[:]), Owner: owner, Requester: requester, Renewers: renewers,
		IssuedMs: now, MaxMs: now + lifetimeMs, ExpiresMs: now + min(lifetimeMs, m.cfg.Lifetime.Milliseconds())}
	if err := m.cfg.Store.CreateDelegationToken(ctx, t); err != nil {
		return Token{}, err
	}
	m.reread([]string{t.ID}, false) // others may have changed it since
	m.line(t).Info("delegation token created")
	return Token{t, m.secretOf(t.ID)}, nil
}

// Renew extends a token's lifetime, which its owner and renewers may do. A negative period stands for the default.
func (m *Manager) Renew(ctx context.Context, who string, hmac []byte, periodMs int64) (expiresMs int64, err error) {
	if periodMs < 0 {
		periodMs = m.cfg.Lifetime.Milliseconds()
	}
	t, err := m.find(who, hmac)
	if err != nil {
		return 0, err
	}
	return m.move(ctx, t, periodMs)
}

// Expire sets the end of a token's lifetime, like Renew; a negative period removes the token.
func (m *Manager) Expire(ctx context.Context, who string, hmac []byte, periodMs int64) (expiresMs int64, err error) {
	t, err := m.find(who, hmac)
	if err != nil {
		return 0, err
	}
	if periodMs < 0 {
		return m.cfg.Now().UnixMilli(), m.remove(ctx, t)
	}
	return m.move(ctx, t, periodMs)
}

// find returns the token whose lifetime someone wants to change.
func (m *Manager) find(who string, hmac []byte) (zkcoord.DelegationToken, error) {
	m.mu.RLock()
	h := m.mu.byHMAC[string(hmac)]
	m.mu.RUnlock()
	switch {
	case h == nil:
		return zkcoord.DelegationToken{}, fmt.Errorf("there is no such token: %w", kerr.DelegationTokenNotFound)
	case who != h.Owner && !slices.Contains(h.Renewers, who):
		return zkcoord.DelegationToken{}, fmt.Errorf("%s is neither owner nor renewer of token %s: %w", who, h.ID, kerr.DelegationTokenOwnerMismatch)
	}
	return h.DelegationToken, nil
}

func (m *Manager) move(ctx context.Context, t zkcoord.DelegationToken, periodMs int64) (int64, error) {
	now := m.cfg.Now().UnixMilli()
	if expired(t, now) {
		return 0, fmt.Errorf("token %s: %w", t.ID, kerr.DelegationTokenExpired)
	}
	t, err := m.cfg.Store.SetTokenExpiry(ctx, t.ID, now+min(periodMs, t.MaxMs-now)) // avoids an overflow
	if err != nil {
		return 0, err
	}
	m.reread([]string{t.ID}, false) // others may have changed or removed it since
	m.line(t).Info("delegation token has a new expiry")
	return t.ExpiresMs, nil
}

func (m *Manager) remove(ctx context.Context, t zkcoord.DelegationToken) error {
	if err := m.cfg.Store.DeleteDelegationToken(ctx, t.ID); err != nil {
		return err
	}
	m.forget(t.ID)
	m.line(t).Info("delegation token removed")
	return nil
}

func expired(t zkcoord.DelegationToken, nowMs int64) bool {
	return t.MaxMs < nowMs || t.ExpiresMs < nowMs
}

// Tokens returns the tokens that wanted selects, ordered by id.
func (m *Manager) Tokens(wanted func(zkcoord.DelegationToken) bool) []Token {
	m.mu.RLock()
	all := make([]Token, 0, len(m.mu.byID))
	for _, h := range m.mu.byID {
		all = append(all, h.Token)
	}
	m.mu.RUnlock()
	all = slices.DeleteFunc(all, func(t Token) bool { return !wanted(t.DelegationToken) })
	slices.SortFunc(all, func(a, b Token) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Credential returns what a login with a token is checked against. The first login with a token and mechanism computes
// it.
func (m *Manager) Credential(mechanism, id string) (c scram.Credential, owner string, expires time.Time, ok bool) {
	m.mu.RLock()
	h := m.mu.byID[id]
	m.mu.RUnlock()
	if h == nil || expired(h.DelegationToken, m.cfg.Now().UnixMilli()) {
		return c, "", time.Time{}, false
	}
	salted := h.credentials[mechanism]
	known, named := scram.Named(mechanism)
	if salted == nil || !named {
		return c, "", time.Time{}, false
	}
	salted.once.Do(func() {
		salted.made, salted.err = known.Derive(base64.StdEncoding.EncodeToString(h.HMAC), []byte(rand.Text()), scram.MinIterations)
	})
	return salted.made, h.Owner, time.UnixMilli(h.ExpiresMs), salted.err == nil
}

func (m *Manager) secretOf(id string) []byte {
	mac := hmac.New(sha512.New, m.cfg.Secret)
	mac.Write([]byte(id))
	return mac.Sum(nil)
}

func (m *Manager) put(t zkcoord.DelegationToken) {
	h := &held{Token: Token{t, m.secretOf(t.ID)}}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.mu.byID[t.ID]; old != nil {
		h.credentials = old.credentials
	} else {
		h.credentials = make(map[string]*credential)
		for _, known := range scram.Mechanisms() {
			h.credentials[known.Name] = new(credential)
		}
	}
	m.mu.byID[t.ID], m.mu.byHMAC[string(h.HMAC)] = h, h
}

func (m *Manager) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.mu.byID[id]; h != nil {
		delete(m.mu.byID, id)
		delete(m.mu.byHMAC, string(h.HMAC))
	}
}

func (m *Manager) line(t zkcoord.DelegationToken) *logrus.Entry {
	return m.cfg.Logger.WithFields(logrus.Fields{logx.Token: t.ID, logx.Principal: t.Owner})
}
