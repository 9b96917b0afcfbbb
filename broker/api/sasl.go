package api

import (
	"context"

	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// saslHandshake chooses the mechanism of a login (KIP-43). On a listener without SASL, and if the client has logged in
// and need not do so again, it answers ILLEGAL_SASL_STATE.
//
// v0: the login's messages follow without a request around them. v1: in SaslAuthenticate (KIP-152).
func (h *Handlers) saslHandshake(_ context.Context, c *Call, req *kmsg.SASLHandshakeRequest) kmsg.Response {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	offered, err := c.Conn.Handshake(req.Mechanism, c.Version)
	resp.ErrorCode, resp.SupportedMechanisms = errcode.Of(err), offered
	return resp
}

// saslAuthenticate carries the messages of a login (KIP-152).
//
// v1: returns the session's lifetime (KIP-368). v2: flexible (KIP-482).
func (h *Handlers) saslAuthenticate(_ context.Context, c *Call, req *kmsg.SASLAuthenticateRequest) kmsg.Response {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	answer, lifetime, err := c.Conn.Authenticate(req.SASLAuthBytes, c.Version)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = errcode.Of(err), message(err)
		return resp
	}
	resp.SASLAuthBytes, resp.SessionLifetimeMillis, resp.ErrorMessage = answer, lifetime.Milliseconds(), noMessage()
	return resp
}

// beforeLogin reports whether an API serves clients that have not authenticated yet.
func beforeLogin(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate:
		return true
	}
	return false
}
