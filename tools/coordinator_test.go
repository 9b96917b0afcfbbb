package tools

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestPatienceEndsAmidAQuestion: the last error from a coordinator is reported rather than the timeout.
func TestPatienceEndsAmidAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		err := whileCoordinatorComes(t.Context(), func(ctx context.Context) error {
			if asked++; asked == 1 {
				return kerr.CoordinatorNotAvailable
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, kerr.CoordinatorNotAvailable) {
			t.Errorf("error %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = whileCoordinatorComes(ctx, func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
	})
}
