package tools

import (
	"context"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// toldByError tells whether a warning only guesses or repeats what the error says that the request ends with.
func (l *clientLog) toldByError(msg string, keyvals []any) bool {
	switch {
	case strings.Contains(msg, "is SASL missing?"), strings.HasPrefix(msg, "fatal InitProducerID error"):
		return true
	case !strings.HasPrefix(msg, "unable to initialize sasl"):
		return false
	}
	for _, v := range keyvals {
		if err, ok := v.(error); ok && isRefusal(err) {
			if l.refused != nil {
				l.refused(err)
			}
			return true
		}
	}
	return false
}

// isRefusal tells whether an error is what a broker has answered.
func isRefusal(err error) bool { return errors.As(err, new(*kerr.Error)) }

// endWhenRefused gives a context that ends when a broker refuses the client's login, and then what that broker has said. A consumer's
// requests have nobody who waits for their errors: the library would try for ever.
func endWhenRefused(ctx context.Context, env *Env) (ends context.Context, refusal func() error) {
	ends, env.refused = context.WithCancelCause(ctx)
	return ends, func() error {
		if err := context.Cause(ends); err != nil && isRefusal(err) {
			return err
		}
		return nil
	}
}
