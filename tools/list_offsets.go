package tools

import (
	"context"
	"errors"
	"slices"
	"time"

	"barnabas/internal/await"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// listRetryDelay is the pause before offsets are requested again (retry.backoff.ms).
const listRetryDelay = 100 * time.Millisecond

// lister is one of kadm.Client's requests for offsets, such as ListEndOffsets.
type lister func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error)

// listKnown requests offsets of topics, again while a leader does not know them.
func listKnown(ctx context.Context, list lister, topics ...string) (kadm.ListedOffsets, error) {
	return untilKnown(ctx, func() (kadm.ListedOffsets, error) { return list(ctx, topics...) }, func(listed kadm.ListedOffsets) bool {
		known := true
		listed.Each(func(o kadm.ListedOffset) { known = known && isKnown(o.Err) })
		return known
	})
}

// untilKnown calls list until all its offsets are known, for default.api.timeout.ms at most. A leader that has just been
// elected answers OFFSET_NOT_AVAILABLE until it knows which of its records are acknowledged (KIP-207).
func untilKnown[T any](ctx context.Context, list func() (T, error), known func(T) bool) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultAPITimeout)
	defer cancel()
	for {
		listed, err := list()
		if err != nil || known(listed) {
			return listed, err
		}
		if await.Pause(ctx, listRetryDelay) != nil {
			return listed, nil // with the error of each partition
		}
	}
}

func isKnown(err error) bool { return !errors.Is(err, kerr.OffsetNotAvailable) }

func allKnown(offsets []partitionOffset) bool {
	return !slices.ContainsFunc(offsets, func(p partitionOffset) bool { return !isKnown(p.err) })
}
