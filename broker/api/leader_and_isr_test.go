package api

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestBrokerEpochOfControlRequests: a controller may know this broker's registration before the broker itself does.
func TestBrokerEpochOfControlRequests(t *testing.T) {
	h := &Handlers{Deps: Deps{BrokerEpoch: func() int64 { return 7 }}}
	for epoch, want := range map[int64]error{-1: nil, 6: kerr.StaleBrokerEpoch, 7: nil, 8: nil} {
		if err := h.checkBrokerEpoch(epoch); !errors.Is(err, want) {
			t.Errorf("broker epoch %d: %v, want %v", epoch, err, want)
		}
	}
}
