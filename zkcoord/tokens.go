package zkcoord

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"barnabas/internal/logx"

	"github.com/twmb/franz-go/pkg/kerr"
)

// DelegationToken is what ZooKeeper stores about a token (KIP-48): everything except its secret. Principals are
// TYPE:NAME.
type DelegationToken struct {
	ID        string
	Owner     string   // whose rights it has
	Requester string   // who requested it
	Renewers  []string // who may renew it besides its owner
	IssuedMs  int64
	ExpiresMs int64 // extended when it is renewed
	MaxMs     int64 // the latest possible expiry
}

// Path returns the token's node, relative to the chroot.
func (t DelegationToken) Path() string { return tokenPath(t.ID) }

type tokenJSON struct {
	Issued    int64    `json:"issueTimestamp"`
	Renewers  []string `json:"renewers"`
	Requester string   `json:"tokenRequester"`
	ID        string   `json:"tokenId"`
	Owner     string   `json:"owner"`
	Expires   int64    `json:"expiryTimestamp"`
	Max       int64    `json:"maxTimestamp"`
	Version   int      `json:"version"`
}

// tokenVersion is the newest layout. Below 3 there is no requester: it is the owner (KIP-373).
const tokenVersion = 3

func encodeToken(t DelegationToken) []byte {
	renewers := make([]string, len(t.Renewers))
	for i, r := range t.Renewers {
		renewers[i] = SanitizeName(r)
	}
	return marshal(tokenJSON{t.IssuedMs, renewers, SanitizeName(t.Requester), t.ID, SanitizeName(t.Owner), t.ExpiresMs, t.MaxMs, tokenVersion})
}

// DecodeToken decodes a delegation token's node.
func DecodeToken(data []byte) (DelegationToken, error) {
	var in tokenJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return DelegationToken{}, fmt.Errorf("delegation token: %w", err)
	}
	if in.Version < 1 || in.Version > tokenVersion {
		return DelegationToken{}, fmt.Errorf("delegation token: version %d is not known", in.Version)
	}
	t := DelegationToken{ID: in.ID, Owner: DesanitizeName(in.Owner), Requester: DesanitizeName(in.Requester),
		IssuedMs: in.Issued, ExpiresMs: in.Expires, MaxMs: in.Max}
	if in.Version < 3 {
		t.Requester = t.Owner
	}
	for _, r := range in.Renewers {
		t.Renewers = append(t.Renewers, DesanitizeName(r))
	}
	return t, nil
}

func tokenPath(id string) string { return tokensPath + "/" + id }

// EnsureTokenNodes creates the parents of tokens and of notifications about them.
func (c *Client) EnsureTokenNodes(ctx context.Context) error {
	for _, path := range []string{tokensPath, tokenChangesPath} {
		if err := c.ensurePath(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// DelegationTokens reads all tokens. One that cannot be decoded is logged and left out.
func (c *Client) DelegationTokens(ctx context.Context) ([]DelegationToken, error) {
	ids, err := c.children(ctx, tokensPath)
	if err != nil {
		return nil, ignoreNoNode(err)
	}
	found := make([]*DelegationToken, len(ids))
	err = c.parallel(ctx, len(ids), func(ctx context.Context, i int) error {
		t, ok, err := c.DelegationToken(ctx, ids[i])
		if ok {
			found[i] = &t
		}
		return err
	})
	return present(found), err
}

// DelegationToken reads a token. It returns false if there is none, or if it cannot be decoded, which is logged.
func (c *Client) DelegationToken(ctx context.Context, id string) (DelegationToken, bool, error) {
	if id == "" || strings.Contains(id, "/") { // an invalid notification
		return DelegationToken{}, false, nil
	}
	n, err := c.get(ctx, tokenPath(id))
	if err != nil {
		return DelegationToken{}, false, ignoreNoNode(err)
	}
	t, err := DecodeToken(n.data)
	if err != nil {
		c.log.WithError(err).WithField(logx.Znode, tokenPath(id)).Error("cannot decode a delegation token")
		return DelegationToken{}, false, nil
	}
	return t, true, nil
}

// CreateDelegationToken writes a new token and notifies all brokers.
func (c *Client) CreateDelegationToken(ctx context.Context, t DelegationToken) error {
	return c.rewriteToken(ctx, t.ID, func(node, bool) (decision, error) { return decision{data: encodeToken(t)}, nil })
}

// SetTokenExpiry writes when a token expires, notifies all brokers, and returns the token. The error for a missing one
// is DELEGATION_TOKEN_NOT_FOUND: it was removed, and does not come back.
func (c *Client) SetTokenExpiry(ctx context.Context, id string, expiresMs int64) (t DelegationToken, err error) {
	err = c.rewriteToken(ctx, id, func(n node, found bool) (decision, error) {
		if !found {
			return decision{}, fmt.Errorf("token %s: %w", id, kerr.DelegationTokenNotFound)
		}
		var err error
		if t, err = DecodeToken(n.data); err != nil {
			return decision{}, err
		}
		t.ExpiresMs = expiresMs
		return decision{data: encodeToken(t)}, nil
	})
	return t, err
}

// DeleteDelegationToken removes a token, if it exists, and notifies all brokers.
func (c *Client) DeleteDelegationToken(ctx context.Context, id string) error {
	return c.rewriteToken(ctx, id, func(node, bool) (decision, error) { return decision{remove: true}, nil })
}

func (c *Client) rewriteToken(ctx context.Context, id string, decide func(n node, found bool) (decision, error)) error {
	return c.rewrite(ctx, tokenPath(id), notifications{tokenChangesPath, tokenChangePrefix}, []byte(id), decide)
}

// WatchTokenChanges calls changed with the ids of tokens that were written or deleted, until ctx is done; the callee
// then reads them. If all is true, any may have changed: the session was lost. ready is called when the watch is in
// place, so that no change after a read is missed.
func (c *Client) WatchTokenChanges(ctx context.Context, ready func(), changed func(ids []string, all bool)) error {
	last := int64(-1)
	return c.followNotifications(ctx, TokenNotificationsAdded, ready, func(all bool) error {
		notes, err := c.newNotifications(ctx, notifications{tokenChangesPath, tokenChangePrefix}, &last)
		if err != nil {
			return err
		}
		var ids []string
		for _, n := range notes {
			ids = append(ids, string(n.data))
		}
		if len(ids) > 0 || all {
			changed(ids, all)
		}
		return nil
	})
}
