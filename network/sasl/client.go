package sasl

import (
	"fmt"

	"barnabas/internal/scram"
)

// Client is how this broker logs in at others. It never changes.
type Client struct {
	Mechanism      string
	User, Password string
	Token          bool // the user is a delegation token's id, the password its HMAC
}

// Dialog is one login under way, the client's side: it takes the server's message, none at first, and returns the answer
// to it, nil when there is none because the login is done.
type Dialog func(message []byte) ([]byte, error)

// Start begins a login.
func (c *Client) Start() (Dialog, error) {
	if c.Mechanism == PlainName {
		return c.plain(), nil
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
