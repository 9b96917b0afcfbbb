package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// algorithms are those with public keys: with a shared secret, anyone who checks tokens could also create them.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// Validator decides which signed tokens are accepted (OAuthBearerValidatorCallbackHandler, 3.9).
type Validator struct {
	Keys      *Keys
	Issuer    string   // required issuer; empty: any
	Audiences []string // a token must have one of these; if empty, it must have none
	ScopeName string   // claim with the token's scope
	SubName   string   // claim with the user's name
	ClockSkew time.Duration
}

// Validate checks a token and returns its user and expiry.
func (v *Validator) Validate(ctx context.Context, token string, now time.Time) (user string, expires time.Time, err error) {
	payload, err := v.verified(ctx, strings.TrimSpace(token))
	if err != nil {
		return "", time.Time{}, err
	}
	c, err := parseClaims(payload)
	if err != nil {
		return "", time.Time{}, err
	}
	if err := v.checkTimes(c, now); err != nil {
		return "", time.Time{}, err
	}
	if v.Issuer != "" && c["iss"] != v.Issuer {
		return "", time.Time{}, fmt.Errorf("its issuer is %v, not %s", c["iss"], v.Issuer)
	}
	if err := v.checkAudience(c); err != nil {
		return "", time.Time{}, err
	}
	if err := checkScope(c[v.ScopeName]); err != nil {
		return "", time.Time{}, fmt.Errorf("its claim %s: %w", v.ScopeName, err)
	}
	user, _ = c[v.SubName].(string)
	if user = strings.TrimSpace(user); user == "" {
		return "", time.Time{}, fmt.Errorf("its claim %s names no user", v.SubName)
	}
	return user, c.time("exp"), nil
}

// verified returns the payload of a token after verifying its signature.
func (v *Validator) verified(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, errors.New("it is not a token (JWT) signed with a public-key algorithm")
	}
	header := signed.Signatures[0].Header
	candidates := v.Keys.candidates(ctx, header.KeyID)
	for _, key := range candidates {
		if key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(key.Public()); err == nil {
			return payload, nil
		}
	}
	if len(candidates) == 0 {
		return nil, fmt.Errorf("it is signed with the key %.100q, which is not known", header.KeyID)
	}
	return nil, errors.New("its signature matches no known key")
}

// decoded splits a token (JWT) into two decoded parts and the signature, which is not verified here.
func decoded(token string) (header, payload []byte, signature string, err error) {
	decode := func(part string) (text []byte) {
		if err == nil {
			text, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(part, "="))
		}
		return text
	}
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return nil, nil, "", errNoToken
	}
	if header, payload = decode(parts[0]), decode(parts[1]); err != nil {
		return nil, nil, "", errNoToken
	}
	return header, payload, parts[2], nil
}

var errNoToken = errors.New("it is not a token (JWT)")

// claims are the claims of a token.
type claims map[string]any

func parseClaims(payload []byte) (claims, error) {
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil || c == nil {
		return nil, errors.New("its content is not a JSON object")
	}
	return c, nil
}

// seconds returns a claim that is a time, in seconds since 1970.
func (c claims) seconds(name string) (value float64, there bool, err error) {
	claim, there := c[name]
	if !there || claim == nil {
		return 0, false, nil
	}
	value, ok := claim.(float64)
	if !ok || value < 0 {
		return 0, false, fmt.Errorf("its claim %s is not a time", name)
	}
	return value, true, nil
}

// lastSecond bounds the expiry of a token: the year 9999.
const lastSecond = 253402300799

// time returns such a claim, which has been checked.
func (c claims) time(name string) time.Time {
	value, _, _ := c.seconds(name)
	return time.UnixMilli(int64(math.Min(value, lastSecond) * 1000))
}

func (v *Validator) checkTimes(c claims, now time.Time) error {
	expires, ends, errEnd := c.seconds("exp")
	issued, dated, errDate := c.seconds("iat")
	before, begins, errBegin := c.seconds("nbf")
	seconds, skew := float64(now.UnixMilli())/1000, v.ClockSkew.Seconds()
	switch {
	case errEnd != nil || errDate != nil || errBegin != nil:
		return errors.Join(errEnd, errDate, errBegin)
	case !ends || !dated:
		return errors.New("it has no time of issue or of expiry (iat, exp)")
	case seconds-skew >= expires:
		return fmt.Errorf("it has expired, at %s", c.time("exp").UTC().Format(time.RFC3339))
	case begins && seconds+skew < before:
		return fmt.Errorf("it is not valid before %s", c.time("nbf").UTC().Format(time.RFC3339))
	case expires < issued || begins && expires < before:
		return errors.New("it ends before it begins")
	}
	return nil
}

func (v *Validator) checkAudience(c claims) error {
	var audiences []string
	switch claim := c["aud"].(type) {
	case nil:
		if len(v.Audiences) > 0 {
			return errors.New("it names no audience")
		}
		return nil
	case string:
		audiences = []string{claim}
	case []any:
		for _, item := range claim {
			if text, ok := item.(string); ok {
				audiences = append(audiences, text)
			}
		}
	}
	if !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(v.Audiences, a) }) {
		return fmt.Errorf("it is for %q, and sasl.oauthbearer.expected.audience is %q", audiences, v.Audiences)
	}
	return nil
}

// checkScope requires a string, or a list of distinct strings, none of them blank.
func checkScope(claim any) error {
	list, ok := claim.([]any)
	if !ok {
		if text, isText := claim.(string); isText {
			list = []any{text}
		}
	}
	seen := make(map[string]bool)
	for _, item := range list {
		text, ok := item.(string)
		text = strings.TrimSpace(text)
		switch {
		case !ok || text == "":
			return errors.New("a scope is not a string")
		case seen[text]:
			return fmt.Errorf("the scope %s appears twice", text)
		}
		seen[text] = true
	}
	return nil
}
