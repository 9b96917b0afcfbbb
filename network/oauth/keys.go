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
	tried time.Time // when they, or newer ones, were asked for
}

// FetchKeys reads keys. Later they are read anew when they are older than refresh; failed hears when that was in vain, and the
// keys before stay in force.
func FetchKeys(ctx context.Context, from Endpoint, refresh time.Duration, failed func(error)) (*Keys, error) {
	k := &Keys{from: from, refresh: refresh, failed: failed, now: time.Now}
	set, err := k.read(ctx)
	if err != nil {
		return nil, err
	}
	k.set.Store(&keySet{set, k.now()})
	return k, nil
}

func (k *Keys) read(ctx context.Context) (set jose.JSONWebKeySet, err error) {
	data, err := k.from.read(ctx, func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, k.from.URL, nil)
	})
	if err != nil {
		return set, err
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return set, fmt.Errorf("no set of keys (JWKS): %w", err)
	}
	if len(set.Keys) == 0 {
		return set, errors.New("the set of keys (JWKS) is empty")
	}
	return set, nil
}

// candidates are the keys that a token may be signed with: that of its key id, or without one all. An unknown id asks for the
// keys anew, at times.
func (k *Keys) candidates(ctx context.Context, id string) []jose.JSONWebKey {
	set := k.set.Load()
	if age := k.now().Sub(set.tried); age > k.refresh {
		k.again(ctx, set)
	}
	found := k.set.Load().of(id)
	if len(found) == 0 && k.now().Sub(set.tried) > unknownKeyInterval {
		k.again(ctx, set)
		found = k.set.Load().of(id)
	}
	return found
}

func (s *keySet) of(id string) []jose.JSONWebKey {
	if id == "" {
		return s.Keys
	}
	return s.Key(id)
}

// again fetches the keys, unless others have done so since.
func (k *Keys) again(ctx context.Context, old *keySet) {
	_, _, _ = k.fetch.Do("", func() (any, error) {
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
