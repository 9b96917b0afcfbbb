package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Apache Kafka's classes that check signed tokens, and get them. They are not loaded, but select the built-in
// implementation.
const (
	serverHandlerKey = "sasl.server.callback.handler.class"
	loginHandlerKey  = "sasl.login.callback.handler.class"

	oauthPackage = "org.apache.kafka.common.security.oauthbearer."
)

var (
	validatorHandlers = []string{oauthPackage + "OAuthBearerValidatorCallbackHandler", oauthPackage + "secured.OAuthBearerValidatorCallbackHandler"}
	loginHandlers     = []string{oauthPackage + "OAuthBearerLoginCallbackHandler", oauthPackage + "secured.OAuthBearerLoginCallbackHandler"}
)

// TokenHandlers are the classes that sasl.login.callback.handler.class may name, to get tokens from an identity
// provider.
func TokenHandlers() []string { return slices.Clone(loginHandlers) }

// Endpoint is where an identity provider is reached, or a file instead.
type Endpoint struct {
	Key, URL                    string        // the setting and its value
	ConnectTimeout, ReadTimeout time.Duration // 0: not set
	Backoff, MaxBackoff         time.Duration
	SSL                         map[string]string // the ssl.* options of the login module, for https
}

// SignedTokens says which signed tokens a listener's clients may log in with (KIP-768).
type SignedTokens struct {
	Keys       Endpoint // with the provider's public keys
	Refresh    time.Duration
	Issuer     string
	Audiences  []string
	ScopeClaim string
	SubClaim   string
	ClockSkew  time.Duration
}

// TokenSource says how this broker gets tokens for its own logins (KIP-768).
type TokenSource struct {
	From                    Endpoint
	ClientID, Secret, Scope string
	Window, Jitter          float64       // fraction of a token's lifetime after which the next is requested, and the maximum added at random
	MinPeriod               time.Duration // minimum time for which a token is used
	Buffer                  time.Duration // the next is requested at least this long before the expiry
}

// wantsSigned reports whether a class that is configured for OAUTHBEARER selects signed tokens.
func (b *Broker) wantsSigned(l Listener, mechanism, key string, classes []string) bool {
	_, class := b.listenerText(l, mechanism, key)
	return mechanism == oauthBearer && slices.Contains(classes, class)
}

// signedTokens parses what OAUTHBEARER accepts.
func (b *Broker) signedTokens(l Listener, options map[string]string) (*SignedTokens, error) {
	r := oauthReader{b: b, l: l}
	t := &SignedTokens{
		Keys: r.endpoint("sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
			"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", options),
		Refresh:    r.millis("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
		Issuer:     r.text("sasl.oauthbearer.expected.issuer"),
		Audiences:  parseList(r.text("sasl.oauthbearer.expected.audience")),
		ScopeClaim: r.text("sasl.oauthbearer.scope.claim.name"),
		SubClaim:   r.text("sasl.oauthbearer.sub.claim.name"),
		ClockSkew:  r.seconds("sasl.oauthbearer.clock.skew.seconds"),
	}
	return t, r.err
}

// tokenSource parses where this broker gets tokens.
func (b *Broker) tokenSource(l Listener, options map[string]string) (*TokenSource, error) {
	r := oauthReader{b: b, l: l}
	t := &TokenSource{
		From:     r.endpoint("sasl.oauthbearer.token.endpoint.url", "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms", options),
		ClientID: options["clientId"], Secret: options["clientSecret"], Scope: options["scope"],
		Window: r.share("sasl.login.refresh.window.factor"), Jitter: r.share("sasl.login.refresh.window.jitter"),
		MinPeriod: r.seconds("sasl.login.refresh.min.period.seconds"), Buffer: r.seconds("sasl.login.refresh.buffer.seconds"),
	}
	if r.err == nil && !strings.HasPrefix(t.From.URL, "file:") && (t.ClientID == "" || t.Secret == "") {
		r.err = &Error{Key: mechanismPrefix(l, oauthBearer) + jaasKey, Value: "[hidden]",
			Reason: "brokers get a token with its options clientId and clientSecret, which are not both there"}
	}
	return t, r.err
}

// oauthReader reads settings for OAUTHBEARER at a listener, and keeps the first error.
type oauthReader struct {
	b   *Broker
	l   Listener
	err error
}

func (r *oauthReader) text(key string) string {
	_, text := r.b.listenerText(r.l, oauthBearer, key)
	return text
}

func (r *oauthReader) value(key string) any {
	name, text := r.b.listenerText(r.l, oauthBearer, key)
	if text == "" {
		return nil
	}
	value, err := brokerKey(key).parse(text)
	if err != nil {
		if r.err == nil {
			r.err = &Error{Key: name, Value: text, Reason: err.(*Error).Reason}
		}
		return nil
	}
	return value
}

func (r *oauthReader) number(key string) int64 {
	number, _ := r.value(key).(int64)
	return number
}

func (r *oauthReader) share(key string) float64 {
	share, _ := r.value(key).(float64)
	return share
}

func (r *oauthReader) millis(key string) time.Duration { return millis(r.number(key)) }

func (r *oauthReader) seconds(key string) time.Duration {
	return time.Duration(r.number(key)) * time.Second
}

func (r *oauthReader) endpoint(key, backoff, maxBackoff string, options map[string]string) Endpoint {
	name, url := r.b.listenerText(r.l, oauthBearer, key)
	e := Endpoint{Key: name, URL: url, SSL: make(map[string]string),
		ConnectTimeout: r.millis("sasl.login.connect.timeout.ms"), ReadTimeout: r.millis("sasl.login.read.timeout.ms"),
		Backoff: r.millis(backoff), MaxBackoff: r.millis(maxBackoff)}
	for option, value := range options {
		if strings.HasPrefix(option, "ssl.") {
			e.SSL[option] = value
		}
	}
	if url == "" && r.err == nil {
		r.err = &Error{Key: mechanismPrefix(r.l, oauthBearer) + key, Reason: fmt.Sprintf("must be set for listener %s, whose tokens are signed", r.l.Name)}
	}
	return e
}
