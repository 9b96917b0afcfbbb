package api

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestMessage: an error message in a response says more than its error code.
func TestMessage(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "null"},
		{kerr.SecurityDisabled, "null"},
		{errNoAuthorizer, "authorizer.class.name is not set"},
		{fmt.Errorf("topic t: %w", errNoAuthorizer), "topic t: authorizer.class.name is not set"},
		{fmt.Errorf("%w: in front", kerr.InvalidRequest), kerr.InvalidRequest.Error() + ": in front"},
		{errors.New("no code"), "no code"},
	} {
		got := "null"
		if text := message(test.err); text != nil {
			got = *text
		}
		if got != test.want {
			t.Errorf("the message for %v is %q, want %q", test.err, got, test.want)
		}
	}
}
