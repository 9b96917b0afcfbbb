package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TokenRules say which tokens without a signature the mechanism OAUTHBEARER takes: the options of its login module that
// Apache Kafka's own classes for such tokens have.
type TokenRules struct {
	PrincipalClaim string
	ScopeClaim     string
	RequiredScope  []string
	ClockSkew      time.Duration
}

// TokenRules reads the options of the mechanism OAUTHBEARER.
func (m SASLMechanism) TokenRules() (TokenRules, error) {
	const prefix, skewOption = "unsecuredValidator", "unsecuredValidatorAllowableClockSkewMs"
	option := func(name, missing string) string {
		if text := strings.TrimSpace(m.Options[prefix+name]); text != "" {
			return text
		}
		return missing
	}
	skew, err := strconv.ParseInt(option("AllowableClockSkewMs", "0"), 10, 32)
	if err != nil || skew < 0 {
		return TokenRules{}, fmt.Errorf("%s must be a number of milliseconds", skewOption)
	}
	return TokenRules{
		PrincipalClaim: option("PrincipalClaimName", "sub"), ScopeClaim: option("ScopeClaimName", "scope"),
		RequiredScope: strings.Fields(option("RequiredScope", "")), ClockSkew: millis(skew),
	}, nil
}

// UnsecuredLogin reads the options that say what one's own tokens of the mechanism OAUTHBEARER claim: by the type of the claim, its
// name behind an underscore. A list's first character divides the rest.
func UnsecuredLogin(options map[string]string) (SASLLogin, error) {
	const principalOption, lifetimeOption = "unsecuredLoginPrincipalClaimName", "unsecuredLoginLifetimeSeconds"
	l := SASLLogin{Mechanism: oauthBearer, Claims: make(map[string]any)}
	for option, value := range options {
		kind, claim, _ := strings.Cut(strings.TrimPrefix(option, "unsecuredLogin"), "_")
		switch kind {
		case "StringClaim":
			l.Claims[claim] = value
		case "NumberClaim":
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return l, fmt.Errorf("%s must be a number", option)
			}
			l.Claims[claim] = number
		case "ListClaim":
			if value == "" {
				l.Claims[claim] = []string{}
				continue
			}
			l.Claims[claim] = strings.Split(value[1:], value[:1])
		}
	}
	principal := options[principalOption]
	if principal == "" {
		principal = "sub"
	}
	if l.User, _ = l.Claims[principal].(string); l.User == "" {
		return l, fmt.Errorf("the login is with a token, for which unsecuredLoginStringClaim_%s must name the user", principal)
	}
	l.ClaimsLifetime = time.Hour
	if text, ok := options[lifetimeOption]; ok {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil || seconds <= 0 {
			return l, fmt.Errorf("%s must be a positive number", lifetimeOption)
		}
		l.ClaimsLifetime = time.Duration(seconds) * time.Second
	}
	return l, nil
}
