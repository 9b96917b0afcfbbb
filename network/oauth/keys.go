package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

// unknownKeyInterval is how often at most a token that is signed with an unknown key makes us ask for the keys: anybody can
// send one.
const unknownKeyInterval = 10 * time.Second

// Keys are the public keys of an identity provider (RFC 7517), asked for again from time to time by who needs one.
type Keys struct {
	from    Endpoint
	refresh time.Duration
	failed  func(error)
	now     func() time.Time

	set   atomic.Pointer[keySet]
	fetch singleflight.Group // one at a time, for all who wait
}

type keySet struct {
	jose.JSONWebKeySet
	tried time.Time // when they, or newer ones, were asked for; zero: never
}

// NewKeys are keys that are read when one is needed, and anew when they are older than refresh; failed hears when that was in
// vain, and the keys before, if any, stay in force.
func NewKeys(from Endpoint, refresh time.Duration, failed func(error)) *Keys {
	k := &Keys{from: from, refresh: refresh, failed: failed, now: time.Now}
	k.set.Store(new(keySet))
	return k
}

// Fetch reads the keys before one is needed; failed does not hear of it.
func (k *Keys) Fetch(ctx context.Context) error {
	set, err := k.read(ctx)
	if err == nil {
		k.set.Store(&keySet{set, k.now()})
	}
	return err
}

// Prefetch begins to read keys that nobody has asked for yet. Whoever needs one waits for it.
func (k *Keys) Prefetch(ctx context.Context) {
	if set := k.set.Load(); set.tried.IsZero() {
		k.again(ctx, set)
	}
}

func (k *Keys) read(ctx context.Context) (set jose.JSONWebKeySet, err error) {
	data, err := k.from.read(ctx, func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, k.from.URL, nil)
	})
	if err != nil {
		return set, err
	}
	return parseKeys(data)
}

// parseKeys reads a set of keys. Those of kinds that are not known are left out, as RFC 7517 (section 5) wants it: they must not
// keep out who has a token that another one signed.
func parseKeys(data []byte) (set jose.JSONWebKeySet, err error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return set, fmt.Errorf("no set of keys (JWKS): %w", err)
	}
	for _, text := range raw.Keys {
		var key jose.JSONWebKey
		if unknown := key.UnmarshalJSON(text); unknown != nil {
			err = unknown
			continue
		}
		set.Keys = append(set.Keys, key)
	}
	switch {
	case len(set.Keys) > 0:
		return set, nil
	case err != nil:
		return set, fmt.Errorf("none of the keys (JWKS) can be read: %w", err)
	}
	return set, errors.New("the set of keys (JWKS) is empty")
}

// candidates are the keys that a token may be signed with: that of its key id, or without one all. Old keys are asked for anew,
// and at times when an id is unknown.
func (k *Keys) candidates(ctx context.Context, id string) []jose.JSONWebKey {
	set := k.set.Load()
	found, age := set.of(id), k.now().Sub(set.tried)
	switch {
	case len(found) == 0 && age > min(k.refresh, unknownKeyInterval), age > 2*k.refresh: // a key may have been given up long ago
		<-k.again(ctx, set)
		return k.set.Load().of(id)
	case age > k.refresh: // nobody waits for a provider that may be down
		k.again(ctx, set)
	}
	return found
}

func (s *keySet) of(id string) []jose.JSONWebKey {
	if id == "" {
		return s.Keys
	}
	return s.Key(id)
}

// again fetches the keys, unless others have done so since, and tells when that is over.
func (k *Keys) again(ctx context.Context, old *keySet) <-chan singleflight.Result {
	return k.fetch.DoChan("", func() (any, error) {
		if k.set.Load() != old {
			return nil, nil
		}
		set, err := k.read(ctx)
		if err != nil {
			k.failed(fmt.Errorf("%s: %w", k.from.URL, err))
			set = old.JSONWebKeySet
		}
		k.set.Store(&keySet{set, k.now()})
		return nil, nil
	})
}
