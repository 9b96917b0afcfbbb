package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// saslHandshake refuses: no listener authenticates by SASL.
func (h *Handlers) saslHandshake(context.Context, *Call, *kmsg.SASLHandshakeRequest) kmsg.Response {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.ErrorCode = kerr.IllegalSaslState.Code
	return resp
}

// saslAuthenticate refuses, as saslHandshake.
func (h *Handlers) saslAuthenticate(context.Context, *Call, *kmsg.SASLAuthenticateRequest) kmsg.Response {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	err := fmt.Errorf("this listener does not authenticate: %w", kerr.IllegalSaslState)
	resp.ErrorCode, resp.ErrorMessage = code(err), message(err)
	return resp
}
