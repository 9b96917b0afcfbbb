package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/network/oauth"
	"barnabas/network/sasl"
	"barnabas/network/ssl"

	"github.com/sirupsen/logrus"
)

// oauthLineInterval is how often a line about providers is logged: clients cause them.
const oauthLineInterval = time.Second

// oauthState is what the broker has of identity providers, by the settings that say how to get it: listeners that are made anew
// with the same ones find it there.
type oauthState struct {
	ctx   context.Context // ends requests to providers with the broker
	log   *logrus.Entry
	lines logx.Sampler

	mu      sync.Mutex               // guards what follows
	keys    map[string]*oauth.Keys   // of providers
	sources map[string]*oauth.Source // of this broker's own tokens
}

func newOAuthState(ctx context.Context, log *logrus.Entry) *oauthState {
	return &oauthState{ctx: ctx, log: log, lines: logx.Sampler{Interval: oauthLineInterval},
		keys: make(map[string]*oauth.Keys), sources: make(map[string]*oauth.Source)}
}

// checker checks signed tokens. The provider's keys are fetched first, once for the same settings.
func (o *oauthState) checker(rules *config.SignedTokens) (func(token string) (sasl.Login, error), error) {
	from, err := endpoint(rules.Keys)
	if err != nil {
		return nil, err
	}
	keys, err := o.keysOf(fmt.Sprint(rules.Keys, rules.Refresh), from, rules.Refresh)
	if err != nil {
		return nil, &config.Error{Key: rules.Keys.Key, Value: rules.Keys.URL, Reason: err.Error()}
	}
	v := &oauth.Validator{Keys: keys, Issuer: rules.Issuer, Audiences: rules.Audiences, ScopeName: rules.ScopeClaim, SubName: rules.SubClaim,
		ClockSkew: rules.ClockSkew}
	return func(token string) (sasl.Login, error) {
		user, expires, err := v.Validate(o.ctx, token, time.Now())
		return sasl.Login{User: user, Expires: expires}, err
	}, nil
}

func (o *oauthState) keysOf(settings string, from oauth.Endpoint, refresh time.Duration) (*oauth.Keys, error) {
	o.mu.Lock()
	known := o.keys[settings]
	o.mu.Unlock()
	if known != nil {
		return known, nil
	}
	keys, err := oauth.FetchKeys(o.ctx, from, refresh, func(err error) { o.warn("the keys that sign tokens cannot be read anew, those before stay", err) })
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys[settings] = keys
	return keys, nil
}

func (o *oauthState) warn(text string, err error) {
	if line, ok := o.lines.Line(text, o.log); ok {
		line.WithError(err).Warn(text)
	}
}

// bearer gives this broker's own tokens.
func (o *oauthState) bearer(s *config.TokenSource) (func() (string, error), error) {
	from, err := endpoint(s.From)
	if err != nil {
		return nil, err
	}
	settings := fmt.Sprint(*s)
	o.mu.Lock()
	defer o.mu.Unlock()
	source := o.sources[settings]
	if source == nil {
		source = &oauth.Source{From: from, ClientID: s.ClientID, Secret: s.Secret, Scope: s.Scope,
			Window: s.Window, Jitter: s.Jitter, MinPeriod: s.MinPeriod, Buffer: s.Buffer}
		o.sources[settings] = source
	}
	return func() (string, error) { return source.Token(o.ctx) }, nil
}

// endpoint is where a setting says that a provider is.
func endpoint(e config.Endpoint) (oauth.Endpoint, error) {
	from := oauth.Endpoint{URL: e.URL, ConnectTimeout: e.ConnectTimeout, ReadTimeout: e.ReadTimeout, Backoff: e.Backoff, MaxBackoff: e.MaxBackoff}
	refuse := func(err error) error { return &config.Error{Key: e.Key, Value: e.URL, Reason: err.Error()} }
	if err := from.Check(); err != nil {
		return from, refuse(err)
	}
	var err error
	if from.TLS, err = ssl.ForOptions(e.SSL, from.Host()); err != nil {
		return from, refuse(fmt.Errorf("the options ssl.* of its login module: %w", err))
	}
	return from, nil
}
