package tools

import (
	"context"

	"barnabas/config"
	"barnabas/network/oauth"
)

// providers asks the identity providers that listeners with OAUTHBEARER depend on, as the broker will: for the keys
// that tokens are signed with, and for a token of its own.
func (d *doctor) providers(ctx context.Context, b *config.Broker) {
	for _, l := range b.Listeners {
		if !l.Protocol.SASL() {
			continue
		}
		accepted, err := b.ListenerSASL(l)
		if err != nil {
			continue // reported with the settings
		}
		for _, m := range accepted.Mechanisms {
			if m.Signed != nil {
				d.keyProvider(ctx, l, m.Signed)
			}
		}
		if l.Name != b.InterBrokerListener && l.Name != b.ControlPlaneListener {
			continue
		}
		if own, err := b.BrokersSASL(l); err == nil && own.Source != nil {
			d.tokenProvider(ctx, l, own.Source)
		}
	}
}

const askProvider = "correct it, or the ssl.* options of its login module by which the provider is trusted; can this host reach the provider?"

func (d *doctor) keyProvider(ctx context.Context, l config.Listener, s *config.SignedTokens) {
	from, err := providerOf(s.Keys)
	if err == nil {
		err = oauth.NewKeys(ctx, from, s.Refresh, nil).Fetch(ctx)
	}
	if err != nil {
		d.trouble("listener "+l.Name, askProvider+" The broker does not start without the keys", "%s=%s: %v.", s.Keys.Key, s.Keys.URL, err)
		return
	}
	d.note("listener "+l.Name, "the keys of its tokens can be read from %s.", s.Keys.URL)
}

func (d *doctor) tokenProvider(ctx context.Context, l config.Listener, s *config.TokenSource) {
	from, err := providerOf(s.From)
	if err == nil {
		_, err = (&oauth.Source{Life: ctx, From: from, ClientID: s.ClientID, Secret: s.Secret, Scope: s.Scope}).Token(ctx)
	}
	if err != nil {
		d.trouble("listener "+l.Name, askProvider+" Without a token, brokers cannot connect to each other", "%s: %v.", s.From.Key, err)
		return
	}
	d.note("listener "+l.Name, "the broker gets its own tokens from %s.", s.From.URL)
}

// providerOf returns where a provider is. It is asked once: the broker would try again.
func providerOf(e config.Endpoint) (oauth.Endpoint, error) {
	from := oauth.Endpoint{URL: e.URL, ConnectTimeout: e.ConnectTimeout, ReadTimeout: e.ReadTimeout}
	return from, from.Secure(e.SSL)
}
