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

// unknownKeyInterval is the minimum interval between fetches that are triggered by tokens with unknown keys: anyone can
// send such tokens.
const unknownKeyInterval = 10 * time.Second

// Keys are the public keys of an identity provider (RFC 7517), refreshed as they are used.
type Keys struct {
	life    context.Context // bounds requests to the provider; their callers come and go
	from    Endpoint
	refresh time.Duration
	failed  func(error)
	now     func() time.Time

	set   atomic.Pointer[keySet]
	fetch singleflight.Group // one at a time, for all callers that wait
}

type keySet struct {
	jose.JSONWebKeySet
	tried time.Time // when they were last requested; zero: never
}

// NewKeys returns keys that are fetched when one is first needed, and again when they are older than refresh, during
// life. failed is called when a refresh fails; the previous keys, if any, stay in force.
func NewKeys(life context.Context, from Endpoint, refresh time.Duration, failed func(error)) *Keys {
	k := &Keys{life: life, from: from, refresh: refresh, failed: failed, now: time.Now}
	k.set.Store(new(keySet))
	return k
}

// Fetch fetches the keys before one is needed. It does not call failed.
func (k *Keys) Fetch(ctx context.Context) error {
	set, err := k.read(ctx)
	if err == nil {
		k.set.Store(&keySet{set, k.now()})
	}
	return err
}

// Prefetch begins to fetch keys before one is needed. Callers that need one wait for it.
func (k *Keys) Prefetch() {
	if set := k.set.Load(); set.tried.IsZero() {
		k.again(set)
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

// parseKeys parses a set of keys. Keys of unknown types are skipped, as RFC 7517 (section 5) requires: they must not
// invalidate tokens signed with other keys.
func parseKeys(data []byte) (set jose.JSONWebKeySet, err error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return set, fmt.Errorf("not a set of keys (JWKS): %w", err)
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

// candidates returns the keys that a token may have been signed with: the one with its key id or, without an id, all.
// Old keys are refreshed, as they are at limited intervals if the id is unknown. ctx bounds the wait, not the request,
// for which others may wait too.
func (k *Keys) candidates(ctx context.Context, id string) []jose.JSONWebKey {
	set := k.set.Load()
	found, age := set.of(id), k.now().Sub(set.tried)
	switch {
	case len(found) == 0 && age > min(k.refresh, unknownKeyInterval), age > 2*k.refresh: // a key may have been revoked long ago
		select {
		case <-k.again(set):
			return k.set.Load().of(id)
		case <-ctx.Done():
			return nil
		}
	case age > k.refresh: // nobody waits for a provider that may be down
		k.again(set)
	}
	return found
}

func (s *keySet) of(id string) []jose.JSONWebKey {
	if id == "" {
		return s.Keys
	}
	return s.Key(id)
}

// again fetches the keys, unless another goroutine has done so since, and returns a channel that delivers when that is
// done.
func (k *Keys) again(old *keySet) <-chan singleflight.Result {
	return k.fetch.DoChan("", func() (any, error) {
		if k.set.Load() != old {
			return nil, nil
		}
		set, err := k.read(k.life)
		if err != nil {
			k.failed(fmt.Errorf("%s: %w", k.from.URL, err))
			set = old.JSONWebKeySet
		}
		k.set.Store(&keySet{set, k.now()})
		return nil, nil
	})
}
