package api

import (
	"testing"

	"barnabas/broker/metadata"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestPartitionsAddedToNothing: a topic's node may have been written by hand.
func TestPartitionsAddedToNothing(t *testing.T) {
	h := &Handlers{Deps: Deps{Metadata: metadata.NewCache()}}
	for _, existing := range []map[int32][]int32{{}, {1: {0}}, {0: {}}} {
		if _, err := h.placePartitions(existing, &kmsg.CreatePartitionsRequestTopic{Topic: "t", Count: 3}); err == nil {
			t.Errorf("partitions are added to %v", existing)
		}
	}
}
