package network

import (
	"net"
	"testing"
)

func TestHostName(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1": "127.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "::1": "0:0:0:0:0:0:0:1", "fe80::A:0b": "fe80:0:0:0:0:0:a:b",
	} {
		if got := hostName(net.ParseIP(address)); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
