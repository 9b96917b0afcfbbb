package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TokenRules decide which unsigned tokens OAUTHBEARER accepts: they are the options of its login module that Apache
// Kafka's own classes for such tokens have.
type TokenRules struct {
	PrincipalClaim string
	ScopeClaim     string
	RequiredScope  []string
	ClockSkew      time.Duration
}

// TokenRules parses the options of the mechanism OAUTHBEARER.
func (m SASLMechanism) TokenRules() (TokenRules, error) {
	const prefix, skewOption = "unsecuredValidator", "unsecuredValidatorAllowableClockSkewMs"
	option := func(name, missing string) string {
		if text := strings.TrimSpace(m.Options[prefix+name]); text != "" {
			return text
		}
		return missing
	}
	text := option("AllowableClockSkewMs", "0")
	skew, err := strconv.ParseInt(text, 10, 32)
	if err != nil || skew < 0 {
		return TokenRules{}, fmt.Errorf("%s=%s: must be a number of milliseconds", skewOption, text)
	}
	return TokenRules{
		PrincipalClaim: option("PrincipalClaimName", "sub"), ScopeClaim: option("ScopeClaimName", "scope"),
		RequiredScope: strings.Fields(option("RequiredScope", "")), ClockSkew: millis(skew),
	}, nil
}

// UnsecuredClaims parses the options of the login module for OAUTHBEARER that set the claims of a program's own
// unsigned tokens, by claim type and claim name, and the lifetime of each token. The first character of a list is its
// separator.
func UnsecuredClaims(options map[string]string) (claims map[string]any, lifetime time.Duration, err error) {
	const principalOption, lifetimeOption = "unsecuredLoginPrincipalClaimName", "unsecuredLoginLifetimeSeconds"
	claims = make(map[string]any)
	for option, value := range options {
		kind, claim, _ := strings.Cut(strings.TrimPrefix(option, "unsecuredLogin"), "_")
		switch kind {
		case "StringClaim":
			claims[claim] = value
		case "NumberClaim":
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, 0, fmt.Errorf("%s=%s: must be a number", option, value)
			}
			claims[claim] = number
		case "ListClaim":
			if value == "" {
				claims[claim] = []string{}
				continue
			}
			claims[claim] = strings.Split(value[1:], value[:1])
		}
	}
	principal := options[principalOption]
	if principal == "" {
		principal = "sub"
	}
	if user, _ := claims[principal].(string); user == "" {
		return nil, 0, fmt.Errorf("the token's user is missing, which unsecuredLoginStringClaim_%s names", principal)
	}
	lifetime = time.Hour
	if text, ok := options[lifetimeOption]; ok {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil || seconds <= 0 {
			return nil, 0, fmt.Errorf("%s=%s: must be a positive number", lifetimeOption, text)
		}
		lifetime = time.Duration(seconds) * time.Second
	}
	return claims, lifetime, nil
}
