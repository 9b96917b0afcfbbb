package sasl

import (
	"context"
	"fmt"

	"barnabas/internal/scram"
)

// Client says how this broker logs in to others. It is immutable.
type Client struct {
	Mechanism      string
	User, Password string
	Token          bool // User is a delegation token's id, the password its HMAC

	Bearer   func(ctx context.Context) (token string, err error)               // for OAUTHBEARER; nil: not available
	Kerberos func(ctx context.Context, host string) (dialog Dialog, err error) // for GSSAPI; nil: not available
}

// Dialog is the client's side of a login in progress: it takes the server's message (nil at first) and returns the
// answer to it, nil when there is none, since the login is complete.
type Dialog func(message []byte) ([]byte, error)

// Start begins a login to a host, by the name that it was reached by. ctx bounds requests to other services.
func (c *Client) Start(ctx context.Context, host string) (Dialog, error) {
	if c.Mechanism == gssapiName && c.Kerberos != nil {
		return c.Kerberos(ctx, host)
	}
	if c.Mechanism == PlainName {
		return c.plain(), nil
	}
	if c.Mechanism == OAuthBearerName && c.Bearer != nil {
		return c.bearer(ctx)
	}
	if m, ok := scram.Named(c.Mechanism); ok {
		return m.NewClient(c.User, c.Password, c.Token).Step, nil
	}
	return nil, fmt.Errorf("unknown mechanism %s", c.Mechanism)
}

func (c *Client) plain() Dialog {
	sent := false
	return func([]byte) ([]byte, error) {
		if sent {
			return nil, nil
		}
		sent = true
		return []byte("\x00" + c.User + "\x00" + c.Password), nil
	}
}

// bearer presents a token. The server's answer is empty, or an error that must be acknowledged.
func (c *Client) bearer(ctx context.Context) (Dialog, error) {
	token, err := c.Bearer(ctx)
	if err != nil {
		return nil, err
	}
	sent := false
	return func(message []byte) ([]byte, error) {
		switch {
		case !sent:
			sent = true
			return []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), nil
		case len(message) > 0:
			return []byte{1}, nil
		}
		return nil, nil
	}, nil
}
