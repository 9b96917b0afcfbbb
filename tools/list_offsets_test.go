package tools

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestOffsetsAreRequestedAgain checks that offsets are requested until a new leader knows them, but not for ever.
func TestOffsetsAreRequestedAgain(t *testing.T) {
	for _, test := range []struct {
		name         string
		unknownTimes int
		then, want   error
		atMost       int
	}{
		{"known at once", 0, nil, nil, 1},
		{"known in the end", 3, nil, nil, 4},
		{"never known", 1 << 30, nil, kerr.OffsetNotAvailable, 601},
		{"another error", 1, kerr.TopicAuthorizationFailed, kerr.TopicAuthorizationFailed, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			listed, err := listKnown(t.Context(), func(_ context.Context, topics ...string) (kadm.ListedOffsets, error) {
				asked++
				o := kadm.ListedOffset{Topic: topics[0], Offset: 5, Err: test.then}
				if asked <= test.unknownTimes {
					o.Offset, o.Err = -1, kerr.OffsetNotAvailable
				}
				return kadm.ListedOffsets{topics[0]: {0: o}}, nil
			}, "t")
			if err != nil {
				t.Fatal(err)
			}
			if o, _ := listed.Lookup("t", 0); !errors.Is(o.Err, test.want) || asked > test.atMost || asked < min(test.unknownTimes+1, test.atMost-1) {
				t.Errorf("%s: got %v after %d requests, want %v after %d at most", test.name, o.Err, asked, test.want, test.atMost)
			}
		})
	}
}
