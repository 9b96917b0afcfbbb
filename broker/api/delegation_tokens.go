package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"barnabas/broker/acl"
	"barnabas/broker/token"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Delegation tokens (KIP-48) are for clients that have authenticated by other means than such a token. Every broker
// answers by itself; the others learn of changes through ZooKeeper.

const (
	anonymous   = "User:ANONYMOUS"
	renewerType = "User" // the only type
	noTimestamp = -1     // for times in an error response
)

// mayAskForTokens refuses clients that have not authenticated, or have done so with a token.
func mayAskForTokens(c *Call) error {
	if c.Conn.Principal == anonymous || c.Conn.TokenAuthenticated {
		return kerr.DelegationTokenRequestNotAllowed
	}
	return nil
}

// tokens returns the token manager, or the reason why the client cannot use it.
func (h *Handlers) tokens(c *Call) (*token.Manager, error) {
	if err := mayAskForTokens(c); err != nil {
		return nil, err
	}
	if h.Tokens == nil {
		return nil, kerr.DelegationTokenAuthDisabled
	}
	return h.Tokens, nil
}

// createDelegationToken creates a token for the client, or for another owner if the client is allowed to (KIP-373).
func (h *Handlers) createDelegationToken(ctx context.Context, c *Call, req *kmsg.CreateDelegationTokenRequest) kmsg.Response {
	requester, owner := c.Conn.Principal, c.Conn.Principal
	if req.OwnerPrincipalName != nil && *req.OwnerPrincipalName != "" {
		owner = deref(req.OwnerPrincipalType) + ":" + *req.OwnerPrincipalName
	}
	resp := kmsg.NewPtrCreateDelegationTokenResponse()
	resp.PrincipalType, resp.PrincipalName, _ = strings.Cut(owner, ":")
	resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName, _ = strings.Cut(requester, ":")
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = noTimestamp, noTimestamp, noTimestamp
	t, err := h.createToken(ctx, c, owner, req)
	if err != nil {
		resp.ErrorCode = h.codeOf(err)
		return resp
	}
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = t.IssuedMs, t.ExpiresMs, t.MaxMs
	resp.TokenID, resp.HMAC = t.ID, t.HMAC
	return resp
}

func (h *Handlers) createToken(ctx context.Context, c *Call, owner string, req *kmsg.CreateDelegationTokenRequest) (token.Token, error) {
	if err := mayAskForTokens(c); err != nil {
		return token.Token{}, err
	}
	if owner != c.Conn.Principal {
		if err := h.authorize.check(c, acl.CreateTokens, acl.User, owner, kerr.DelegationTokenAuthorizationFailed); err != nil {
			return token.Token{}, err
		}
	}
	var renewers []string
	for _, r := range req.Renewers {
		if r.PrincipalType != renewerType {
			return token.Token{}, fmt.Errorf("renewer of type %.50q: %w", r.PrincipalType, kerr.InvalidPrincipalType)
		}
		renewers = append(renewers, r.PrincipalType+":"+r.PrincipalName)
	}
	tokens, err := h.tokens(c)
	if err != nil {
		return token.Token{}, err
	}
	return tokens.Create(ctx, owner, c.Conn.Principal, renewers, req.MaxLifetimeMillis)
}

// renewDelegationToken extends a token's lifetime.
func (h *Handlers) renewDelegationToken(ctx context.Context, c *Call, req *kmsg.RenewDelegationTokenRequest) kmsg.Response {
	resp := kmsg.NewPtrRenewDelegationTokenResponse()
	resp.ExpiryTimestamp = noTimestamp
	tokens, err := h.tokens(c)
	if err == nil {
		var ends int64
		if ends, err = tokens.Renew(ctx, c.Conn.Principal, req.HMAC, req.RenewTimeMillis); err == nil {
			resp.ExpiryTimestamp = ends
		}
	}
	resp.ErrorCode = h.codeOf(err)
	return resp
}

// expireDelegationToken ends a token's lifetime, now or later.
func (h *Handlers) expireDelegationToken(ctx context.Context, c *Call, req *kmsg.ExpireDelegationTokenRequest) kmsg.Response {
	resp := kmsg.NewPtrExpireDelegationTokenResponse()
	resp.ExpiryTimestamp = noTimestamp
	tokens, err := h.tokens(c)
	if err == nil {
		var ends int64
		if ends, err = tokens.Expire(ctx, c.Conn.Principal, req.HMAC, req.ExpiryPeriodMillis); err == nil {
			resp.ExpiryTimestamp = ends
		}
	}
	resp.ErrorCode = h.codeOf(err)
	return resp
}

// describeDelegationToken lists tokens, for all owners if none are named (null): those that concern the client, and
// those that it may describe.
func (h *Handlers) describeDelegationToken(_ context.Context, c *Call, req *kmsg.DescribeDelegationTokenRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeDelegationTokenResponse()
	resp.TokenDetails = []kmsg.DescribeDelegationTokenResponseTokenDetail{}
	tokens, err := h.tokens(c)
	if err != nil {
		resp.ErrorCode = h.codeOf(err)
		return resp
	}
	var owners []string
	for _, o := range req.Owners {
		owners = append(owners, o.PrincipalType+":"+o.PrincipalName)
	}
	for _, t := range tokens.Tokens(func(t zkcoord.DelegationToken) bool {
		asked := req.Owners == nil || slices.ContainsFunc(owners, func(o string) bool { return concerns(t, o) })
		return asked && h.maySeeToken(c, t)
	}) {
		resp.TokenDetails = append(resp.TokenDetails, tokenDetail(t))
	}
	return resp
}

// concerns reports whether a principal is the owner, requester or a renewer of a token.
func concerns(t zkcoord.DelegationToken, principal string) bool {
	return principal == t.Owner || principal == t.Requester || slices.Contains(t.Renewers, principal)
}

func (h *Handlers) maySeeToken(c *Call, t zkcoord.DelegationToken) bool {
	return concerns(t, c.Conn.Principal) || h.authorize.quietly(c, acl.Describe, acl.Token, t.ID) ||
		h.authorize.quietly(c, acl.DescribeTokens, acl.User, t.Owner)
}

func tokenDetail(t token.Token) kmsg.DescribeDelegationTokenResponseTokenDetail {
	d := kmsg.NewDescribeDelegationTokenResponseTokenDetail()
	d.PrincipalType, d.PrincipalName, _ = strings.Cut(t.Owner, ":")
	d.TokenRequesterPrincipalType, d.TokenRequesterPrincipalName, _ = strings.Cut(t.Requester, ":")
	d.IssueTimestamp, d.ExpiryTimestamp, d.MaxTimestamp = t.IssuedMs, t.ExpiresMs, t.MaxMs
	d.TokenID, d.HMAC = t.ID, t.HMAC
	d.Renewers = []kmsg.DescribeDelegationTokenResponseTokenDetailRenewer{}
	for _, principal := range t.Renewers {
		r := kmsg.NewDescribeDelegationTokenResponseTokenDetailRenewer()
		r.PrincipalType, r.PrincipalName, _ = strings.Cut(principal, ":")
		d.Renewers = append(d.Renewers, r)
	}
	return d
}
