package main

import (
	"net"
	"testing"
)

// The integration tests show the other outcome, in containers.
func TestHealthcheckFails(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
	}{
		{"nobody listens", []string{closed.Addr().String()}},
		{"no address", nil},
		{"not an address", []string{"a:b:c"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := healthcheck(test.args); got != 1 {
				t.Errorf("exit code %d, want 1", got)
			}
		})
	}
}
