package broker

import (
	"context"
	"errors"
	"maps"
	"net"
	"strings"
	"testing"

	"barnabas/broker/quota"
	"barnabas/config"
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

// TestConnectionRates: a listener's own limit replaces that of the broker for it, which otherwise applies to each listener
// and to all of them together, except the listener between brokers.
func TestConnectionRates(t *testing.T) {
	for _, test := range []struct {
		listeners string
		settings  map[string]string
		listener  string
		all, own  float64
	}{
		{"IN://:1,OUT://:2", nil, "OUT", quota.Unlimited, quota.Unlimited},
		{"IN://:1,OUT://:2", map[string]string{"max.connection.creation.rate": "5"}, "OUT", 5, 5},
		{"IN://:1,OUT://:2", map[string]string{"max.connection.creation.rate": "5"}, "IN", quota.Unlimited, 5},
		{"IN://:1", map[string]string{"max.connection.creation.rate": "5"}, "IN", 5, 5},
		{"IN://:1,OUT://:2", map[string]string{"max.connection.creation.rate": "5", "listener.name.in.max.connection.creation.rate": "7"}, "IN", quota.Unlimited, 7},
		{"IN://:1,OUT://:2", map[string]string{"listener.name.out.max.connection.creation.rate": "3"}, "OUT", quota.Unlimited, 3},
	} {
		given := map[string]string{
			"zookeeper.connect": "localhost:2181", "listeners": test.listeners, "inter.broker.listener.name": "IN",
			"advertised.listeners":           strings.ReplaceAll(test.listeners, "://:", "://localhost:"),
			"listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
		}
		maps.Copy(given, test.settings)
		c, err := config.Parse(given)
		if err != nil {
			t.Fatal(err)
		}
		if all, own := creationRates(c, test.listener); all != test.all || own != test.own {
			t.Errorf("%s of %s with %v: %v and %v, want %v and %v", test.listener, test.listeners, test.settings, all, own, test.all, test.own)
		}
	}
}

// TestConnectionLimitsOfHosts: max.connections.per.ip.overrides apply to the addresses of hosts and to addresses however
// they are written.
func TestConnectionLimitsOfHosts(t *testing.T) {
	s := newServer(t, zookeeper(t), nil)
	c, err := config.Parse(map[string]string{"zookeeper.connect": "localhost:2181", "max.connections.per.ip.overrides": "localhost:5,no.such.host.invalid:6,0:0:0:0:0:0:0:1:7"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.connectionLimits(c)
	if want := map[string]int{"127.0.0.1": 5, "::1": 7}; !maps.Equal(got.MaxPerIPOver, want) || err == nil || !strings.Contains(err.Error(), "no.such.host") {
		t.Errorf("limits by address: %v, %v, want %v", got.MaxPerIPOver, err, want)
	}
}

// TestHostsThatCannotBeFound: a host keeps its limit while it cannot be found, and is not looked up for changes of other
// settings.
func TestHostsThatCannotBeFound(t *testing.T) {
	lookups, hosts := 0, map[string]string{"a": "10.0.0.1"}
	h := limitedHosts{lookUp: func(_ context.Context, host string) (string, error) {
		lookups++
		if hosts[host] == "" {
			return "", errors.New("no such host")
		}
		return hosts[host], nil
	}}
	steps := []struct {
		what    string
		hosts   map[string]string
		limits  map[string]int
		want    map[string]int
		fails   bool
		lookups int
	}{
		{"at the start", hosts, map[string]int{"a": 1, "b": 2}, map[string]int{"10.0.0.1": 1}, true, 2},
		{"tried again", map[string]string{"b": "10.0.0.2"}, map[string]int{"a": 1, "b": 2}, map[string]int{"10.0.0.1": 1, "10.0.0.2": 2}, true, 4},
		{"tried again, found", map[string]string{"a": "10.0.0.3", "b": "10.0.0.2"}, map[string]int{"a": 1, "b": 2}, map[string]int{"10.0.0.3": 1, "10.0.0.2": 2}, false, 6},
		{"another setting has changed", nil, map[string]int{"a": 1, "b": 2}, map[string]int{"10.0.0.3": 1, "10.0.0.2": 2}, false, 6},
		{"other limits", nil, map[string]int{"a": 5}, map[string]int{"10.0.0.3": 5}, true, 7},
	}
	for _, step := range steps {
		hosts = step.hosts
		got, err := h.byAddress(t.Context(), step.limits)
		if !maps.Equal(got, step.want) || (err != nil) != step.fails || lookups != step.lookups {
			t.Errorf("%s: %v, %v after %d lookups, want %v after %d", step.what, got, err, lookups, step.want, step.lookups)
		}
	}
}
