package main

import (
	"testing"

	"barnabas/internal/testport"
)

// TestHealthcheckFails: the integration tests check successful ones, in containers.
func TestHealthcheckFails(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
	}{
		{"nobody listens", []string{testport.Address(t)}},
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
