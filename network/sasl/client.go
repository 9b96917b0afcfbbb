package sasl

import (
	"context"
	"fmt"

	"barnabas/internal/scram"
)

// Client is how this broker logs in at others. It never changes.
type Client struct {
	Mechanism      string
	User, Password string
	Token          bool // the user is a delegation token's id, the password its HMAC

	Bearer   func() (token string, err error)                                  // of OAUTHBEARER; nil: the mechanism is not there
	Kerberos func(ctx context.Context, host string) (dialog Dialog, err error) // of GSSAPI; nil: the mechanism is not there
}

// Dialog is one login under way, the client's side: it takes the server's message, none at first, and returns the answer
// to it, nil when there is none because the login is done.
type Dialog func(message []byte) ([]byte, error)

// Start begins a login at a host, by the name that it was reached by. ctx bounds what is asked of others for it.
func (c *Client) Start(ctx context.Context, host string) (Dialog, error) {
	if c.Mechanism == GSSAPIName && c.Kerberos != nil {
		return c.Kerberos(ctx, host)
	}
	if c.Mechanism == PlainName {
		return c.plain(), nil
	}
	if c.Mechanism == OAuthBearerName && c.Bearer != nil {
		return c.bearer()
	}
	if m, ok := scram.Named(c.Mechanism); ok {
		return m.NewClient(c.User, c.Password, c.Token).Step, nil
	}
	return nil, fmt.Errorf("the mechanism %s is not there", c.Mechanism)
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

// bearer shows a token. What the server answers is nothing, or why it does not take the token, which is to be acknowledged.
func (c *Client) bearer() (Dialog, error) {
	token, err := c.Bearer()
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
