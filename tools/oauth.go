package tools

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"barnabas/config"
	"barnabas/network/oauth"

	"github.com/twmb/franz-go/pkg/kgo"
	franzoauth "github.com/twmb/franz-go/pkg/sasl/oauth"
)

// oauthOption logs in with a token: from an identity provider if the class for that is set, otherwise an unsigned one.
func oauthOption(ctx context.Context, p properties, options map[string]string) (kgo.Opt, error) {
	const classKey = "sasl.login.callback.handler.class"
	class := p[classKey]
	switch {
	case class == "":
		claims, lifetime, err := config.UnsecuredClaims(options)
		if err != nil {
			return nil, fmt.Errorf("sasl.jaas.config: %w", err)
		}
		return shown(oauth.Unsecured(claims, lifetime)), nil
	case !slices.Contains(config.TokenHandlers(), class):
		return nil, invalidValue(class, classKey, "no class can be loaded here, it must be "+config.TokenHandlers()[0])
	}
	source, err := tokenSource(ctx, p, options)
	if err != nil {
		return nil, err
	}
	return shown(source.Token), nil
}

func shown(token func(context.Context) (string, error)) kgo.Opt {
	return kgo.SASL(franzoauth.Oauth(func(ctx context.Context) (franzoauth.Auth, error) {
		text, err := token(ctx)
		if err != nil {
			return franzoauth.Auth{}, &loginError{err}
		}
		return franzoauth.Auth{Token: text}, nil
	}))
}

// tokenSource parses how to get a token (KIP-768).
func tokenSource(ctx context.Context, p properties, options map[string]string) (*oauth.Source, error) {
	const key = "sasl.oauthbearer.token.endpoint.url"
	s := &oauth.Source{Life: ctx, From: oauth.Endpoint{URL: p[key]}, ClientID: options["clientId"], Secret: options["clientSecret"], Scope: options["scope"]}
	if err := s.From.Secure(options); err != nil {
		return nil, invalidValue(p[key], key, err.Error())
	}
	if (s.ClientID == "" || s.Secret == "") && !strings.HasPrefix(p[key], "file:") {
		return nil, fmt.Errorf("sasl.jaas.config: the options clientId and clientSecret must be set to get a token")
	}
	if err := refresh(p, s); err != nil {
		return nil, err
	}
	var err error
	for name, field := range map[string]struct {
		into    *time.Duration
		missing time.Duration
	}{
		"sasl.login.connect.timeout.ms": {&s.From.ConnectTimeout, 0}, "sasl.login.read.timeout.ms": {&s.From.ReadTimeout, 0},
		"sasl.login.retry.backoff.ms": {&s.From.Backoff, 100 * time.Millisecond}, "sasl.login.retry.backoff.max.ms": {&s.From.MaxBackoff, 10 * time.Second},
	} {
		if *field.into, err = p.millis(name, field.missing); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// refresh parses when to request the next token, within the limits that Apache Kafka has for clients (KIP-255).
func refresh(p properties, s *oauth.Source) error {
	var minPeriod, buffer float64 // in seconds
	for name, field := range map[string]struct {
		into                 *float64
		missing, least, most float64
	}{
		"sasl.login.refresh.window.factor": {&s.Window, 0.8, 0.5, 1}, "sasl.login.refresh.window.jitter": {&s.Jitter, 0.05, 0, 0.25},
		"sasl.login.refresh.min.period.seconds": {&minPeriod, 60, 0, 900}, "sasl.login.refresh.buffer.seconds": {&buffer, 300, 0, 3600},
	} {
		*field.into = field.missing
		text, given := p[name]
		if !given {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(value >= field.least && value <= field.most) {
			return invalidValue(text, name, fmt.Sprintf("it must be a number from %v to %v", field.least, field.most))
		}
		*field.into = value
	}
	s.MinPeriod, s.Buffer = time.Duration(minPeriod)*time.Second, time.Duration(buffer)*time.Second
	return nil
}
