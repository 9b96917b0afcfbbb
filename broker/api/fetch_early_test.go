package api

import (
	"testing"

	"barnabas/broker/metadata"
	"barnabas/network"
)

// TestFetchBeforeTheMetadata: the controller makes a broker the leader of a new partition before it sends it the
// metadata of the cluster. Records that are produced in between can be fetched.
func TestFetchBeforeTheMetadata(t *testing.T) {
	replicas := newReplicas(t)
	assign(t, replicas, 1, 0, 1)
	f := &fetching{
		h: &Handlers{Deps: Deps{Metadata: metadata.NewCache(), Replicas: replicas}}, c: &Call{Request: &network.Request{Version: 12}},
		parts: []fetchPartition{{topic: "t"}, {topic: "t", number: 1}},
	}
	f.resolve()
	if led := &f.parts[0]; led.part == nil || led.missing != nil || led.failed != nil {
		t.Errorf("the partition that it leads: %+v", led)
	}
	if other := &f.parts[1]; other.missing == nil {
		t.Errorf("a partition that does not exist: %+v", other)
	}
}
