package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Tokens without a signature are for development: anyone can create one for any user.

// Unsecured returns a function that creates unsigned tokens from claims, each valid for lifetime from its creation.
func Unsecured(claims map[string]any, lifetime time.Duration) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		now, timed := time.Now(), make(map[string]any)
		maps.Copy(timed, claims)
		timed["iat"], timed["exp"] = float64(now.UnixMilli())/1000, float64(now.Add(lifetime).UnixMilli())/1000
		body, err := json.Marshal(timed)
		if err != nil {
			return "", err
		}
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"none"}`)) + "." + encode(body) + ".", nil
	}
}

// UnsecuredRules decide which unsigned tokens are accepted (OAuthBearerUnsecuredValidatorCallbackHandler, 3.9).
type UnsecuredRules struct {
	PrincipalClaim string   // with the user's name
	ScopeClaim     string   // with the token's scope
	RequiredScope  []string // the token must have all of these
	ClockSkew      time.Duration
}

// WrongScope reports that a token is valid, but for another scope.
type WrongScope struct{ Wanted []string }

func (w WrongScope) Error() string { return fmt.Sprintf("the token is not for %q", w.Wanted) }

var (
	errUnsecured = errors.New("the token is not an unsecured one, or it lacks a claim")
	errEnded     = errors.New("the token is not valid now")
)

// Validate checks a token and returns its user and expiry.
func (u UnsecuredRules) Validate(token string, now time.Time) (user string, expires time.Time, err error) {
	header, payload, signature, err := decoded(token)
	if err != nil || signature != "" {
		return "", time.Time{}, errUnsecured
	}
	of, err := parseClaims(header)
	c, cerr := parseClaims(payload)
	if err != nil || cerr != nil || of["alg"] != "none" {
		return "", time.Time{}, errUnsecured
	}
	user, _ = c[u.PrincipalClaim].(string)
	ends, limited, errEnd := c.seconds("exp")
	issued, dated, errDate := c.seconds("iat")
	if strings.TrimSpace(user) == "" || !limited || errEnd != nil || errDate != nil {
		return "", time.Time{}, errUnsecured
	}
	seconds, skew := float64(now.UnixMilli())/1000, u.ClockSkew.Seconds()
	if dated && (issued > seconds+skew || ends <= issued) || seconds-skew >= ends {
		return "", time.Time{}, errEnded
	}
	scope := scopeOf(c[u.ScopeClaim])
	for _, wanted := range u.RequiredScope {
		if !slices.Contains(scope, wanted) {
			return "", time.Time{}, WrongScope{u.RequiredScope}
		}
	}
	return user, c.time("exp"), nil
}

// scopeOf returns a claim's value or, if it is a list, its values.
func scopeOf(claim any) []string {
	switch value := claim.(type) {
	case string:
		return []string{strings.TrimSpace(value)}
	case []any:
		var scope []string
		for _, item := range value {
			if text, ok := item.(string); ok {
				scope = append(scope, strings.TrimSpace(text))
			}
		}
		return scope
	}
	return nil
}
