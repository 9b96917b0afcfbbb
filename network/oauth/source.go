package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// Source gets tokens for a program from an identity provider with a client id and secret (RFC 6749, section 4.4), or
// reads them from a file (OAuthBearerLoginCallbackHandler, 3.9).
type Source struct {
	Life             context.Context // bounds requests to the provider; their callers come and go
	From             Endpoint
	ClientID, Secret string
	Scope            string        // requested; empty: the provider's default
	Window, Jitter   float64       // fraction of a token's lifetime after which the next is requested, 0 to 1, and the maximum added at random
	MinPeriod        time.Duration // minimum time for which a token is used
	Buffer           time.Duration // the next is requested at least this long before the expiry
	Failed           func(error)   // called when a token that is still valid could not be replaced; may be nil

	current atomic.Pointer[heldToken]
	fetch   singleflight.Group // one at a time, for all callers that wait
}

// heldToken is a token that was fetched.
type heldToken struct {
	text             string
	renewal, expires time.Time
}

// enough is the remaining validity with which a token is used while the next one is being requested.
const enough = time.Minute

// Token returns a valid token. If no new one can be obtained, the previous one is used until it expires. ctx bounds the
// wait, not the request, for which others may wait too.
func (s *Source) Token(ctx context.Context) (string, error) {
	held, now := s.current.Load(), time.Now()
	if held != nil && now.Before(held.renewal) {
		return held.text, nil
	}
	next := s.fetch.DoChan("", func() (any, error) { return s.renew(s.Life) })
	if held != nil && held.expires.Sub(now) > enough { // nobody waits for a provider that may be down
		return held.text, nil
	}
	select {
	case got := <-next:
		return got.Val.(string), got.Err
	case <-ctx.Done():
		return "", s.asking(context.Cause(ctx))
	}
}

// asking adds to an error what was asked for.
func (s *Source) asking(err error) error {
	return fmt.Errorf("get a token from %s: %w", s.From.URL, err)
}

func (s *Source) renew(ctx context.Context) (string, error) {
	now, held := time.Now(), s.current.Load()
	if held != nil && now.Before(held.renewal) { // another goroutine has just replaced it
		return held.text, nil
	}
	text, issued, expires, err := s.request(ctx, now)
	if err == nil {
		s.current.Store(&heldToken{text, s.renewalOf(now, issued, expires, rand.Float64()), expires})
		return text, nil
	}
	err = s.asking(err)
	if held == nil || !time.Now().Before(held.expires) {
		return "", err
	}
	if s.Failed != nil {
		s.Failed(err)
	}
	return held.text, nil
}

// renewalOf returns when to request the next token (KIP-255). If the lifetime is too short for buffer and period, only
// the window counts. chance is 0 to 1.
func (s *Source) renewalOf(now, issued, expires time.Time, chance float64) time.Time {
	life := expires.Sub(issued)
	renewal := issued.Add(time.Duration(float64(life) * (s.Window + s.Jitter*chance)))
	if s.Buffer+s.MinPeriod > expires.Sub(now) {
		return renewal
	}
	if latest := expires.Add(-s.Buffer); renewal.After(latest) {
		renewal = latest
	}
	if earliest := now.Add(s.MinPeriod); renewal.Before(earliest) {
		renewal = earliest
	}
	return renewal
}

func (s *Source) request(ctx context.Context, now time.Time) (token string, issued, expires time.Time, err error) {
	data, err := s.From.read(ctx, s.form)
	if err != nil {
		return "", issued, expires, err
	}
	if _, isFile := s.From.file(); isFile {
		token = strings.TrimSpace(string(data))
	} else if token, err = answered(data); err != nil {
		return "", issued, expires, err
	}
	issued, expires, err = lifetime(token, now)
	return token, issued, expires, err
}

func (s *Source) form(ctx context.Context) (*http.Request, error) {
	asked := url.Values{"grant_type": {"client_credentials"}}
	if s.Scope != "" {
		asked.Set("scope", s.Scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.From.URL, strings.NewReader(asked.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Cache-Control", "no-cache")
	req.SetBasicAuth(s.ClientID, s.Secret)
	return req, nil
}

// answered returns the token in a provider's answer.
func answered(data []byte) (string, error) {
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return "", errors.New("the response is not a JSON object")
	}
	if answer.AccessToken = strings.TrimSpace(answer.AccessToken); answer.AccessToken == "" {
		return "", errors.New("the response has no access_token")
	}
	return answer.AccessToken, nil
}

// lifetime returns when a token was issued and when it expires. Its signature is checked by those it is presented to.
func lifetime(token string, now time.Time) (issued, expires time.Time, err error) {
	_, payload, _, err := decoded(token)
	if err != nil {
		return issued, expires, fmt.Errorf("the token it issued: %w", err)
	}
	c, err := parseClaims(payload)
	if err != nil {
		return issued, expires, err
	}
	if _, ends, err := c.seconds("exp"); err != nil || !ends {
		return issued, expires, errors.Join(err, errors.New("the token has no expiry (exp)"))
	}
	issued = now
	if _, dated, _ := c.seconds("iat"); dated {
		issued = c.time("iat")
	}
	return issued, c.time("exp"), nil
}
