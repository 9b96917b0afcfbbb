package api

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Delegation tokens (KIP-48) are for who has authenticated, which nobody has on a PLAINTEXT listener; there are no others.

func (h *Handlers) createDelegationToken(_ context.Context, c *Call, _ *kmsg.CreateDelegationTokenRequest) kmsg.Response {
	resp := kmsg.NewPtrCreateDelegationTokenResponse()
	resp.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
	kind, name, _ := strings.Cut(c.Conn.Principal, ":")
	resp.PrincipalType, resp.PrincipalName = kind, name
	resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = kind, name
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = -1, -1, -1
	return resp
}

func (h *Handlers) renewDelegationToken(context.Context, *Call, *kmsg.RenewDelegationTokenRequest) kmsg.Response {
	resp := kmsg.NewPtrRenewDelegationTokenResponse()
	resp.ErrorCode, resp.ExpiryTimestamp = kerr.DelegationTokenRequestNotAllowed.Code, -1
	return resp
}

func (h *Handlers) expireDelegationToken(context.Context, *Call, *kmsg.ExpireDelegationTokenRequest) kmsg.Response {
	resp := kmsg.NewPtrExpireDelegationTokenResponse()
	resp.ErrorCode, resp.ExpiryTimestamp = kerr.DelegationTokenRequestNotAllowed.Code, -1
	return resp
}

func (h *Handlers) describeDelegationToken(context.Context, *Call, *kmsg.DescribeDelegationTokenRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeDelegationTokenResponse()
	resp.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
	return resp
}
