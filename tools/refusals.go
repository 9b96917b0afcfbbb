package tools

import (
	"context"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// toldByError tells whether a warning only guesses or repeats what the error says that the request ends with.
func toldByError(msg string, keyvals []any) bool {
	switch {
	case strings.Contains(msg, "is SASL missing?"), strings.HasPrefix(msg, "fatal InitProducerID error"):
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

// isRefusal tells whether an error is what a broker has answered.
func isRefusal(err error) bool { return errors.As(err, new(*kerr.Error)) }

// hopelessError is why a tool need not try any longer.
type hopelessError struct{ err error }

func (e *hopelessError) Error() string { return e.err.Error() }
func (e *hopelessError) Unwrap() error { return e.err }

// refusal is why a tool's context has ended, if that is because there is no hope that brokers answer: it says more than what the requests
// that were under way ended with.
func refusal(ctx context.Context) error {
	if hopeless := (*hopelessError)(nil); errors.As(context.Cause(ctx), &hopeless) {
		return hopeless
	}
	return nil
}
