package testport

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
)

// TestReserve: a reserved port is given out once, refuses connections until a server listens on it, and can be bound
// repeatedly.
func TestReserve(t *testing.T) {
	given := make(map[string]bool)
	for range 500 {
		given[Address(t)] = true
	}
	if len(given) != 500 {
		t.Errorf("%d of 500 ports are different", len(given))
	}
	for range 500 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		if given[l.Addr().String()] {
			t.Errorf("%s is also given to another caller", l.Addr())
		}
	}
	addr := Address(t)
	for _, host := range []string{"127.0.0.1", ""} {
		if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a client without a server: %v", err)
		}
		l, err := net.Listen("tcp", strings.Replace(addr, "127.0.0.1", host, 1))
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Close(), l.Close()
	}
}
