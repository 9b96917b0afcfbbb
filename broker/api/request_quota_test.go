package api

import (
	"testing"
	"time"

	"barnabas/broker/quota"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestWhoseTimeIsCharged: what a request has waited for others of its connection is not charged to the request quota, nor
// is the time of another broker's requests, or of a Produce that has no answer (KIP-124). Who only claims to be a broker
// is charged (RequestHandlerHelper.handleError, 3.9).
func TestWhoseTimeIsCharged(t *testing.T) {
	fetch := kmsg.NewPtrFetchRequest()
	fetch.ReplicaState.ID = 2
	produce := kmsg.NewPtrProduceRequest()
	metadata := kmsg.NewPtrMetadataRequest()
	for _, test := range []struct {
		name    string
		version int16
		req     kmsg.Request
		limit   float64
		allowed bool
		charged bool
	}{
		{"another broker's fetch", 15, fetch, 1e-9, true, false},
		{"fetch of a client that claims to be a broker", 15, fetch, 1e-9, false, true},
		{"UpdateMetadata of a client that claims to be the controller", 8, kmsg.NewPtrUpdateMetadataRequest(), 1e-9, false, true},
		{"Produce with acks=0", 9, produce, 1e-9, false, false},
		{"Metadata", 9, metadata, 1e-9, false, true},
		{"Metadata after a wait", 9, metadata, 50, false, false},
	} {
		h, _ := strict(t)
		if test.allowed {
			h.Authorizer = nil
			h = New(h.Deps)
		}
		now := time.Unix(1_790_000_000, 0)
		windows := quota.Windows{Count: 11, Size: time.Second}
		h.Quotas = quota.NewManager(quota.Config{Clients: windows, Controller: windows, Now: func() time.Time { return now }})
		h.Quotas.Set(quota.Entity{User: quota.DefaultName}, quota.Limits{quota.Request: test.limit})
		test.req.SetVersion(test.version)
		client := "c"
		r := &network.Request{
			Conn: &network.Conn{Principal: "User:u"}, Key: test.req.Key(), Version: test.version, ClientID: &client,
			Arrived: time.Now().Add(-time.Hour), Body: test.req.AppendTo(nil),
		}
		if _, err := h.Handle(t.Context(), r); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if wait := h.Quotas.Charge(quota.Request, "u", "c", 0); (wait > 0) != test.charged {
			t.Errorf("%s: the client has to wait for %v", test.name, wait)
		}
	}
}

// TestFollowersAreNotLimitedByQuotas: the quota of consumers limits how much a consumer fetches at once, but not another
// broker, whose id is in another field from v15 on.
func TestFollowersAreNotLimitedByQuotas(t *testing.T) {
	h, _ := strict(t)
	windows := quota.Windows{Count: 11, Size: time.Second}
	h.Quotas = quota.NewManager(quota.Config{Clients: windows, Controller: windows, Now: time.Now})
	h.Quotas.Set(quota.Entity{User: quota.DefaultName}, quota.Limits{quota.Fetch: 100})
	for version, replica := range map[int16]int32{14: -1, 15: -1, 16: 2, 13: 2} {
		req := kmsg.NewPtrFetchRequest()
		if req.Version, req.MaxBytes, req.MinBytes = version, 1<<20, 5000; version < fetchReplicaVersion {
			req.ReplicaID = replica
		} else {
			req.ReplicaState.ID = replica
		}
		f := h.newFetching(&Call{Request: &network.Request{Version: version, Conn: &network.Conn{Principal: "User:u"}}}, req, &fetchContext{})
		wantMax, wantMin := int64(1<<20), int64(5000)
		if replica < 0 {
			wantMax, wantMin = 1000, 1000
		}
		if f.max != wantMax || f.min != wantMin {
			t.Errorf("v%d of replica %d: %d to %d bytes, want %d to %d", version, replica, f.min, f.max, wantMin, wantMax)
		}
	}
}
