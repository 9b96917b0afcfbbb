package api

import (
	"testing"
	"time"

	"barnabas/broker/quota"
	"barnabas/broker/replica"
	"barnabas/network"
)

// TestFetchIsChargedForItsWork: the time that a consumer's fetch takes after its first half is charged to its request
// quota, and a consumer above that quota gets no records and is charged for no bytes. A follower's fetch is not
// charged.
func TestFetchIsChargedForItsWork(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	windows := quota.Windows{Count: 11, Size: time.Second}
	fetching := func(reader replica.Reader) *fetching {
		quotas := quota.NewManager(quota.Config{Clients: windows, Controller: windows, Now: func() time.Time { return now }})
		quotas.Set(quota.Entity{User: quota.Named("u")}, quota.Limits{quota.Request: 10, quota.Fetch: 1})
		return &fetching{
			h: &Handlers{Deps: Deps{Quotas: quotas}}, c: &Call{Request: &network.Request{Conn: &network.Conn{Principal: "User:u"}}}, reader: reader,
			parts: []fetchPartition{{bytes: make([]byte, 1000)}},
		}
	}
	f := fetching(replica.Reader{Replica: -1})
	f.work(func() { f.worked += 3 * time.Second })
	if wait := f.overQuota(); wait != windows.Size {
		t.Errorf("a consumer whose fetch took 3 s under a quota of 10 %% waits %v, want %v", wait, windows.Size)
	}
	if !f.h.Quotas.Fresh(quota.Fetch, "u", "") {
		t.Error("it is charged for bytes that it does not get")
	}
	f = fetching(replica.Reader{Replica: 2})
	f.work(func() { f.worked += 3 * time.Second })
	if wait := f.overQuota(); wait != 0 {
		t.Errorf("a follower is throttled for %v", wait)
	}
}
