package errcode

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestOf(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want int16
	}{
		"no error":                {nil, 0},
		"a code":                  {kerr.NotController, kerr.NotController.Code},
		"a code below a text":     {fmt.Errorf("append: %w", kerr.MessageTooLarge), kerr.MessageTooLarge.Code},
		"the first of two codes":  {fmt.Errorf("%w: %w", kerr.InvalidRequest, kerr.NotController), kerr.InvalidRequest.Code},
		"an error without a code": {errors.New("no space left on device"), kerr.UnknownServerError.Code},
	} {
		if got := Of(test.err); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}
