package api

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestFetchCodes: whatever fails, a consumer gets an error code that it can handle. The Java consumer fails at codes
// that it does not expect, such as REQUEST_TIMED_OUT.
func TestFetchCodes(t *testing.T) {
	known := []int16{-1, 0, 1, 2, 3, 6, 9, 29, 56, 74, 75, 76, 78, 100, 103}
	for c := int16(-1); c < 140; c++ {
		err := kerr.ErrorForCode(c)
		if c == 0 || err == nil {
			continue
		}
		got := fetchCode(&fetchPartition{failed: fmt.Errorf("slow disk: %w", err)})
		if !slices.Contains(known, got) && got != kerr.UnsupportedVersion.Code { // which only versions below 4 get
			t.Errorf("%v is returned as error code %d", err, got)
		}
		if slices.Contains(known, c) && got != c {
			t.Errorf("%v is returned as error code %d", err, got)
		}
	}
	if got := fetchCode(&fetchPartition{failed: errors.New("no code")}); got != -1 {
		t.Errorf("an error without a code is returned as error code %d", got)
	}
}
