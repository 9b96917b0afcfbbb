package kerberos

import (
	"context"
	"errors"
	"testing"
)

// zone maps hosts to their addresses and addresses to their names.
type zone map[string][]string

func (z zone) LookupHost(_ context.Context, host string) ([]string, error) {
	if found, ok := z[host]; ok {
		return found, nil
	}
	return nil, errors.New("no such host")
}

func (z zone) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	return z.LookupHost(ctx, addr)
}

func TestPrincipalHost(t *testing.T) {
	z := zone{"192.0.2.1": {"Broker1.Example.COM.", "other."}, "broker1": {"192.0.2.1"}, "alias": {"192.0.2.1"}, "broker": {"192.0.2.1"},
		"broker1.example.com": {"::ffff:192.0.2.1"}, "192.0.2.4": {"spoof.example.com"}, "spoof.example.com": {"192.0.2.5"},
		"localhost": {"::1"}, "::1": {"localhost"}, "empty": {}, "192.0.2.3": {}}
	for host, want := range map[string]string{
		"Broker1.Example.COM": "broker1.example.com", "broker1.example.com.": "broker1.example.com",
		"192.0.2.1": "broker1.example.com", "192.0.2.2": "192.0.2.2", "192.0.2.3": "192.0.2.3", "192.0.2.4": "192.0.2.4", "::1": "localhost",
		"Broker1": "broker1.example.com", "alias": "alias", "broker": "broker", "localhost": "localhost", "unknown": "unknown", "empty": "empty",
	} {
		if got := principalHost(t.Context(), z, host); got != want {
			t.Errorf("%s has short name %s, want %s", host, got, want)
		}
	}
}
