package txn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/testlog"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestProducerIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		ids := NewProducerIDs(func(context.Context) (Block, error) {
			calls++
			if calls == 1 {
				return Block{}, kerr.NotController
			}
			return Block{First: int64(calls) * 1000, Count: 200}, nil
		}, testlog.Quiet())
		defer ids.Close()

		if id, err := ids.Next(); id != -1 || !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			t.Fatalf("before the first block: %d, %v", id, err)
		}
		time.Sleep(time.Second) // by the fake clock, past the retry
		var got []int64
		for range 450 {
			synctest.Wait()
			id, err := ids.Next()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, id)
		}
		seen := make(map[int64]bool)
		for _, id := range got {
			if seen[id] {
				t.Fatalf("id %d was assigned twice", id)
			}
			seen[id] = true
		}
		if got[0] != 2000 || got[200] != 3000 || got[400] != 4000 {
			t.Errorf("blocks begin at %d, %d, %d", got[0], got[200], got[400])
		}
	})
}

// TestPrefetch: a caller for which a block was prefetched at the start gets its first ids without waiting, and learns
// of an error.
func TestPrefetch(t *testing.T) {
	var calls int
	ids := NewProducerIDs(func(context.Context) (Block, error) {
		if calls++; calls == 1 {
			return Block{}, kerr.NotController
		}
		return Block{First: 5000, Count: 1000}, nil
	}, testlog.Quiet())
	defer ids.Close()
	if err := ids.Prefetch(t.Context()); !errors.Is(err, kerr.NotController) {
		t.Fatalf("no block can be allocated: %v", err)
	}
	if err := ids.Prefetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	for want := range int64(3) {
		if id, err := ids.Next(); id != 5000+want || err != nil {
			t.Errorf("id %d, %v", id, err)
		}
	}
	if calls != 2 {
		t.Errorf("the controller was asked %d times", calls)
	}
}

func TestWaitForProducerIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := allocatePatience / 2 // the first block; later ones take longer than any caller waits
		ids := NewProducerIDs(func(ctx context.Context) (Block, error) {
			time.Sleep(takes)
			takes = 2 * allocatePatience
			return Block{First: 7, Count: 1}, ctx.Err()
		}, testlog.Quiet())
		defer ids.Close()
		if id, err := ids.Wait(t.Context()); id != 7 || err != nil {
			t.Errorf("id %d, %v", id, err)
		}
		if id, err := ids.Wait(t.Context()); id != -1 || !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			t.Errorf("id %d, %v", id, err)
		}
	})
}
