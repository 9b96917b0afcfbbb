package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/network/oauth"
	"barnabas/network/sasl"

	"github.com/sirupsen/logrus"
)

// oauthLineInterval is the interval between log lines about identity providers: clients cause them.
const oauthLineInterval = time.Second

// oauthState holds what the broker has from identity providers. A listener's keys and tokens are kept while the
// settings for them stay the same, and listeners with the same settings share them.
type oauthState struct {
	ctx   context.Context // ends with the broker, and with it requests to providers
	log   *logrus.Entry
	lines logx.Sampler

	mu struct {
		sync.Mutex
		keys    map[string]built[*providerKeys] // of providers, by listener
		sources map[string]built[*oauth.Source] // of this broker's own tokens, by listener
	}
}

// built is a value with the settings that it was made from.
type built[T any] struct {
	settings string
	value    T
}

// providerKeys is a provider's keys with the setting that says where they are.
type providerKeys struct {
	*oauth.Keys
	at config.Endpoint
}

func newOAuthState(ctx context.Context, log *logrus.Entry) *oauthState {
	o := &oauthState{ctx: ctx, log: log, lines: logx.Sampler{Interval: oauthLineInterval}}
	o.mu.keys, o.mu.sources = make(map[string]built[*providerKeys]), make(map[string]built[*oauth.Source])
	return o
}

// ofSettings returns the value for a listener's settings, which this or another listener may have already.
func ofSettings[T any](all map[string]built[T], listener, settings string, build func() T) T {
	for _, m := range all {
		if m.settings == settings {
			all[listener] = m
			return m.value
		}
	}
	it := build()
	all[listener] = built[T]{settings, it}
	return it
}

// checker returns the check of signed tokens at a listener. The provider's keys are read when first needed.
func (o *oauthState) checker(listener string, rules *config.SignedTokens) (func(ctx context.Context, token string) (sasl.Login, error), error) {
	from, err := endpoint(rules.Keys)
	if err != nil {
		return nil, err
	}
	v := &oauth.Validator{Keys: o.keysOf(listener, rules, from), Issuer: rules.Issuer, Audiences: rules.Audiences,
		ScopeName: rules.ScopeClaim, SubName: rules.SubClaim, ClockSkew: rules.ClockSkew}
	return func(ctx context.Context, token string) (sasl.Login, error) {
		user, expires, err := v.Validate(ctx, token, time.Now())
		return sasl.Login{User: user, Expires: expires}, err
	}, nil
}

func (o *oauthState) keysOf(listener string, rules *config.SignedTokens, from oauth.Endpoint) *oauth.Keys {
	o.mu.Lock()
	defer o.mu.Unlock()
	return ofSettings(o.mu.keys, listener, fmt.Sprint(rules.Keys, rules.Refresh), func() *providerKeys {
		return &providerKeys{oauth.NewKeys(o.ctx, from, rules.Refresh, func(err error) { o.warn("the keys that sign tokens cannot be read, those before stay", err) }), rules.Keys}
	}).Keys
}

// fetch reads all keys, so that a broker that could accept no login does not start.
func (o *oauthState) fetch(ctx context.Context) error {
	o.mu.Lock()
	all := slices.Collect(maps.Values(o.mu.keys))
	o.mu.Unlock()
	for _, m := range all {
		if err := m.value.Fetch(ctx); err != nil {
			return &config.Error{Key: m.value.at.Key, Value: m.value.at.URL, Reason: err.Error()}
		}
	}
	return nil
}

// settle completes a change of settings: it forgets what belonged to closed listeners, and reads new keys in the
// background.
func (o *oauthState) settle(open func(listener string) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.mu.keys, func(listener string, _ built[*providerKeys]) bool { return !open(listener) })
	for _, m := range o.mu.keys {
		m.value.Prefetch()
	}
}

func (o *oauthState) warn(text string, err error) {
	if line, ok := o.lines.Line(text, o.log); ok {
		line.WithError(err).Warn(text)
	}
}

// bearer returns the source of this broker's own tokens, for logins at other brokers' listener of that name: the one
// before, if there is one and a file that the current settings name cannot be read.
func (o *oauthState) bearer(listener string, s *config.TokenSource) (func(context.Context) (string, error), error) {
	from, err := endpoint(s.From)
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, found := o.mu.sources[listener]; found && err != nil {
		o.warn("the settings of the source of this broker's own tokens cannot be applied, it stays the one before", err)
		return before.value.Token, nil
	}
	if err != nil {
		return nil, err
	}
	source := ofSettings(o.mu.sources, listener, fmt.Sprint(*s), func() *oauth.Source {
		return &oauth.Source{Life: o.ctx, From: from, ClientID: s.ClientID, Secret: s.Secret, Scope: s.Scope,
			Window: s.Window, Jitter: s.Jitter, MinPeriod: s.MinPeriod, Buffer: s.Buffer,
			Failed: func(err error) {
				o.warn("there is no new token to log in with, the one there is stays until it ends", err)
			}}
	})
	return source.Token, nil
}

// endpoint parses a setting that says where a provider is.
func endpoint(e config.Endpoint) (oauth.Endpoint, error) {
	from := oauth.Endpoint{URL: e.URL, ConnectTimeout: e.ConnectTimeout, ReadTimeout: e.ReadTimeout, Backoff: e.Backoff, MaxBackoff: e.MaxBackoff}
	if err := from.Secure(e.SSL); err != nil {
		return from, &config.Error{Key: e.Key, Value: e.URL, Reason: err.Error()}
	}
	return from, nil
}
