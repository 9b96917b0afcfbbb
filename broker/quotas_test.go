package broker

import (
	"net"
	"testing"

	"barnabas/broker/quota"
	"barnabas/internal/testwait"
)

// TestQuotasOfNamedAddresses: the quota of an address counts however the address is written, and for a host's name, but
// not for a host that cannot be found.
func TestQuotasOfNamedAddresses(t *testing.T) {
	for written, want := range map[string]string{
		"127.0.0.9": "127.0.0.9", "::1": "::1", "0:0:0:0:0:0:0:1": "::1", "2001:DB8::0001": "2001:db8::1", "::ffff:127.0.0.9": "127.0.0.9", "localhost": "127.0.0.1",
	} {
		e, err := resolved(t.Context(), quota.Entity{IP: quota.Named(written)})
		if err != nil || e != (quota.Entity{IP: quota.Named(want)}) {
			t.Errorf("%s became %s: %v", written, e.IP.Value, err)
		}
	}
	if _, err := resolved(t.Context(), quota.Entity{IP: quota.Named("no such host")}); err == nil {
		t.Error("a host without an address has been found")
	}
	for _, e := range []quota.Entity{{IP: quota.DefaultName}, {User: quota.Named("localhost")}, {Client: quota.Named("::0001")}} {
		if got, err := resolved(t.Context(), e); got != e || err != nil {
			t.Errorf("%v became %v: %v", e, got, err)
		}
	}
}

// TestQuotaOfAHostHoldsBackItsConnections: a quota that is stored under a host's name is in force as soon as it is set,
// and still after all settings were read again.
func TestQuotaOfAHostHoldsBackItsConnections(t *testing.T) {
	s := newServer(t, zookeeper(t), nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, s, "ips", "localhost", map[string]string{"connection_creation_rate": "1"})
	held := func() bool { return s.holdBack(net.IPv4(127, 0, 0, 1)) > 0 }
	testwait.Until(t, "the quota", func() bool { return held() })
	s.settingsMissed()
	if !held() {
		t.Error("the quota has been forgotten")
	}
}
