package scram

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// maxClientIterations bounds the work that a server may impose on a client.
const maxClientIterations = 1 << 20

// Client is the client's side of one login. Not safe for concurrent use.
type Client struct {
	mechanism      Mechanism
	user, password string
	token          bool
	nonce          string
	state          clientState
	bare           string // the first message without its header
	signature      []byte // that the server must present
}

type clientState uint8

const (
	sendsFirst clientState = iota
	awaitsServerFirst
	awaitsServerFinal
	clientDone
)

// NewClient begins a login. If token is true, user is the id of a delegation token and password is its HMAC in base64.
func (m Mechanism) NewClient(user, password string, token bool) *Client {
	return &Client{mechanism: m, user: user, password: password, token: token, nonce: rand.Text()}
}

// Step takes the server's next message (nil at first) and returns the answer to it. The answer is nil when the login is
// complete and the server has proved that it knows the password too.
func (c *Client) Step(message []byte) ([]byte, error) {
	now := c.state
	c.state = min(now+1, clientDone)
	switch now {
	case sendsFirst:
		c.bare = "n=" + encodeName(c.user) + ",r=" + c.nonce
		if c.token {
			c.bare += "," + tokenExtension + "=true"
		}
		return []byte("n,," + c.bare), nil
	case awaitsServerFirst:
		return c.prove(message)
	case awaitsServerFinal:
		return nil, c.verify(message)
	}
	return nil, errOver
}

func (c *Client) prove(message []byte) ([]byte, error) {
	first, err := parseServerFirst(message)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(first.nonce, c.nonce) || first.nonce == c.nonce {
		return nil, errNonce
	}
	if first.iterations < MinIterations || first.iterations > maxClientIterations {
		return nil, fmt.Errorf("the server asks for %d iterations, %d to %d are allowed", first.iterations, MinIterations, maxClientIterations)
	}
	m := c.mechanism
	salted, err := m.Salt(c.password, first.salt, first.iterations)
	if err != nil {
		return nil, err
	}
	final := "c=biws,r=" + first.nonce // biws is n,, in base64
	auth := authMessage(c.bare, first.text, final)
	key := m.mac(salted, clientKeyText)
	c.signature = m.mac(m.mac(salted, serverKeyText), auth)
	subtle.XORBytes(key, key, m.mac(m.sum(key), auth))
	return []byte(final + ",p=" + base64.StdEncoding.EncodeToString(key)), nil
}

func (c *Client) verify(message []byte) error {
	signature, err := parseServerFinal(message)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(signature, c.signature) != 1 {
		return errors.New("the server does not prove that it knows the password")
	}
	return nil
}
