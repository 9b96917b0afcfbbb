package api

import (
	"context"
	"errors"
	"testing"

	"barnabas/broker/quota"
)

// TestQuotaValues: what is stored can be read by every broker of the cluster, where rates of bytes are a Java long and
// those of connections an int.
func TestQuotaValues(t *testing.T) {
	for _, c := range []struct {
		key     string
		value   float64
		address bool
		want    string // empty: refused
	}{
		{"producer_byte_rate", 1024, false, "1024"}, {"producer_byte_rate", 0.9999999, false, "1"}, {"producer_byte_rate", 0.5, false, ""},
		{"consumer_byte_rate", 1 << 62, false, "4611686018427387904"}, {"consumer_byte_rate", 1 << 63, false, "9223372036854775807"},
		{"consumer_byte_rate", 1 << 64, false, ""}, {"consumer_byte_rate", 1e300, false, ""},
		{"connection_creation_rate", 1<<31 - 1, true, "2147483647"}, {"connection_creation_rate", 1 << 31, true, ""},
		{"request_percentage", 1e6, false, "1000000.0"}, {"request_percentage", 12.5, false, "12.5"},
	} {
		if got, err := quotaValue(c.key, c.value, c.address); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s=%v is stored as %q, %v; want %q", c.key, c.value, got, err, c.want)
		}
	}
}

// TestQuotaOfAHostAfterTheRequest: a look-up that is given up is no answer to whether a host exists.
func TestQuotaOfAHostAfterTheRequest(t *testing.T) {
	stopping := errors.New("the broker stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopping)
	if _, err := quotaNode(ctx, quota.Entity{IP: quota.Named("host.invalid")}); !errors.Is(err, stopping) {
		t.Errorf("%v, want that %v", err, stopping)
	}
}
