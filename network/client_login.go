package network

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions used for logins: those in which the mechanism's messages come in requests, and the response includes the
// session's lifetime (KIP-152, KIP-368; brokers since 2.2).
const (
	handshakeVersion    = 1
	authenticateVersion = 1
)

// relogin is the fraction of a session's lifetime after which a client re-authenticates. What is left is enough for one
// failed attempt.
const relogin = 0.85

// logIn authenticates the connection, for the first time or again.
func (c *Client) logIn(ctx context.Context) error {
	if err := c.chooseMechanism(); err != nil {
		return err
	}
	dialog, err := c.sasl.Start(ctx, c.host)
	if err != nil {
		return err
	}
	began, lifetime := time.Now(), int64(0)
	for message := []byte(nil); ; {
		token, err := dialog(message)
		if err != nil {
			return fmt.Errorf("%s as %s: %w", c.sasl.Mechanism, c.sasl.User, err)
		}
		if token == nil {
			break
		}
		if message, lifetime, err = c.sendToken(token); err != nil {
			return fmt.Errorf("%s as %s: %w", c.sasl.Mechanism, c.sasl.User, err)
		}
	}
	c.again = time.Time{}
	if lifetime > 0 {
		c.again = began.Add(reloginAfter(lifetime))
	}
	return nil
}

// reloginAfter returns when to re-authenticate in a session with a lifetime in ms. A server may announce any number.
func reloginAfter(lifetime int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(relogin * float64(min(lifetime, most)) * float64(time.Millisecond))
}

func (c *Client) chooseMechanism() error {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = handshakeVersion, c.sasl.Mechanism
	answer, err := c.do(req)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.SASLHandshakeResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("mechanism %s: the server offers %v: %w", c.sasl.Mechanism, resp.SupportedMechanisms, err)
	}
	return nil
}

// sendToken returns the server's answer and, after the last message, the session's lifetime in ms.
func (c *Client) sendToken(token []byte) (answer []byte, lifetime int64, err error) {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = authenticateVersion, token
	got, err := c.do(req)
	if err != nil {
		return nil, 0, err
	}
	resp := got.(*kmsg.SASLAuthenticateResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		if resp.ErrorMessage != nil {
			err = fmt.Errorf("%s: %w", *resp.ErrorMessage, err)
		}
		return nil, 0, err
	}
	return resp.SASLAuthBytes, resp.SessionLifetimeMillis, nil
}
