package tools

import (
	"context"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// toldByError reports whether a warning only guesses at or repeats the error that the request ends with.
func toldByError(msg string, keyvals []any) bool {
	switch {
	case strings.Contains(msg, "is SASL missing?"), strings.HasPrefix(msg, "fatal InitProducerID error"),
		strings.HasPrefix(msg, "received an OffsetCommitResponse after our group session has ended"): // or before it has begun: startOffsets
		return true
	case !strings.HasPrefix(msg, "unable to initialize sasl"):
		return false
	}
	for _, v := range keyvals {
		if err, ok := v.(error); ok && isRefusal(err) {
			return true
		}
	}
	return false
}

// isRefusal reports whether an error is a broker's response.
func isRefusal(err error) bool { return errors.As(err, new(*kerr.Error)) }

// loginError says why a client cannot log in before a broker has been asked: it gets no token, or no ticket.
type loginError struct{ err error }

func (e *loginError) Error() string { return e.err.Error() }
func (e *loginError) Unwrap() error { return e.err }

// permanentError says why further attempts are pointless.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// refusal returns why a tool's context has ended, if the reason is that there is no hope for an answer from brokers: it
// says more than the errors of the requests in progress.
func refusal(ctx context.Context) error {
	if permanent := (*permanentError)(nil); errors.As(context.Cause(ctx), &permanent) {
		return permanent
	}
	return nil
}
